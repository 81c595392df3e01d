"""A recipe cut into blocks of rows for a GPU: where the rows lie, in how many pieces, and whether a block fits.

A block is one warpgroup that takes some rows. They lie in its registers, each loaded once; or in shared memory, where a
warp copies them piece by piece: whole, or, where a row is too long, into a ring, once for each pass that reads them.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from presil.simulators.formats import size_bytes
from presil.simulators.machine import Machine
from presil.simulators.program import Buffer

from ..recipe import OUTPUT, Pass, Recipe
from . import streaming

WIDE = "fp32"  # of temporaries and statistics
ALIGNMENT = 16  # bytes; of the widest load of one thread
INPUT = "x"
MOST_SLOTS, RING_BYTES = 4, 8192  # of the rings of constants and of results

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`stages`: pieces in shared memory, 0 where rows lie in registers. `piece`: columns that a step is on at once.

    A block takes `turns` times `rows` rows.
    """

    recipe: Recipe
    rows: int
    columns: int
    piece: int
    stages: int
    turns: int
    persistent: bool
    blocks: int
    dtype: str
    output_dtype: str

    @property
    def shared(self) -> bool:
        """Whether rows lie in shared memory."""
        return self.stages > 0

    @property
    def pieces(self) -> int:
        """Pieces of a row; the last may be narrower."""
        return -(-self.columns // self.piece)

    @property
    def kept(self) -> bool:
        """Whether a row is read from memory once."""
        return not self.shared or self.stages == self.pieces

    @property
    def reading(self) -> tuple[Pass, ...]:
        """The passes that read the rows."""
        return tuple(p for p in self.recipe.passes if p.reads((INPUT,)))

    @property
    def tiles(self) -> int:
        """Pieces that a block reads from memory."""
        return self.pieces * (1 if self.kept else len(self.reading))

    @property
    def slots(self) -> int:
        """Of rows in registers: the next ones are on their way."""
        return min(2, self.turns)

    @property
    def constant_slots(self) -> int:
        """Pieces of the constants in shared memory."""
        return self._ring(self.piece)

    @property
    def output_slots(self) -> int:
        """Slots of the result in registers, where it is not made in place of rows that lie there."""
        return self.slots if self.recipe.row_output else self._ring(self.rows * self.piece)

    def _ring(self, elements: int) -> int:
        """Slots of `elements` each: 2, or up to 4 small ones; in a persistent block, a ring ends where it starts."""
        most = min(MOST_SLOTS, max(2, RING_BYTES // (elements * size_bytes(self.dtype))), self.pieces)
        return max(n for n in range(1, most + 1) if not self.persistent or self.pieces % n == 0)

    @property
    def home(self) -> dict[Pass, str]:
        """The register buffer that holds a piece of the rows in each pass, where they lie in shared memory.

        The pass that makes the result makes it in place, so it has a ring that is being stored.
        """
        return {p: OUTPUT if self.makes_result(p) and not self.recipe.row_output else INPUT for p in self.reading}

    @staticmethod
    def makes_result(each: Pass) -> bool:
        """Whether a pass writes the output."""
        return any(step.target == OUTPUT for step in each.steps)

    @functools.cached_property
    def buffers(self) -> tuple[Buffer, ...]:
        """Packed from offset 0 of each space."""
        recipe, piece = self.recipe, (self.rows, self.piece)
        wanted: list[tuple[str, str, Shape, int, str]] = []
        if self.shared:
            wanted.append((f"{INPUT}s", self.dtype, piece, self.stages, "shared"))
            wanted += [(f"{n}s", self.dtype, (self.piece,), self.constant_slots, "shared") for n in recipe.constants]
            wanted += [(f"{n}b", self.dtype, (self.piece,), 1, "registers") for n in recipe.constants]
            if INPUT in self.home.values():
                wanted.append((f"{INPUT}b", self.dtype, piece, 1, "registers"))
            if OUTPUT in self.home.values():
                wanted.append((f"{OUTPUT}b", self.dtype, piece, self.output_slots, "registers"))
        else:
            wanted.append((f"{INPUT}b", self.dtype, (self.rows, self.columns), self.slots, "registers"))
            wanted += [(f"{n}b", self.dtype, (self.columns,), 1, "registers") for n in recipe.constants]
        wanted += [(f"{n}b", WIDE, piece, 1, "registers") for n in recipe.temporaries]
        wanted += [(f"{n}b", WIDE, (self.rows, 1), 1, "registers") for n in recipe.statistics]
        if recipe.row_output:
            wanted.append((f"{OUTPUT}b", self.output_dtype, (self.rows, 1), self.output_slots, "registers"))
        return _packed(wanted)

    def bytes(self, space: str) -> int:
        """Bytes of the buffers in `space`."""
        return max((b.offset + _size(b) for b in self.buffers if b.space == space), default=0)

    @property
    def copying(self) -> int:
        """Warps that copy."""
        return (2 if self.recipe.constants else 1) if self.shared else 0

    def resident(self, machine: Machine) -> int:
        """Blocks that one SM holds at once."""
        fit = streaming.resident(self.bytes("registers"), self.bytes("shared"), self.copying, machine)
        return min(fit, 1) if self.persistent else fit


def _packed(wanted: list[tuple[str, str, Shape, int, str]]) -> tuple[Buffer, ...]:
    ends: dict[str, int] = {}
    found = []
    for name, dtype, shape, slots, space in wanted:
        offset = -(-ends.get(space, 0) // ALIGNMENT) * ALIGNMENT
        found.append(Buffer(name, dtype, shape, slots, space, offset))
        ends[space] = offset + _size(found[-1])
    return tuple(found)


def _size(buffer: Buffer) -> int:
    return buffer.slots * math.prod(buffer.shape) * size_bytes(buffer.dtype)


def refused(plan: Plan, machine: Machine) -> str | None:
    """Why a plan cannot be, or is none of its own, in a few words that many schedules share, or None."""
    if plan.shared and plan.turns > 1:
        return "rows in shared memory come once"
    if plan.shared and plan.stages > plan.pieces:
        return "more stages than pieces"
    if plan.persistent:
        if not plan.shared:
            return "loads to registers do not run ahead"
        if plan.blocks <= machine.cores:
            return "no core has a second block"
        if plan.tiles % plan.stages:
            return "the ring does not end where it starts"
    return streaming.refused(plan.bytes("registers"), plan.bytes("shared"), plan.copying, machine)


def cycles(plan: Plan, machine: Machine) -> float:
    """See `streaming.cycles`. What a wave of blocks reads again comes from the L2 where it is small enough."""
    held = plan.resident(machine)
    element, rows = size_bytes(plan.dtype), plan.turns * plan.rows
    tile = rows * plan.columns * element
    again = 0 if plan.kept else len(plan.reading) - 1
    missed = streaming.missed(tile * held * machine.cores, machine)
    vector = 0.0
    for each in plan.recipe.passes:
        vector += sum(rows * plan.columns / streaming.lanes(step.op, machine) for step in each.steps)
        vector += tile / streaming.shared_bytes_per_cycle(machine) if plan.shared else 0
    load = streaming.Load(
        read=tile * (1 + again * missed),
        written=rows * size_bytes(plan.output_dtype) * (1 if plan.recipe.row_output else plan.columns),
        cached=tile * again * (1 - missed) + len(plan.recipe.constants) * plan.columns * element,
        vector=vector,
        tiles=plan.tiles if plan.shared else plan.turns,
        slots=plan.stages if plan.shared else plan.slots,
        rings=_rings(plan, machine),
    )
    return streaming.cycles(load, plan.blocks, 0 if plan.persistent and not plan.kept else held, machine)


def _rings(plan: Plan, machine: Machine) -> float:
    """Cycles that the rings of constants and of results take at least where rows lie in shared memory."""
    if not plan.shared:
        return 0.0
    constants = streaming.copy_latency(machine) if plan.recipe.constants else 0.0
    results = 0.0 if plan.recipe.row_output else streaming.store_latency(machine)
    return plan.pieces * max(constants / plan.constant_slots, results / plan.output_slots)
