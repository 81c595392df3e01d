"""The event model against the RTL: kernels that no calibration has seen, on chips of several shapes and memories."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from presil.kernels.emitters import emitter
from presil.kernels.operators import Workload, operator, parse_workload
from presil.kernels.space import Schedule
from presil.simulators.errors import BadInput
from presil.simulators.machine import Machine, load_machine, parse_machine
from presil.simulators.rtl.run import run_rtl
from presil.simulators.simulate import simulate

MOST_ERROR_PERCENT = 3.0  # of a single kernel, in cycles
SCHEDULES = 2  # of each workload on each chip, drawn from the whole space

# Chips that come with presil, and 8x8 ones by what sets their memory and their transfers apart.
CHIPS = ("systolic-4", "systolic-8", "systolic-16")
MEMORIES = {
    "slow memory": ("bandwidth: {value: 2 GB/s, source: chosen}", ""),
    "far memory": (
        "latency: {value: 200 ns, source: chosen}",
        "in_flight_bytes: {value: 512, source: chosen}",
    ),
    "fast memory": ("bandwidth: {value: 16 GB/s, source: chosen}", "row_setup: {value: 3, source: chosen}"),
}
_VARIANT = """
name: systolic-8-{slug}
title: 8x8, {name}
extends: systolic-16
memories: {{dram: {{{memory}}}}}
systolic:
  array: {{rows: {{value: 8, source: chosen}}, columns: {{value: 8, source: chosen}}}}
  scratchpad: {{value: 32 KiB, source: chosen}}
  accumulator: {{value: 16 KiB, source: chosen}}
  dma: {{{dma}}}
"""
WORKLOADS = (
    "matmul:m=37,n=22,k=29,dtype=int8",
    "matmul:m=64,n=24,k=40,dtype=int8,out=int8,bias=yes,activation=relu",
    "conv2d:n=1,h=9,w=11,c=6,f=10,r=3,s=3,padding=1,dtype=int8,out=int8",
    "conv2d:n=2,h=8,w=7,c=5,f=9,r=3,s=2,stride=2,dtype=int8",
)


@dataclass(frozen=True, slots=True)
class RtlRow:
    """One kernel on both: cycles, and whether numpy, the event model and the RTL have the same bits."""

    row: str
    machine: str
    workload: str
    schedule: str
    event_cycles: float
    rtl_cycles: float
    equal: bool

    @property
    def error_percent(self) -> float:
        """Of the event model against the RTL."""
        return 100 * (self.event_cycles / self.rtl_cycles - 1)

    @property
    def good(self) -> bool:
        """The same bits, and cycles within what is promised."""
        return self.equal and abs(self.error_percent) <= MOST_ERROR_PERCENT


def validate_rtl(family: str, seed: int = 0, progress: Callable[[int, int], None] | None = None) -> tuple[RtlRow, ...]:
    """Every kernel on both. The schedules are drawn with `seed`. Raises BadInput for a family without RTL."""
    if family != "systolic":
        raise BadInput(f"there is no RTL of the family '{family}'; there is: systolic")
    rows: list[RtlRow] = []
    chips = [*map(load_machine, CHIPS), *map(_variant, MEMORIES)]
    total = len(chips) * len(WORKLOADS) * SCHEDULES
    for machine in chips:
        for workload in map(parse_workload, WORKLOADS):
            for schedule in _schedules(workload, machine, seed):
                rows.append(_compare(f"RTL-{len(rows) + 1:03}", machine, workload, schedule))
                if progress is not None:
                    progress(len(rows), total)
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class RtlErrors:
    """Mean and largest error of the cycles, as shares of the RTL's, and the kernel that has the largest."""

    kernels: int
    mean_abs_error: float
    max_abs_error: float
    worst: str


def errors(rows: Sequence[RtlRow]) -> RtlErrors:
    """Over all rows, of which there is one at least."""
    worst = max(rows, key=lambda r: abs(r.error_percent))
    return RtlErrors(
        len(rows),
        statistics.fmean(abs(r.error_percent) for r in rows) / 100,
        abs(worst.error_percent) / 100,
        f"{worst.workload} on {worst.machine}: {worst.schedule}",
    )


def _variant(name: str) -> Machine:
    memory, dma = MEMORIES[name]
    text = _VARIANT.format(slug=name.replace(" ", "-"), name=name, memory=memory, dma=dma)
    return parse_machine(text, f"<{name}>")


def _schedules(workload: Workload, machine: Machine, seed: int) -> Iterator[Schedule]:
    made, chance = emitter(workload.operator, machine.family), random.Random(f"{seed} {workload} {machine.name}")
    space = made.space(workload, machine)
    found: set[int] = set()
    while len(found) < SCHEDULES:
        rank = chance.randrange(space.count())
        schedule = space.unrank(rank)
        if rank not in found and made.legal(workload, machine, schedule) is None:
            found.add(rank)
            yield schedule


def _compare(row: str, machine: Machine, workload: Workload, schedule: Schedule) -> RtlRow:
    program = emitter(workload.operator, machine.family).lower(workload, machine, schedule)
    task = operator(workload.operator)
    inputs = task.inputs(workload, 0, "random")
    event = simulate(program, machine, mode="full", inputs=inputs)
    rtl = run_rtl(program, machine, inputs=inputs)
    wanted = task.reference(workload, inputs)
    equal = all(
        np.array_equal(wanted[name], event.outputs[name]) and np.array_equal(wanted[name], rtl.outputs[name])
        for name in wanted
    )
    return RtlRow(row, machine.name, str(workload), str(schedule), event.timing.cycles, rtl.timing.cycles, equal)
