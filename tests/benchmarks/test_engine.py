"""What a simulation costs: the shape of the loops, not the work in them. Run by `make bench`."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from presil.kernels.emitters import emitter
from presil.kernels.operators import parse_workload
from presil.kernels.space import Schedule
from presil.simulators.machine import Machine, load_machine
from presil.simulators.program import Program
from presil.simulators.simulate import simulate

SIZES = (512, 1024, 2048, 4096, 8192)
CHOICES = {"bm": 128, "bn": 128, "bk": 128, "x_slots": 2, "w_slots": 2, "acc_slots": 2, "y_slots": 2, "order": "mn"}


@pytest.fixture(scope="module")
def machine() -> Machine:
    """One 128x128 int8 array."""
    return load_machine(Path(__file__).with_name("systolic-128.yaml"))


def tiled(size: int, machine: Machine) -> Program:
    """size x size x size int8 in blocks of 128, every ring double."""
    workload = parse_workload(f"matmul:m={size},n={size},k={size},dtype=int8")
    emits = emitter("matmul", machine.family)
    space = emits.space(workload, machine)
    axes = {axis.name: CHOICES.get(axis.name, axis.choices[0]) for axis in space.axes} | {"cores": "1"}
    return emits.lower(workload, machine, Schedule(tuple(axes.items())))


@pytest.mark.parametrize("size", SIZES)
def test_skip(benchmark: BenchmarkFixture, machine: Machine, size: int) -> None:
    """Engine time of one simulation in `skip` mode; `executed` of `issued` instructions were stepped through."""
    program = tiled(size, machine)
    timing = benchmark(lambda: simulate(program, machine).timing)
    benchmark.extra_info["executed"] = timing.executed_instructions
    benchmark.extra_info["issued"] = timing.issued_instructions
    assert timing.multiply_adds == size**3


def test_cost_does_not_grow_with_the_work(benchmark: BenchmarkFixture, machine: Machine) -> None:
    """The ratio of 4096 to 512, both measured in turns in one run."""
    small, large = tiled(512, machine), tiled(4096, machine)

    def seconds(program: Program) -> float:
        begin = time.perf_counter()
        simulate(program, machine)
        return time.perf_counter() - begin

    def ratio() -> float:
        pairs = [(seconds(large), seconds(small)) for _ in range(15)]
        return min(a for a, _ in pairs) / min(b for _, b in pairs)

    benchmark.extra_info["ratio"] = benchmark.pedantic(ratio, rounds=3, iterations=1)
    # The count of steps is exact, so it can be asserted: the larger has 512 times the work.
    steps = [simulate(p, machine).timing.executed_instructions for p in (small, large)]
    assert steps[1] < 2 * steps[0]
