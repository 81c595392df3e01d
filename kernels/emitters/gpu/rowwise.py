"""The emitter of operators along rows on a GPU: their schedule space, and a schedule as a program."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from presil.simulators.formats import size_bytes
from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import Machine
from presil.simulators.program import Program

from ...operators import operator
from ...operators.operator import Workload
from ...space import Axis, Choice, Schedule, Space
from ..recipe import Recipe
from . import rowplan
from .rowplan import Plan
from .rowstreams import BLOCK, RowStreams
from .schedules import ladder, number, tensors

ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
STAGES: tuple[Choice, ...] = (2, 3, 4, 6, 8, "row")
TURNS = (1, 2, 4, 8, 16, 32)
NARROWEST = 512  # columns of a piece
WHOLE = "row"


@dataclass(frozen=True, slots=True)
class RowEmitter:
    """See `space.Emitter`. `recipe(workload, whole)`: rows in one piece, or in several.

    `online`: another recipe for several pieces, with fewer passes, where there is one.
    """

    operator: str
    recipe: Callable[[Workload, bool], Recipe]
    online: Callable[[Workload], Recipe] | None = None

    def space(self, workload: Workload, machine: Machine) -> Space:
        """Where rows lie, rows and columns at once, pieces in shared memory, turns of a block, how blocks follow."""
        axes = [
            Axis("hold", ("registers", "shared"), ordered=False),
            Axis("rows", ladder(workload.int("rows"), ROWS)),
            Axis("piece", _pieces(workload, machine)),
            Axis("stages", STAGES),
            Axis("turns", TURNS),
            Axis("place", ("dispatch", "persistent"), ordered=False),
        ]
        if self.online is not None:
            axes.append(Axis("sums", ("online", "apart"), ordered=False))
        return Space(tuple(axes))

    def legal(self, workload: Workload, machine: Machine, schedule: Schedule) -> str | None:
        """Registers, shared memory, and axes that would do nothing."""
        whole = schedule["stages"] == WHOLE
        if schedule["hold"] == "registers" and not whole:
            return "rows in registers are held whole"
        plan = self.plan(workload, schedule)
        if not whole and plan.pieces == plan.stages:
            return "as many stages as pieces: the row is held whole"
        if self.online is not None and plan.pieces == 1 and schedule["sums"] == "online":
            return "one piece needs no sums online"
        if workload.int("rows") <= (plan.blocks * plan.turns - 1) * plan.rows:
            return "a turn has no rows"
        return rowplan.refused(plan, machine)

    def prior_cycles(self, workload: Workload, machine: Machine, schedule: Schedule) -> float:
        """See `rowplan.cycles`."""
        return rowplan.cycles(self.plan(workload, schedule), machine)

    def lower(self, workload: Workload, machine: Machine, schedule: Schedule) -> Program:
        """The program."""
        plan = self.plan(workload, schedule)
        emitted = RowStreams(plan)
        return Program(
            name=workload.operator,
            machine=machine.name,
            workload=str(workload),
            tensors=tensors(workload, machine),
            buffers=plan.buffers,
            semaphores=emitted.semaphores,
            streams=emitted.streams,
            grid=((BLOCK, plan.blocks),),
            place="persistent" if plan.persistent else "dispatch",
        )

    def plan(self, workload: Workload, schedule: Schedule) -> Plan:
        """The block of a schedule."""
        return _plan(self, workload, schedule)


@functools.lru_cache(maxsize=16)  # asked again at once: is it legal, how long will it take, emit it
def _plan(emitter: RowEmitter, workload: Workload, schedule: Schedule) -> Plan:
    columns, rows, turns = workload.int("columns"), number(schedule, "rows"), number(schedule, "turns")
    piece = number(schedule, "piece")
    pieces = -(-columns // piece)
    online = emitter.online is not None and schedule["sums"] == "online"
    stages = 0
    if schedule["hold"] == "shared":
        stages = pieces if schedule["stages"] == WHOLE else number(schedule, "stages")
    return Plan(
        recipe=emitter.online(workload) if emitter.online and online else emitter.recipe(workload, pieces == 1),
        rows=rows,
        columns=columns,
        piece=piece,
        stages=stages,
        turns=turns,
        persistent=schedule["place"] == "persistent",
        blocks=-(-workload.int("rows") // (rows * turns)),
        dtype=workload.word("dtype"),
        output_dtype=operator(workload.operator).tensors(workload)[-1].dtype,
    )


def _pieces(workload: Workload, machine: Machine) -> tuple[int, ...]:
    """The whole row and parts of it, as alike as can be, down to narrow ones. Ascending."""
    columns, element = workload.int("columns"), size_bytes(workload.word("dtype"))
    unit = 16 // element  # the widest load of one thread
    found = {columns}
    parts = 2
    while -(-columns // parts) >= min(NARROWEST, columns):
        found.add(-(-columns // parts // unit) * unit)
        parts *= 2
    most = gpu(machine).occupancy.registers_per_thread * 512  # bytes of a warpgroup
    return tuple(sorted(n for n in found if n * element <= most)) or (NARROWEST,)
