"""Kernels on the chip, beside the event model and the operator's own definition in numpy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

from presil.kernels.operators import Workload, operator, parse_workload
from presil.kernels.operators.operator import PATTERNS
from presil.kernels.space import Schedule
from presil.simulators.encoding import encode
from presil.simulators.family import family
from presil.simulators.machine import Machine, load_machine
from presil.simulators.program import Program
from presil.simulators.rtl.build import build
from presil.simulators.rtl.run import run_rtl
from presil.simulators.simulate import simulate
from presil.simulators.words import INSTRUCTIONS

from ..drawn import legal_schedules, lowered


def machine(size: int) -> Machine:
    return load_machine(f"systolic-{size}")


@functools.cache
def library(size: int) -> Path:
    """The chip of a size: built once, and kept in the user's cache."""
    return build("systolic", family("systolic").elaborate(machine(size)))


@functools.cache
def kernel(workload: str, size: int, seed: int = 1, **choices: str) -> Program:
    """A program of a workload: the first drawn schedule with these choices (`dataflow="os"`)."""
    task = parse_workload(workload)
    schedule = next(s for s in legal_schedules(task, machine(size), seed) if all(s[k] == v for k, v in choices.items()))
    return lowered(task, machine(size), schedule)


def drawn(workload: str, size: int, count: int, seed: int = 1) -> list[Schedule]:
    """Legal schedules whose programs the chip can hold; half of each dataflow where there are two."""
    task, target = parse_workload(workload), machine(size)
    found: dict[object, list[Schedule]] = {}
    for schedule in legal_schedules(task, target, seed):
        both = "dataflow" in dict(schedule.choices)
        some = found.setdefault(schedule["dataflow"] if both else "", [])
        if len(some) < count // (1 + both) and held(lowered(task, target, schedule), target):
            some.append(schedule)
        if sum(map(len, found.values())) == count:
            break
    return [schedule for some in found.values() for schedule in some]


def held(program: Program, target: Machine) -> bool:
    """Whether no stream is too long for the chip's memories of instructions."""
    return all(len(words) <= INSTRUCTIONS for words in encode(program, target).streams)


def difference(
    workload: Workload, target: Machine, program: Program, chip: Path | None, run: Callable[..., object] = run_rtl
) -> str | None:
    """Where the chip departs from numpy or from the event model, or None. Cycles may differ; counts may not."""
    inputs = operator(workload.operator).inputs(workload, 5, PATTERNS[0])
    right = operator(workload.operator).reference(workload, inputs)
    event = simulate(program, target, mode="full", inputs=inputs)
    rtl = run(program, target, inputs=inputs, poison_seed=7, library=chip)
    for name, wanted in right.items():
        for model, found in (("event", event.outputs[name]), ("rtl", rtl.outputs[name])):
            if found.dtype != program.tensor(name).dtype or not np.array_equal(found, wanted):
                return f"{model}: {int((found != wanted).sum())} of {wanted.size} elements of {name} are wrong"
    for what in ("traffic_bytes", "issued_instructions", "multiply_adds"):
        if getattr(event.timing, what) != getattr(rtl.timing, what):
            return f"{what}: {getattr(event.timing, what)} in the event model, {getattr(rtl.timing, what)} on the chip"
    return None
