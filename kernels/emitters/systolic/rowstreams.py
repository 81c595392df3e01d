"""The streams of a plan along rows: blocks come in, go through the passes of the recipe, and leave.

  load NAME, load constants   blocks from memory into rings, once for each pass that reads them
  vector                      the steps of the recipe; temporaries and statistics are its own and need no semaphore
  store                       blocks of the output to memory

Each ring has a pair of semaphores, `NAME_full` and `NAME_free`, one unit a tile. A ring that is never reused has no
`free`: a wait that orders nothing is not written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from presil.simulators.program import (
    Affine,
    Attribute,
    Buffer,
    Count,
    Dim,
    Instruction,
    Node,
    Region,
    Semaphore,
    Stream,
)
from presil.simulators.systolic.spec import Systolic

from ..recipe import OUTPUT, Pass, Step
from .blocking import Dims, filled, packed
from .rowplan import Plan
from .tiling import Condition, Places, nest

Blocks = Callable[[Places, int], list[Node]]


class RowStreams:
    """Emits the streams, buffers and semaphores of one core."""

    def __init__(self, plan: Plan, spec: Systolic) -> None:
        self.plan, self.recipe, self.spec = plan, plan.recipe, spec
        self.row_axis, self.column_axis = plan.row_axis, plan.column_axis
        self.initial: dict[str, int] = {}  # semaphores used so far
        last = spec.dma.load_channels - 1
        loads = [Stream(f"load_{group}", self._load(group), min(i, last)) for i, group in enumerate(plan.groups)]
        self.streams = (*loads, Stream("vector", self._vector()), Stream("store", self._store()))

    @property
    def semaphores(self) -> tuple[Semaphore, ...]:
        """The semaphores that the streams use."""
        return tuple(Semaphore(name, initial) for name, initial in self.initial.items())

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """All buffers, packed from offset 0."""
        return packed(self.plan.wanted)

    def _full(self, ring: str) -> tuple[Count, ...]:
        self.initial.setdefault(f"{ring}_full", 0)
        return (Count(f"{ring}_full"),)

    def _free(self, ring: str) -> tuple[Count, ...]:
        """The unit that says a slot may be written again; none for a ring that is never reused."""
        plan = self.plan
        tiles, slots = (plan.output_tiles, plan.output_ring) if ring == OUTPUT else (plan.tiles(ring), plan.ring(ring))
        if tiles <= slots:
            return ()
        self.initial.setdefault(f"{ring}_free", slots)
        return (Count(f"{ring}_free"),)

    # Transfers.

    def _load(self, group: str) -> tuple[Node, ...]:
        plan = self.plan
        if plan.loaded_whole(group):
            return tuple(self._loads(group, [(Region(f"{m}b", Affine()), Region(m)) for m in plan.groups[group]]))

        def block(places: Places, turn: int) -> list[Node]:
            slot = self._tile(places, turn, len(plan.passes(group)))
            pairs = [
                (Region(f"{m}b", slot, self._filled(m, places)), Region(m, None, self._source(m, places)))
                for m in plan.groups[group]
            ]
            return self._loads(group, pairs)

        return self._walk(len(plan.passes(group)), block)

    def _loads(self, group: str, pairs: list[tuple[Region, Region]]) -> list[Node]:
        """One tile of each member: the first waits for the slots, the last says that all are there."""
        loads = [Instruction("load", pair) for pair in pairs]
        loads[0] = replace(loads[0], waits=self._free(group))
        loads[-1] = replace(loads[-1], signals=self._full(group))
        return [*loads]

    def _store(self) -> tuple[Node, ...]:
        def store(places: Places, slot: Affine) -> Instruction:
            block = Region(f"{OUTPUT}b", slot, self._filled(OUTPUT, places))
            target = Region(OUTPUT, None, self._source(OUTPUT, places))
            return Instruction("store", (target, block), (), self._full(OUTPUT), self._free(OUTPUT))

        if self.recipe.row_output:
            return nest((self.row_axis,), lambda places, _: [store(places, places["r"].index)])
        return self._walk(1, lambda places, turn: [store(places, self._tile(places, turn, 1))])

    def _walk(self, turns: int, block: Blocks) -> tuple[Node, ...]:
        """For each block of rows, `turns` times over the blocks of columns."""

        def rows(places: Places, true: frozenset[str]) -> list[Node]:
            def columns(turn: int) -> tuple[Node, ...]:
                return nest((self.column_axis,), lambda inner, _: block({**places, **inner}, turn))

            return [node for turn in range(turns) for node in columns(turn)]

        return nest((self.row_axis,), rows)

    # The vector unit.

    def _vector(self) -> tuple[Node, ...]:
        head = [Instruction("sync", waits=self._full(g)) for g in self.plan.groups if self.plan.loaded_whole(g)]

        def rows(places: Places, true: frozenset[str]) -> list[Node]:
            nodes: list[Node] = []
            for each in self.recipe.passes:
                nodes += self._pass(each, places)
            return nodes

        return (*head, *nest((self.row_axis,), rows))

    def _pass(self, each: Pass, outer: Places) -> list[Node]:
        conditions = []
        if self.recipe.row_output:  # the ring of the output moves on once for all blocks of columns
            conditions.append(Condition("last", "last", frozenset({"c"})))
            if self._free(OUTPUT):
                conditions.append(Condition("first", "first", frozenset({"c"})))

        def block(inner: Places, true: frozenset[str]) -> list[Instruction]:
            places = {**outer, **inner}
            ends = true if self.recipe.row_output else frozenset({"first", "last"})
            return [self._step(each, i, places, ends) for i in range(len(each.steps))]

        nodes: list[Node] = [self._instruction(step, each, outer, (), ()) for step in each.opening]
        nodes += nest((self.column_axis,), block, conditions)
        return nodes + [self._instruction(step, each, outer, (), ()) for step in each.closing]

    def _step(self, each: Pass, position: int, places: Places, ends: frozenset[str]) -> Instruction:
        """Step number `position` of a pass, with the semaphores of the rings that it is the first or last to use."""
        waits: tuple[Count, ...] = ()
        signals: tuple[Count, ...] = ()
        for group, members in self.plan.groups.items():
            users = [i for i, s in enumerate(each.steps) if set(members) & set(s.sources)]
            if self.plan.loaded_whole(group) or position not in users:
                continue
            waits += self._full(group) if position == users[0] else ()
            signals += self._free(group) if position == users[-1] else ()
        writers = [i for i, s in enumerate(each.steps) if s.target == OUTPUT]
        if writers and position == writers[0] and "first" in ends:
            waits += self._free(OUTPUT)
        if writers and position == writers[-1] and "last" in ends:
            signals += self._full(OUTPUT)
        return self._instruction(each.steps[position], each, places, waits, signals)

    def _instruction(
        self, step: Step, each: Pass, places: Places, waits: tuple[Count, ...], signals: tuple[Count, ...]
    ) -> Instruction:
        operands = tuple(self._operand(name, each, places) for name in (step.target, *step.sources))
        attributes = step.attributes
        if step.joined:
            index = places["c"].index
            value: Attribute = index if index.terms else int(index.base > 0)  # 0 at the first block of columns
            attributes = (("accumulate", value),)
        return Instruction(step.op, operands, attributes, waits, signals)

    def _operand(self, name: str, each: Pass, places: Places) -> Region:
        plan, slot = self.plan, Affine()
        if name == OUTPUT:
            slot = places["r"].index if self.recipe.row_output else self._tile(places, 0, 1)
        for group, members in plan.groups.items():
            if name in members and not plan.loaded_whole(group):
                passes = plan.passes(group)
                slot = self._tile(places, next(i for i, p in enumerate(passes) if p is each), len(passes))
        return Region(f"{name}b", slot, self._filled(name, places))

    # Places.

    def _tile(self, places: Places, turn: int, turns: int) -> Affine:
        """The number of a tile that is used at every block, `turns` times over the columns of each block of rows."""
        columns = self.column_axis.count
        return places["r"].index * (turns * columns) + (turn * columns) + places["c"].index

    def _filled(self, name: str, places: Places) -> Dims:
        """The part of a buffer that the block at `places` fills."""
        plan = self.plan
        shape = plan.shape(name)
        if name in self.recipe.constants:
            if not plan.kept:
                return filled((places["c"].size,), shape)
            if plan.column_blocks == 1:
                return ()
            return (Dim(places["c"].start, places["c"].size),)
        columns = 1 if shape[1] == 1 else places["c"].size
        return filled((places["r"].size, columns), shape)

    def _source(self, name: str, places: Places) -> Dims:
        """The part of a tensor that the block at `places` is."""
        if name in self.recipe.constants:
            return (Dim(places["c"].start, places["c"].size),)
        rows = Dim(places["r"].start, places["r"].size)
        if name == OUTPUT and self.recipe.row_output:
            return (rows, Dim(Affine(), 1))
        return (rows, Dim(places["c"].start, places["c"].size))
