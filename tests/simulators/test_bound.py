"""Is the roofline a bound? No simulated program beats it, and no better machine has a worse one."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.kernels.operators import operator, parse_workload
from presil.simulators.bound import lower_bound_ticks, peak_multiply_adds_per_cycle
from presil.simulators.machine import load_machine
from presil.simulators.simulate import simulate
from presil.simulators.timing import TICKS_PER_CYCLE

from .drawn import legal_schedules, lowered
from .tiny import TYPES, memory, tiny

WORKLOADS = (
    "matmul:batch=2,m=18,n=15,k=14,dtype=int8",
    "matmul:m=1,n=30,k=40,dtype=bf16",
    "matmul:m=40,n=5,k=3,dtype=int8,out=int8,bias=yes",
    "conv2d:n=2,h=6,w=5,c=4,f=6,r=3,s=3,padding=2,stride=2,dtype=int8",
    "conv2d:n=2,h=7,w=6,c=4,f=6,stride=3,dtype=bf16",
)
MACHINES = {
    "wide memory": tiny(memories={"dram": memory(bandwidth=1e12, latency=0.0)}),
    "narrow memory": tiny(memories={"dram": memory(bandwidth=1e8, efficiency=0.7)}),
    "cores and arrays": tiny(cores=2, array={"count": 2}, memories={"dram": memory(bandwidth=1e11, latency=0.0)}),
    "two memories": tiny(memories={"dram": memory(), "ddr": memory(bandwidth=2e9)}, weight_memory="ddr"),
}


def needed(text: str, machine) -> tuple[int, str, dict[str, int]]:
    """Multiply-adds, dtype, and bytes of each memory that no kernel can do without."""
    workload = parse_workload(text)
    work = operator(workload.operator).work(workload)
    traffic: dict[str, int] = {}
    for tensor in operator(workload.operator).tensors(workload):
        where = machine.spec.weight_memory if tensor.role == "const" else machine.spec.activation_memory
        traffic[where] = traffic.get(where, 0) + work.tensor_bytes[tensor.name]
    return work.least_multiply_adds, workload.word("dtype"), traffic


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("text", WORKLOADS)
def test_no_schedule_beats_the_bound_or_its_peak(text, name):
    machine, workload = MACHINES[name], parse_workload(text)
    multiply_adds, dtype, traffic = needed(text, machine)
    bound = lower_bound_ticks(multiply_adds, dtype, traffic, machine)
    assert bound > 0
    peak = peak_multiply_adds_per_cycle(dtype, machine)
    for schedule in itertools.islice(legal_schedules(workload, machine, seed=len(text)), 4):
        timing = simulate(lowered(workload, machine, schedule), machine).timing
        assert timing.ticks >= bound
        assert timing.multiply_adds >= multiply_adds
        assert timing.multiply_adds * TICKS_PER_CYCLE <= peak * timing.ticks  # utilisation of 1 at most
        assert all(timing.traffic_bytes[where] >= moved for where, moved in traffic.items())
        for engine in timing.engines.values():
            assert engine.busy_ticks <= timing.ticks


def test_the_bound_by_hand():
    # 2 cores of one 3 x 5 array: 30 multiply-adds a cycle for int8, half of that for bf16. Memory: 4 bytes a cycle.
    machine = tiny(cores=2)
    assert peak_multiply_adds_per_cycle("int8", machine) == 30
    assert peak_multiply_adds_per_cycle("bf16", machine) == 15
    assert peak_multiply_adds_per_cycle("fp32", machine) == 0
    assert lower_bound_ticks(300, "int8", {}, machine) == 10 * TICKS_PER_CYCLE
    assert lower_bound_ticks(300, "bf16", {}, machine) == 20 * TICKS_PER_CYCLE
    assert lower_bound_ticks(300, "int8", {"dram": 44}, machine) == 11 * TICKS_PER_CYCLE
    assert lower_bound_ticks(300, "int8", {"dram": 36}, machine) == 10 * TICKS_PER_CYCLE
    assert lower_bound_ticks(0, "int8", {}, machine) == 0
    half = tiny(memories={"dram": memory(efficiency=0.5)})
    assert lower_bound_ticks(0, "int8", {"dram": 44}, half) == 22 * TICKS_PER_CYCLE


def test_the_peak_of_the_first_tpu_is_92_teraops():
    # Jouppi et al., ISCA 2017: 65,536 multiply-adds a cycle at 700 MHz, two operations each.
    machine = load_machine("tpu-v1")
    assert 2 * peak_multiply_adds_per_cycle("int8", machine) * machine.clock_hz == pytest.approx(92e12, rel=0.003)


GROWN = {
    "rows": lambda f: tiny(rows=3 * f),
    "columns": lambda f: tiny(columns=5 * f),
    "cores": lambda f: tiny(cores=f),
    "arrays": lambda f: tiny(array={"count": f}),
    "rate": lambda f: tiny(array={"types": tuple(t.model_copy(update={"rate": 1 - 1 / (f + 1)}) for t in TYPES)}),
    "bandwidth": lambda f: tiny(memories={"dram": memory(bandwidth=1e9 * f)}),
    "efficiency": lambda f: tiny(memories={"dram": memory(efficiency=f / 10)}),
}


@given(st.sampled_from(sorted(GROWN)), st.integers(1, 9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_more_of_anything_never_makes_the_bound_worse(what, factor, multiply_adds, moved):
    less, more = (
        lower_bound_ticks(multiply_adds, "int8", {"dram": moved}, GROWN[what](f)) for f in (factor, factor + 1)
    )
    assert more <= less


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 10**6), st.integers(0, 10**6))
def test_more_work_never_makes_the_bound_better(multiply_adds, moved, extra, further):
    machine = tiny()
    less = lower_bound_ticks(multiply_adds, "int8", {"dram": moved}, machine)
    assert lower_bound_ticks(multiply_adds + extra, "int8", {"dram": moved + further}, machine) >= less
