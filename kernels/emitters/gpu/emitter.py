"""The emitter of an operator that is a contraction: all but its schedule space and its regions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from presil.simulators.gpu.spec import MultiplyType
from presil.simulators.machine import Machine
from presil.simulators.program import Place, Program

from ...operators.operator import Workload
from ...space import Schedule, Space
from . import estimate, schedules
from .contraction import Epilogue, Tile, kernel


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule worked out: block, grid, epilogue. `wasted`: why it is none of its own."""

    tile: Tile
    grid: tuple[tuple[str, int], ...]
    kind: MultiplyType
    epilogue: Epilogue
    wasted: str | None


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
        blocks = math.prod(size for _, size in found.grid)
        return estimate.cycles(found.tile, found.kind, found.epilogue, blocks, str(schedule["place"]), machine)

    def lower(self, workload: Workload, machine: Machine, schedule: Schedule) -> Program:
        """The program."""
        found = self.plan(workload, machine, schedule)
        name = (workload.operator, machine.name, str(workload))
        place: Place = "persistent" if schedule["place"] == "persistent" else "dispatch"
        tensors = schedules.tensors(workload, machine)
        return kernel(name, tensors, found.grid, place, found.tile, found.kind, found.epilogue)
