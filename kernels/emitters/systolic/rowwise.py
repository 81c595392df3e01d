"""The emitter of operators along rows: their schedule space, and a schedule as a program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from presil.simulators.errors import Unsupported
from presil.simulators.formats import size_bytes
from presil.simulators.machine import Machine
from presil.simulators.program import Program
from presil.simulators.systolic.spec import Systolic, systolic

from ...operators.operator import Workload
from ...space import Axis, Schedule, Space
from ..recipe import Recipe
from . import rowcycles, rowplan
from .assemble import CORE, tensors
from .rowplan import MOST_BLOCKS, Plan
from .rowstreams import RowStreams
from .schedules import number

NARROWEST_BYTES = 512  # of a block of columns, unless less is needed to fit

Recipes = Callable[[Workload, bool], Recipe]


@dataclass(slots=True)
class RowEmitter:
    """See `space.Emitter`. `recipe(workload, whole)` is for rows that lie on chip whole, or block by block."""

    operator: str
    recipe: Recipes

    def space(self, workload: Workload, machine: Machine) -> Space:
        """Rows and columns of a block, slots of the rings, cores, and whether constants stay."""
        spec = systolic(machine)
        recipe = self.recipe(workload, True)
        missing = [op for op in recipe.operations if op not in spec.vector.operations]
        if missing:
            raise Unsupported(f"the vector unit of {machine.name} has no {', '.join(missing)}")
        columns = self._columns(workload, spec)
        most = spec.scratchpad // (columns[0] * size_bytes(workload.word("dtype")))
        axes = [
            Axis("br", _divided(workload.int("rows"), max(most, 1))),
            Axis("bc", columns),
            Axis("slots", (1, 2, 3)),
            Axis("y_slots", (1, 2, 3)),
            Axis("cores", _cores(workload, machine)),
        ]
        if recipe.constants:
            axes.append(Axis("constants", ("keep", "stream"), ordered=False))
        return Space(tuple(axes))

    def legal(self, workload: Workload, machine: Machine, schedule: Schedule) -> str | None:
        """Capacity of the scratchpad, and the length of the program."""
        return rowplan.refused(self._plan(workload, schedule), systolic(machine))

    def prior_cycles(self, workload: Workload, machine: Machine, schedule: Schedule) -> float:
        """See `rowplan.cycles`."""
        return rowcycles.cycles(self._plan(workload, schedule), machine)

    def lower(self, workload: Workload, machine: Machine, schedule: Schedule) -> Program:
        """The program."""
        plan, spec = self._plan(workload, schedule), systolic(machine)
        emitted = RowStreams(plan, spec)
        return Program(
            name=workload.operator,
            machine=machine.name,
            workload=str(workload),
            tensors=tensors(workload, machine),
            buffers=emitted.buffers,
            semaphores=emitted.semaphores,
            streams=emitted.streams,
            grid=((CORE, plan.cores),) if plan.cores > 1 else (),
        )

    def _plan(self, workload: Workload, schedule: Schedule) -> Plan:
        whole = number(schedule, "bc") >= workload.int("columns")
        return rowplan.made(self.recipe(workload, whole), workload, schedule)

    def _columns(self, workload: Workload, spec: Systolic) -> tuple[int, ...]:
        """Columns of a block: the whole row and halves of it, down to what is narrow and fits. Ascending."""
        total, element = workload.int("columns"), size_bytes(workload.word("dtype"))
        unit = 64 // element  # whole bursts
        steps = [total]
        parts = 2
        while steps[-1] > unit and (steps[-1] * element > NARROWEST_BYTES or not self._fits(workload, steps[-1], spec)):
            width = -(-total // parts // unit) * unit
            parts *= 2
            if width < steps[-1]:
                steps.append(width)
        return tuple(reversed(steps))

    def _fits(self, workload: Workload, columns: int, spec: Systolic) -> bool:
        choices = (("br", 1), ("bc", columns), ("slots", 1), ("y_slots", 1), ("cores", 1), ("constants", "stream"))
        plan = self._plan(workload, Schedule(choices))
        return plan.column_blocks == 1 or rowplan.refused(plan, spec) != "does not fit the scratchpad"


def _divided(rows: int, most: int) -> tuple[int, ...]:
    """Rows of a block so that 1, 2, 3, 4, 6, 8, ... blocks are alike, up to `most` rows. Ascending."""
    found = set()
    parts = 1
    while parts <= min(2 * rows, MOST_BLOCKS):
        found |= {-(-rows // parts), -(-rows // (parts + parts // 2))}
        parts *= 2
    return tuple(sorted(n for n in found if n <= most)) or (1,)


def _cores(workload: Workload, machine: Machine) -> tuple[int, ...]:
    return tuple(k for k in range(1, machine.cores + 1) if rowplan.shared(workload, k))
