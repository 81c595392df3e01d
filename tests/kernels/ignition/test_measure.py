"""What a search measures is what `simulate` says; it gives up only what is too slow, and says so with a true bound."""

from __future__ import annotations

import random

import pytest

from presil.kernels.ignition.candidates import Candidates
from presil.kernels.ignition.measure import busy_ticks, evaluator_for, measure
from presil.kernels.ignition.pool import Pool
from presil.kernels.ignition.proposer import Proposer
from presil.kernels.operators import parse_workload
from presil.simulators.compiled import compile_program
from presil.simulators.errors import Unsupported
from presil.simulators.machine import load_machine
from presil.simulators.simulate import simulate

CASES = [
    ("matmul:m=200,n=300,k=500,dtype=int8", "tpu-v1"),
    ("matmul:m=72,n=40,k=104,dtype=int8", "gemmini-16"),
    ("matmul:m=64,n=1024,k=512,dtype=bf16", "tpu-v4"),
    ("softmax:rows=300,columns=200,dtype=bf16", "tpu-v4"),
]


def programs(workload: str, machine_name: str):
    machine = load_machine(machine_name)
    candidates = Candidates(evaluator_for(parse_workload(workload), machine), Pool(1))
    picks = Proposer(candidates, 0).picks
    chosen = random.Random(1).sample(picks, min(12, len(picks)))
    return machine, [candidates.evaluator.program(rank) for rank in chosen]


@pytest.mark.parametrize(("workload", "machine_name"), CASES)
def test_ticks_and_bounds(workload, machine_name):
    machine, found = programs(workload, machine_name)
    times = [simulate(program, machine).timing.ticks for program in found]
    for program, ticks in zip(found, times, strict=True):
        assert measure(program, machine).ticks == ticks
        assert busy_ticks(compile_program(program, machine)) <= ticks
        exact = measure(program, machine, ceiling=ticks)  # tight: at its own time it is not given up
        assert (exact.ticks, exact.end) == (ticks, "done")
        for ceiling in (ticks - 1, min(times), ticks // 2):
            under = measure(program, machine, ceiling=ceiling)
            if under.end == "done":
                assert under.ticks == ticks
            else:
                assert ceiling < under.ticks <= ticks


def test_what_is_twice_too_slow_is_given_up():
    machine, found = programs(*CASES[0])
    ends = {measure(p, machine, ceiling=simulate(p, machine).timing.ticks // 2).end for p in found}
    assert "done" not in ends


def test_tensors_larger_than_the_memory_are_refused_before_any_schedule():
    # x, w of 2**36 bytes each and y of 2**42, where Gemmini has 2**34.
    task = parse_workload("matmul:m=1048576,n=1048576,k=65536,dtype=int8")
    with pytest.raises(Unsupported, match=f"{2**36 + 2**36 + 2**42:,} bytes of tensors in dram; .* has {2**34:,}"):
        evaluator_for(task, load_machine("gemmini-16"))
