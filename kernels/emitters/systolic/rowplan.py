"""A recipe cut into blocks for one core: how many tiles, which rings, and whether they fit."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from presil.simulators.formats import size_bytes
from presil.simulators.program import Affine
from presil.simulators.systolic.spec import Systolic

from ...operators import operator
from ...operators.operator import Workload
from ...space import Schedule
from ..recipe import OUTPUT, Pass, Recipe
from .assemble import CORE
from .blocking import ALIGNMENT, Shape
from .schedules import number
from .tiling import Axis, cut

MOST_BLOCKS = 1 << 18  # of one core: a longer program could not be judged in reasonable time
WIDE = "fp32"  # of temporaries and statistics


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Extents are those of one core. `kept`: constants are loaded whole, once; else they come with each block."""

    recipe: Recipe
    rows: int
    columns: int
    block_rows: int
    block_columns: int
    input_slots: int
    output_slots: int
    kept: bool
    cores: int
    split: str  # "rows" or "columns": what the cores share
    dtype: str
    output_dtype: str

    @property
    def row_blocks(self) -> int:
        """Blocks along the rows."""
        return -(-self.rows // self.block_rows)

    @property
    def column_blocks(self) -> int:
        """Blocks along the columns."""
        return -(-self.columns // self.block_columns)

    @functools.cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """What is loaded by one stream under one pair of semaphores: each input by itself, all constants together."""
        found: dict[str, tuple[str, ...]] = {name: (name,) for name in self.recipe.inputs}
        if self.recipe.constants:
            found["constants"] = self.recipe.constants
        return found

    def loaded_whole(self, group: str) -> bool:
        """Whether a group is loaded once, before all else."""
        return group == "constants" and self.kept

    def passes(self, group: str) -> tuple[Pass, ...]:
        """The passes that need the blocks of a group."""
        return tuple(p for p in self.recipe.passes if p.reads(self.groups[group]))

    def tiles(self, group: str) -> int:
        """Loads of each member of a group."""
        if self.loaded_whole(group):
            return 1
        return self.row_blocks * self.column_blocks * len(self.passes(group))

    def ring(self, group: str) -> int:
        """Slots of the rings of a group."""
        return min(self.input_slots, self.tiles(group))

    @property
    def output_tiles(self) -> int:
        """Blocks of the output."""
        return self.row_blocks * (1 if self.recipe.row_output else self.column_blocks)

    @property
    def output_ring(self) -> int:
        """Slots of the ring of the output."""
        return min(self.output_slots, self.output_tiles)

    def shape(self, name: str) -> Shape:
        """The shape of the largest block."""
        if name in self.recipe.constants:
            return (self.columns if self.kept else self.block_columns,)
        if name in self.recipe.statistics or (name == OUTPUT and self.recipe.row_output):
            return (self.block_rows, 1)
        return (self.block_rows, self.block_columns)

    @functools.cached_property
    def wanted(self) -> list[tuple[str, str, Shape, int, str]]:
        """(name, dtype, shape, slots, space) of every buffer, for `blocking.packed`."""
        found = []
        for group, members in self.groups.items():
            found += [(f"{m}b", self.dtype, self.shape(m), self.ring(group), "scratchpad") for m in members]
        found += [(f"{n}b", WIDE, self.shape(n), 1, "scratchpad") for n in self.recipe.temporaries]
        found += [(f"{n}b", WIDE, self.shape(n), 1, "scratchpad") for n in self.recipe.statistics]
        found.append((f"{OUTPUT}b", self.output_dtype, self.shape(OUTPUT), self.output_ring, "scratchpad"))
        return found

    @property
    def row_axis(self) -> Axis:
        """The blocks of rows."""
        offset = Affine.var(CORE, self.rows) if self.cores > 1 and self.split == "rows" else Affine()
        return cut("r", self.rows, self.block_rows, offset=offset)

    @property
    def column_axis(self) -> Axis:
        """The blocks of columns."""
        offset = Affine.var(CORE, self.columns) if self.cores > 1 and self.split == "columns" else Affine()
        return cut("c", self.columns, self.block_columns, offset=offset)


def shared(workload: Workload, cores: int) -> str | None:
    """What `cores` cores can share evenly: rows, or columns where no row is joined; None where neither divides."""
    if workload.int("rows") % cores == 0:
        return "rows"
    if workload.operator == "elementwise" and workload.int("columns") % cores == 0:
        return "columns"
    return None


def made(recipe: Recipe, workload: Workload, schedule: Schedule) -> Plan:
    """The plan of a schedule. A block is never larger than what one core has."""
    cores = number(schedule, "cores")
    split = shared(workload, cores) or "rows"
    rows, columns = (workload.int(d) // (cores if d == split else 1) for d in ("rows", "columns"))
    block_columns = min(number(schedule, "bc"), columns)
    return Plan(
        recipe=recipe,
        rows=rows,
        columns=columns,
        block_rows=min(number(schedule, "br"), rows),
        block_columns=block_columns,
        input_slots=number(schedule, "slots"),
        output_slots=number(schedule, "y_slots"),
        kept=not recipe.constants or dict(schedule.choices).get("constants", "keep") == "keep",
        cores=cores,
        split=split,
        dtype=workload.word("dtype"),
        output_dtype=operator(workload.operator).tensors(workload)[-1].dtype,
    )


def refused(plan: Plan, spec: Systolic) -> str | None:
    """Why a plan cannot be, in a few words that many schedules share, or None."""
    if plan.row_blocks * plan.column_blocks > MOST_BLOCKS:
        return "too many blocks"
    if not plan.kept and plan.column_blocks == 1:
        return "streams constants that need loading once"
    need = 0
    for _, dtype, shape, slots, _ in plan.wanted:
        size = slots * math.prod(shape) * size_bytes(dtype)
        need += -(-size // ALIGNMENT) * ALIGNMENT
    return "does not fit the scratchpad" if need > spec.scratchpad else None
