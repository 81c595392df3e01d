"""Legal schedules drawn at random."""

from __future__ import annotations

import random
from collections.abc import Iterator

from presil.kernels.emitters import emitter
from presil.kernels.operators import Workload
from presil.kernels.space import Schedule
from presil.simulators.machine import Machine
from presil.simulators.program import Program


def legal_schedules(workload: Workload, machine: Machine, seed: int, tries: int = 3000) -> Iterator[Schedule]:
    """Legal schedules of the whole space, in random order, with repetitions."""
    made, chance = emitter(workload.operator, "systolic"), random.Random(seed)
    space = made.space(workload, machine)
    for _ in range(tries):
        schedule = space.unrank(chance.randrange(space.count()))
        if made.legal(workload, machine, schedule) is None:
            yield schedule


def lowered(workload: Workload, machine: Machine, schedule: Schedule) -> Program:
    """The program of a schedule."""
    return emitter(workload.operator, "systolic").lower(workload, machine, schedule)
