"""The emitter of an operator that is a contraction: all but its schedule space and its layout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from presil.simulators.machine import Machine
from presil.simulators.program import Program
from presil.simulators.systolic.spec import systolic

from ...operators.operator import Workload
from ...space import Schedule, Space
from . import estimate
from .assemble import assemble, epilogue, tensors
from .blocking import Blocking, Layout
from .contraction import Contraction


@dataclass(frozen=True, slots=True)
class ContractionEmitter:
    """See `space.Emitter`. `space` and `plan` are what sets one operator apart from another."""

    operator: str
    space: Callable[[Workload, Machine], Space]
    plan: Callable[[Workload, Machine, Schedule], tuple[Layout, Blocking]]

    def legal(self, workload: Workload, machine: Machine, schedule: Schedule) -> str | None:
        """Capacity of every space, arrays, and axes that would do nothing."""
        layout, blocking = self.plan(workload, machine, schedule)
        return estimate.legal(layout, blocking, epilogue(workload), systolic(machine))

    def prior_cycles(self, workload: Workload, machine: Machine, schedule: Schedule) -> float:
        """See `estimate.cycles`."""
        layout, blocking = self.plan(workload, machine, schedule)
        return estimate.cycles(layout, blocking, epilogue(workload), tensors(workload, machine), machine)

    def lower(self, workload: Workload, machine: Machine, schedule: Schedule) -> Program:
        """The program."""
        layout, blocking = self.plan(workload, machine, schedule)
        contraction = Contraction(layout, blocking, epilogue(workload), systolic(machine))
        return assemble(workload, machine, schedule, contraction)
