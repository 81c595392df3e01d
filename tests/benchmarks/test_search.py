"""What a search costs and what it is worth: candidates per second, and regret against exhausted spaces.

Run by `make bench`. The regret is a test of its own too (slow), since it needs no clock.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from presil.kernels.ignition.candidates import Candidates
from presil.kernels.ignition.exhaustive import regret
from presil.kernels.ignition.explore import explore
from presil.kernels.ignition.measure import evaluator_for
from presil.kernels.ignition.pool import Pool
from presil.kernels.ignition.proposer import BATCH, Proposer
from presil.kernels.operators import parse_workload
from presil.simulators.machine import load_machine

BUDGET = 200
ONE_ARRAY = str(Path(__file__).with_name("systolic-128.yaml"))

SMALL_SPACES = [  # the spaces have 1,152 to 6,336 legal schedules
    ("matmul:m=64,n=256,k=256,dtype=int8", "tpu-v1"),
    ("matmul:m=32,n=512,k=256,dtype=int8", "tpu-v1"),
    ("matmul:m=200,n=300,k=256,dtype=int8", "tpu-v1"),
    ("matmul:m=8,n=128,k=256,dtype=bf16", "tpu-v4"),
    ("matmul:m=8,n=256,k=128,dtype=int8", "tpu-v4"),
    ("conv2d:n=1,h=8,w=8,c=16,f=16,r=3,s=3,padding=1,dtype=int8", "gemmini-16"),
    ("matmul:m=16,n=64,k=16,dtype=int8", "gemmini-16"),
    ("matmul:m=40,n=16,k=64,dtype=int8", "gemmini-16"),
]


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("machine_name", "text"),
    [
        pytest.param(ONE_ARRAY, "matmul:m=4096,n=4096,k=4096,dtype=int8", id="one array"),
        pytest.param("tpu-v4", "matmul:m=4096,n=4096,k=4096,dtype=int8", id="tpu-v4"),
        pytest.param("h200", "matmul:m=8192,n=8192,k=8192,dtype=bf16", id="h200"),
    ],
)
def test_candidates_per_second(benchmark: BenchmarkFixture, machine_name: str, text: str, jobs: int) -> None:
    """A search, timing only, proposing included; the processes are started before."""
    workload, machine = parse_workload(text), load_machine(machine_name)
    evaluator = evaluator_for(workload, machine)
    if jobs > (os.cpu_count() or 1):
        pytest.skip("fewer processors than jobs")
    with Pool(jobs) as pool:
        Candidates(evaluator, pool).evaluate(range(0, evaluator.space.count(), evaluator.space.count() // BATCH))

        def search() -> Candidates:
            candidates = Candidates(evaluator, pool)
            explore(candidates, Proposer(candidates, seed=0), budget=BUDGET)
            return candidates

        begin = time.perf_counter()
        found = benchmark.pedantic(search, rounds=1, iterations=1)
        seconds = time.perf_counter() - begin
    benchmark.extra_info["candidates per second"] = round(found.evaluated / seconds)
    benchmark.extra_info["cycles"] = found.best_cycles
    benchmark.extra_info["stopped early"] = found.count("stopped")
    assert found.evaluated == BUDGET


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "machine_name"), SMALL_SPACES)
def test_regret(benchmark: BenchmarkFixture, workload: str, machine_name: str) -> None:
    """Within 1% of the exhaustive optimum with at most 200 evaluations, median of 11 seeds."""
    task, machine = parse_workload(workload), load_machine(machine_name)
    found = benchmark.pedantic(
        lambda: regret(task, machine, seeds=range(11), budget=BUDGET, jobs=2), rounds=1, iterations=1
    )
    benchmark.extra_info["schedules"] = found.schedules
    benchmark.extra_info["regret, median of 11 seeds"] = found.median
    benchmark.extra_info["regret, worst of 11 seeds"] = max(found.regrets)
    assert found.schedules > BUDGET
    assert max(found.evaluated) <= BUDGET
    assert found.median <= 0.01
