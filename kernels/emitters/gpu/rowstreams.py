"""The streams of a block of rows on a GPU.

In registers, one stream: load all pieces and the constants, go through the passes, store. In shared memory:

    copies      pieces of the rows, once for each pass that reads them, or once in all
    constants   pieces of the constants
    rows        each piece moves to registers and goes through the steps of the pass; the result is made in place

A wait that orders nothing is not written: what is never overwritten needs no word that it may be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from presil.simulators.program import (
    Affine,
    Attribute,
    Count,
    Dim,
    Instruction,
    Node,
    Region,
    Semaphore,
    Stream,
)

from ..recipe import OUTPUT, Pass, Step
from .rowplan import INPUT, Plan
from .streaming import counted

BLOCK = "block"  # the grid variable


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the rows: its number, its first column, its columns."""

    index: Affine
    start: Affine
    columns: int


class RowStreams:
    """Emits the streams and semaphores of one block."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.recipe = plan, plan.recipe
        self.initial: dict[str, int] = {}  # semaphores used so far
        if plan.shared:
            constants = (Stream("constants", self._constant_copies()),) if plan.recipe.constants else ()
            self.streams: tuple[Stream, ...] = (
                Stream("copies", self._copies()),
                *constants,
                Stream("rows", self._rows()),
            )
        else:
            self.streams = (Stream("rows", (*self._loads(), *self._rows())),)

    @property
    def semaphores(self) -> tuple[Semaphore, ...]:
        """The semaphores that the streams use."""
        return tuple(Semaphore(name, initial) for name, initial in self.initial.items())

    # Semaphores.

    def _count(self, name: str, initial: int = 0, n: int = 1) -> tuple[Count, ...]:
        self.initial.setdefault(name, initial)
        return (Count(name, n),)

    def _free(self, name: str, tiles: int, slots: int) -> tuple[Count, ...]:
        """The unit that says a slot of a ring may be written again; none where no slot ever is."""
        return self._count(name, slots) if tiles > slots or self.plan.persistent else ()

    def _input_free(self) -> tuple[Count, ...]:
        return self._free("free", self.plan.tiles, self.plan.stages)

    def _constants_free(self) -> tuple[Count, ...]:
        return self._free("constants_free", self.plan.pieces, self.plan.constant_slots)

    def _stored(self) -> tuple[Count, ...]:
        """That a slot of the result may be written again."""
        plan = self.plan
        if not plan.shared:
            return ()
        return self._free("stored", 1 if self.recipe.row_output else plan.pieces, plan.output_slots)

    # Transfers.

    def _loads(self) -> tuple[Node, ...]:
        """All of a block to registers: a unit of `loaded` for each piece."""
        loads = self._over(
            lambda piece: [Instruction("load", (self._held(piece), self._source(piece)), signals=self._count("loaded"))]
        )
        return (
            *loads,
            *(
                Instruction("load", (Region(f"{n}b", Affine()), Region(n)), signals=self._count("constants"))
                for n in self.recipe.constants
            ),
        )

    def _copies(self) -> tuple[Node, ...]:
        plan = self.plan

        def copy(turn: int) -> tuple[Node, ...]:
            return self._over(
                lambda piece: [
                    Instruction(
                        "copy",
                        (self._slot(f"{INPUT}s", piece, turn), self._source(piece)),
                        waits=self._input_free(),
                        signals=self._count("full"),
                    )
                ]
            )

        return tuple(node for turn in range(plan.tiles // plan.pieces) for node in copy(turn))

    def _constant_copies(self) -> tuple[Node, ...]:
        def copies(piece: Piece) -> list[Node]:
            part = (Dim(piece.start, piece.columns),)
            found = [
                Instruction("copy", (self._constant(f"{n}s", piece, piece.index), Region(n, None, part)))
                for n in self.recipe.constants
            ]
            found[0] = replace(found[0], waits=self._constants_free())
            found[-1] = replace(found[-1], signals=self._count("constants_full"))
            return [*found]

        return self._over(copies)

    # The passes.

    def _rows(self) -> tuple[Node, ...]:
        nodes: list[Node] = []
        if self.recipe.row_output and self._stored():
            nodes.append(Instruction("sync", waits=self._stored()))
        for turn, each in enumerate(self.recipe.passes):
            nodes += self._pass(each, turn)
        if self.recipe.row_output:
            block = Region(OUTPUT, None, (self._block_rows(), Dim(Affine(), 1)))
            # All steps up to here are in order; only the last one has to tell.
            nodes.append(Instruction("sync", signals=self._count("computed")))
            operands = (block, Region(f"{OUTPUT}b", Affine()))
            nodes.append(Instruction("store", operands, (), self._count("computed"), self._stored()))
        return tuple(nodes)

    def _pass(self, each: Pass, turn: int) -> list[Node]:
        piece_of_none = Piece(Affine(), Affine(), self.plan.piece)

        def steps(piece: Piece) -> list[Node]:
            nodes = self._arrivals(each, turn, piece)
            made = [self._step(step, each, piece) for step in each.steps]
            if self.plan.makes_result(each) and not self.recipe.row_output:
                made[-1] = replace(made[-1], signals=self._count("computed"))
                target = Region(OUTPUT, None, (self._block_rows(), Dim(piece.start, piece.columns)))
                operands = (target, self._operand(OUTPUT, each, piece))
                return [*nodes, *made, Instruction("store", operands, (), self._count("computed"), self._stored())]
            return [*nodes, *made]

        needs = [n for n in self.recipe.constants if each.reads((n,))]
        head: list[Node] = []
        if needs and not self.plan.shared:
            head.append(Instruction("sync", waits=self._count("constants", n=len(self.recipe.constants))))
        head += [self._step(step, each, piece_of_none) for step in each.opening]
        return [*head, *self._over(steps), *(self._step(step, each, piece_of_none) for step in each.closing)]

    def _arrivals(self, each: Pass, turn: int, piece: Piece) -> list[Node]:
        """Waits for what a pass reads of a piece, and brings it to registers."""
        plan = self.plan
        first = not turn
        if not plan.shared:
            return [Instruction("sync", waits=self._count("loaded"))] if first else []
        last = turn == len(plan.reading) - 1
        own = plan.home[each] == OUTPUT
        moves: list[Node] = [
            Instruction(
                "move",
                (self._operand(INPUT, each, piece), self._slot(f"{INPUT}s", piece, 0 if plan.kept else turn)),
                (),
                (*(self._count("full") if first or not plan.kept else ()), *(self._stored() if own else ())),
                self._input_free() if last or not plan.kept else (),
            )
        ]
        constants = [
            Instruction("move", (self._operand(n, each, piece), self._constant(f"{n}s", piece, piece.index)))
            for n in self.recipe.constants
            if each.reads((n,))
        ]
        if constants:
            constants[0] = replace(constants[0], waits=self._count("constants_full"))
            constants[-1] = replace(constants[-1], signals=self._constants_free())
        return [*moves, *constants]

    def _step(self, step: Step, each: Pass, piece: Piece) -> Instruction:
        operands = tuple(self._operand(name, each, piece) for name in (step.target, *step.sources))
        attributes = step.attributes
        if step.joined:
            index = piece.index
            value: Attribute = index if index.terms else int(index.base > 0)  # 0 at the first piece
            attributes = (("accumulate", value),)
        return Instruction(step.op, operands, attributes)

    # Regions.

    def _over(self, body: Callable[[Piece], Sequence[Node]]) -> tuple[Node, ...]:
        """`body` for each piece of a row."""
        plan = self.plan
        whole, rest = divmod(plan.columns, plan.piece)
        nodes = counted("c", whole, lambda c: body(Piece(c, c * plan.piece, plan.piece)))
        if rest:
            nodes += tuple(body(Piece(Affine(whole), Affine(whole * plan.piece), rest)))
        return nodes

    def _block_rows(self) -> Dim:
        return Dim(Affine.var(BLOCK, self.plan.rows) if self.plan.blocks > 1 else Affine(), self.plan.rows)

    def _source(self, piece: Piece) -> Region:
        return Region(INPUT, None, (self._block_rows(), Dim(piece.start, piece.columns)))

    def _held(self, piece: Piece) -> Region:
        """A piece of rows that lie in registers whole."""
        if self.plan.pieces == 1:
            return Region(f"{INPUT}b", Affine())
        return Region(f"{INPUT}b", Affine(), (Dim(Affine(), self.plan.rows), Dim(piece.start, piece.columns)))

    def _slot(self, ring: str, piece: Piece, turn: int) -> Region:
        """The slot of a ring for a piece, used `turn` times over the columns before."""
        return Region(ring, piece.index + turn * self.plan.pieces, self._filled(piece))

    def _constant(self, name: str, piece: Piece, slot: Affine) -> Region:
        part = () if piece.columns == self.plan.piece else (Dim(Affine(), piece.columns),)
        return Region(name, slot, part)

    def _filled(self, piece: Piece) -> tuple[Dim, ...]:
        if piece.columns == self.plan.piece:
            return ()
        return (Dim(Affine(), self.plan.rows), Dim(Affine(), piece.columns))

    def _operand(self, name: str, each: Pass, piece: Piece) -> Region:
        """The register region that a name of the recipe means at a piece."""
        plan = self.plan
        if name in self.recipe.statistics or (name == OUTPUT and self.recipe.row_output):
            return Region(f"{name}b", Affine())
        if name in self.recipe.temporaries:
            return Region(f"{name}b", Affine(), self._filled(piece))
        if name in self.recipe.constants:
            if plan.shared:
                return self._constant(f"{name}b", piece, Affine())
            return Region(f"{name}b", Affine(), () if plan.pieces == 1 else (Dim(piece.start, piece.columns),))
        if not plan.shared:  # the result takes the place of the rows
            return self._held(piece)
        if plan.home[each] == OUTPUT:
            return self._slot(f"{OUTPUT}b", piece, 0)
        return Region(f"{INPUT}b", Affine(), self._filled(piece))
