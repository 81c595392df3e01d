"""The streams of a block of rows on a GPU.

In registers, one stream: load the constants and the first rows; by turns load the next rows and take the last ones
through the passes and to memory. Loads are in order, so that constants are there when rows are. In shared memory:

    copies      pieces of the rows, once for each pass that reads them, or once in all
    constants   pieces of the constants
    rows        each piece moves to registers and goes through the steps of the pass

The result is made in place of the rows. A wait that orders nothing is not written: what is never overwritten needs no
word that it may be.
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
    """Columns of some rows: number of the rows in the block, number of the piece, its first column, its columns."""

    turn: Affine
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
            rows = Stream("rows", self._rows(Affine()))
            self.streams: tuple[Stream, ...] = (Stream("copies", self._copies()), *constants, rows)
        else:
            self.streams = (Stream("rows", self._turns()),)

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
        """That a piece of the rows in shared memory may be written again."""
        return self._free("free", self.plan.tiles, self.plan.stages)

    def _constants_free(self) -> tuple[Count, ...]:
        return self._free("constants_free", self.plan.pieces, self.plan.constant_slots)

    def _stored(self) -> tuple[Count, ...]:
        """That a slot of the result may be written again."""
        plan = self.plan
        if self.recipe.row_output:
            return self._free("stored", plan.turns, plan.output_slots)
        if plan.shared:
            return self._free("stored", plan.pieces, plan.output_slots)
        # In place of the rows, of which the first are loaded without asking.
        return self._count("stored", (plan.slots - 1) * plan.pieces) if plan.turns > plan.slots else ()

    # Transfers.

    def _turns(self) -> tuple[Node, ...]:
        """All rows of a block, in registers."""
        # A result of one number a row is stored when the rows have been read.
        freed = () if self.recipe.row_output else self._stored()
        constants = (Instruction("load", (Region(f"{n}b", Affine()), Region(n))) for n in self.recipe.constants)
        later = self.plan.turns - 1
        first, last = self._loads(Affine(), ()), self._rows(Affine(later))
        if not later:
            return (*constants, *first, *last)

        def turn(number: Affine) -> tuple[Node, ...]:
            return (*self._loads(number + 1, freed), *self._rows(number))

        return (*constants, *first, *counted("turn", later, turn), *last)

    def _loads(self, turn: Affine, waits: tuple[Count, ...]) -> tuple[Node, ...]:
        """Rows to registers: a unit of `loaded` for each piece."""

        def load(piece: Piece) -> list[Node]:
            operands = (self._held(piece), self._tensor(INPUT, piece))
            return [Instruction("load", operands, (), waits, self._count("loaded"))]

        return self._over(load, turn)

    def _copies(self) -> tuple[Node, ...]:
        plan = self.plan

        def copies(number: int) -> tuple[Node, ...]:
            def copy(piece: Piece) -> list[Node]:
                operands = (self._slot(f"{INPUT}s", piece, number), self._tensor(INPUT, piece))
                return [Instruction("copy", operands, (), self._input_free(), self._count("full"))]

            return self._over(copy)

        return tuple(node for number in range(plan.tiles // plan.pieces) for node in copies(number))

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

    def _rows(self, turn: Affine) -> tuple[Node, ...]:
        """Some rows through all passes, and the result to memory."""
        nodes: list[Node] = []
        if self.recipe.row_output and self._stored():
            nodes.append(Instruction("sync", waits=self._stored()))
        for number, each in enumerate(self.recipe.passes):
            nodes += self._pass(each, number, turn)
        if self.recipe.row_output:
            # All steps up to here are in order; only the last one has to tell.
            nodes.append(Instruction("sync", signals=self._count("computed")))
            target = Region(OUTPUT, None, (self._block_rows(turn), Dim(Affine(), 1)))
            operands = (target, Region(f"{OUTPUT}b", turn))
            nodes.append(Instruction("store", operands, (), self._count("computed"), self._stored()))
        return tuple(nodes)

    def _pass(self, each: Pass, number: int, turn: Affine) -> list[Node]:
        whole = Piece(turn, Affine(), Affine(), self.plan.piece)

        def steps(piece: Piece) -> list[Node]:
            made = [self._step(step, each, piece) for step in each.steps]
            if self.plan.shared:
                made = [*self._moves(each, number, piece), *made]
            elif not number:
                made[0] = replace(made[0], waits=self._count("loaded"))
            if not self.plan.makes_result(each) or self.recipe.row_output:
                return [*made]
            made[-1] = replace(made[-1], signals=self._count("computed"))
            operands = (self._tensor(OUTPUT, piece), self._operand(OUTPUT, each, piece))
            return [*made, Instruction("store", operands, (), self._count("computed"), self._stored())]

        opening = [self._step(step, each, whole) for step in each.opening]
        closing = [self._step(step, each, whole) for step in each.closing]
        return [*opening, *self._over(steps, turn), *closing]

    def _moves(self, each: Pass, number: int, piece: Piece) -> list[Instruction]:
        """What pass `number` reads of a piece, from shared memory to registers."""
        plan = self.plan
        again, last = number and plan.kept, not plan.kept or number == len(plan.reading) - 1
        waits = () if again else self._count("full")
        if plan.home[each] == OUTPUT:
            waits += self._stored()
        operands = (self._operand(INPUT, each, piece), self._slot(f"{INPUT}s", piece, 0 if plan.kept else number))
        rows = Instruction("move", operands, (), waits, self._input_free() if last else ())
        constants = [
            Instruction("move", (self._operand(n, each, piece), self._constant(f"{n}s", piece, piece.index)))
            for n in self.recipe.constants
            if each.reads((n,))
        ]
        if constants:
            constants[0] = replace(constants[0], waits=self._count("constants_full"))
            constants[-1] = replace(constants[-1], signals=self._constants_free())
        return [rows, *constants]

    def _step(self, step: Step, each: Pass, piece: Piece) -> Instruction:
        operands = tuple(self._operand(name, each, piece) for name in (step.target, *step.sources))
        attributes = step.attributes
        if step.joined:
            index = piece.index
            value: Attribute = index if index.terms else int(index.base > 0)  # 0 at the first piece
            attributes = (("accumulate", value),)
        return Instruction(step.op, operands, attributes)

    # Regions.

    def _over(self, body: Callable[[Piece], Sequence[Node]], turn: Affine | None = None) -> tuple[Node, ...]:
        """`body` for each piece of some rows."""
        width, turn = self.plan.piece, turn or Affine()
        whole, rest = divmod(self.plan.columns, width)
        nodes = counted("c", whole, lambda c: body(Piece(turn, c, c * width, width)))
        if rest:
            nodes += tuple(body(Piece(turn, Affine(whole), Affine(whole * width), rest)))
        return nodes

    def _block_rows(self, turn: Affine) -> Dim:
        plan = self.plan
        block = Affine.var(BLOCK, plan.turns * plan.rows) if plan.blocks > 1 else Affine()
        return Dim(block + turn * plan.rows, plan.rows)

    def _tensor(self, name: str, piece: Piece) -> Region:
        return Region(name, None, (self._block_rows(piece.turn), Dim(piece.start, piece.columns)))

    def _held(self, piece: Piece) -> Region:
        """A piece of rows that lie in registers whole."""
        if self.plan.pieces == 1:
            return Region(f"{INPUT}b", piece.turn)
        return Region(f"{INPUT}b", piece.turn, (Dim(Affine(), self.plan.rows), Dim(piece.start, piece.columns)))

    def _slot(self, ring: str, piece: Piece, before: int) -> Region:
        """The slot of a ring for a piece, used `before` times for each piece before."""
        return Region(ring, piece.index + before * self.plan.pieces, self._filled(piece))

    def _constant(self, name: str, piece: Piece, slot: Affine) -> Region:
        part = () if piece.columns == self.plan.piece else (Dim(Affine(), piece.columns),)
        return Region(name, slot, part)

    def _filled(self, piece: Piece) -> tuple[Dim, ...]:
        """The part of a buffer of one piece that is used."""
        if piece.columns == self.plan.piece:
            return ()
        return (Dim(Affine(), self.plan.rows), Dim(Affine(), piece.columns))

    def _operand(self, name: str, each: Pass, piece: Piece) -> Region:
        """The register region that a name of the recipe means at a piece."""
        plan = self.plan
        if name == OUTPUT and self.recipe.row_output:
            return Region(f"{name}b", piece.turn)
        if name in self.recipe.statistics:
            return Region(f"{name}b", Affine())
        if name in self.recipe.temporaries:
            return Region(f"{name}b", Affine(), self._filled(piece))
        if name in self.recipe.constants:
            if plan.shared:
                return self._constant(f"{name}b", piece, Affine())
            return Region(f"{name}b", Affine(), () if plan.pieces == 1 else (Dim(piece.start, piece.columns),))
        if not plan.shared:
            return self._held(piece)
        if plan.home[each] == OUTPUT:
            return self._slot(f"{OUTPUT}b", piece, 0)
        return Region(f"{INPUT}b", Affine(), self._filled(piece))
