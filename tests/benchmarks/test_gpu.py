"""What it costs to time a whole GPU: hardly more than a few of its SMs. Run by `make bench`."""

from __future__ import annotations

import time

from pytest_benchmark.fixture import BenchmarkFixture

from presil.kernels.emitters import emitter
from presil.kernels.operators import parse_workload
from presil.kernels.space import Schedule
from presil.simulators.machine import load_machine
from presil.simulators.program import Program
from presil.simulators.simulate import simulate

H200 = load_machine("h200")
CHOICES = {"rows": 128, "columns": 256, "inner": 64, "stages": 4, "consumers": 2, "place": "persistent"}
ORDER = {"order": "m", "group": 4, "cluster": 2, "split": 1, "tail": 0}


def tiled(m: int, n: int, k: int) -> Program:
    """A bf16 product in blocks of 128 x 256."""
    workload = parse_workload(f"matmul:m={m},n={n},k={k},dtype=bf16,out=bf16")
    return emitter("matmul", "gpu").lower(workload, H200, Schedule(tuple({**CHOICES, **ORDER}.items())))


def test_a_product_of_8192_cubed_on_132_sms(benchmark: BenchmarkFixture) -> None:
    """Simulated whole: 2,048 blocks of 128 steps."""
    program = tiled(8192, 8192, 8192)
    timing = benchmark(lambda: simulate(program, H200).timing)
    benchmark.extra_info["executed"] = timing.executed_instructions
    benchmark.extra_info["issued"] = timing.issued_instructions
    assert timing.multiply_adds == 8192**3


def test_many_sms_cost_what_few_do(benchmark: BenchmarkFixture) -> None:
    """The ratio of 128 SMs with 512 blocks to 4 SMs with 16, both measured in turns in one run."""
    large, small = tiled(4096, 4096, 4096), tiled(512, 1024, 4096)
    many, few = H200.with_cores(128), H200.with_cores(4)

    def seconds(program: Program, machine: object) -> float:
        begin = time.perf_counter()
        simulate(program, machine)  # type: ignore[arg-type]
        return time.perf_counter() - begin

    def ratio() -> float:
        pairs = [(seconds(large, many), seconds(small, few)) for _ in range(10)]
        return min(a for a, _ in pairs) / min(b for _, b in pairs)

    benchmark.extra_info["ratio"] = benchmark.pedantic(ratio, rounds=3, iterations=1)
