"""The emitter of an operator that is a contraction: all but its schedule space and its regions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from presil.simulators.gpu.spec import MultiplyType, gpu
from presil.simulators.machine import Machine
from presil.simulators.program import Place, Program, Tensor

from ...operators.operator import Workload
from ...space import Schedule, Space
from . import combine, estimate, schedules
from .combine import Parts, plain
from .contraction import Epilogue, Tile, kernel


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule worked out: block, grid, epilogue. `wasted`: why it is none of its own.

    Where the sum is split, `tile` and `grid` are those of its `parts`, and `full` (tile, grid) are those of the columns
    before them, if there are any.
    """

    tile: Tile
    grid: tuple[tuple[str, int], ...]
    kind: MultiplyType
    epilogue: Epilogue
    wasted: str | None
    parts: Parts | None = None
    full: tuple[Tile, tuple[tuple[str, int], ...]] | None = None


@dataclass(frozen=True, slots=True)
class ContractionEmitter:
    """See `space.Emitter`. `space` and `plan` are what sets one operator apart from another."""

    operator: str
    space: Callable[[Workload, Machine], Space]
    plan: Callable[[Workload, Machine, Schedule], Plan]

    def legal(self, workload: Workload, machine: Machine, schedule: Schedule) -> str | None:
        """Registers, shared memory, and axes that would do nothing."""
        found = self.plan(workload, machine, schedule)
        return found.wasted or estimate.legal(found.tile, found.kind, found.epilogue, machine)

    def prior_cycles(self, workload: Workload, machine: Machine, schedule: Schedule) -> float:
        """See `estimate.cycles`."""
        found = self.plan(workload, machine, schedule)
        passes = [(found.tile, found.grid, plain(found.kind) if found.parts else found.epilogue)]
        if found.full:
            passes.append((*found.full, found.epilogue))
        total = -(len(passes) - 1) * (gpu(machine).launch - gpu(machine).follow) * machine.clock_hz
        for tile, grid, epilogue in passes:
            blocks = math.prod(size for _, size in grid)
            total += estimate.cycles(tile, found.kind, epilogue, blocks, str(schedule["place"]), machine)
        return total + (combine.cycles(found.parts, found.epilogue, machine) if found.parts else 0.0)

    def lower(self, workload: Workload, machine: Machine, schedule: Schedule) -> Program:
        """The program."""
        found = self.plan(workload, machine, schedule)
        name = (workload.operator, machine.name, str(workload))
        place: Place = "persistent" if schedule["place"] == "persistent" else "dispatch"
        tensors = schedules.tensors(workload, machine)
        if found.parts is None:
            return kernel(name, tensors, found.grid, place, found.tile, found.kind, found.epilogue)
        x, w, *bias, y = tensors
        before = None
        if found.full:
            tile, grid = found.full
            before = kernel(name, tensors, grid, place, tile, found.kind, found.epilogue)
        parts = Tensor(combine.NAME, found.kind.accumulator, found.parts.shape, "out", y.memory)
        first = kernel(name, (x, w, parts), found.grid, place, found.tile, found.kind, plain(found.kind))
        first = replace(first, before=before)
        return combine.combine(found.parts, (y, *bias), found.kind, found.epilogue, first)
