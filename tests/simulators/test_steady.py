"""Do jumps over steady state change anything? No tick, no stall, no byte, no count."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.kernels.operators import parse_workload
from presil.simulators.errors import Undefined
from presil.simulators.machine import Machine
from presil.simulators.program import Count, Loop, Program
from presil.simulators.simulate import simulate
from presil.simulators.timing import Timing

from .drawn import legal_schedules, lowered
from .random_pipelines import issued, pipeline, pipelines, priced_family, random_pipeline, step
from .tiny import memory, tiny


def both(program: Program, machine: Machine, **options) -> tuple[Timing, Timing]:
    return tuple(simulate(program, machine, mode=mode, **options).timing for mode in ("full", "skip"))


def alike(program: Program, machine: Machine, **options) -> Timing:
    """The timing, once both modes agree on all of it but the number of instructions stepped through."""
    full, skip = both(program, machine, **options)
    assert replace(full, mode=None, executed_instructions=0) == replace(skip, mode=None, executed_instructions=0)
    assert full.executed_instructions == full.issued_instructions
    assert skip.executed_instructions <= full.executed_instructions
    return skip


@settings(max_examples=80)
@given(pipelines(), st.integers(0, 3))
def test_random_pipelines_take_the_same_ticks_with_and_without_jumps(program, divisor):
    if divisor:
        streams = tuple(replace(s, body=issued(s.body, divisor)) for s in program.streams)
        program = replace(program, streams=streams)
    with priced_family() as machine:
        alike(program, machine)


# Draws that once differed: a stream that was woken in the same tick was taken for one that is blocked.
@pytest.mark.parametrize(("seed", "rounds"), [(230, 40), (1363, 60), (1472, 60), (1758, 60), (2911, 60), (4194, 60)])
def test_draws_that_once_differed(seed, rounds):
    with priced_family() as machine:
        alike(random_pipeline(random.Random(seed).randint, rounds), machine)


def test_a_jump_stops_before_a_count_that_frees_a_stream_woken_in_the_same_tick():
    # Each completion (ticks 3, 6, 9, ...) wakes the consumer, and the producer's back edge comes before it looks.
    # The 30th is at 90; the consumer runs from there for 2 ticks, while the producer goes on to 40 * 3 = 120.
    streams = {
        "producer": [Loop("i", 40, (step(0, 3, signals=[Count("full")]),))],
        "consumer": [step(1, 2, waits=[Count("full", 30)])],
    }
    with priced_family() as machine:
        timing = alike(pipeline(streams, {"full": 0}), machine)
    assert timing.ticks == 120
    assert timing.engines["engine1"].stall_ticks == {"full": 90, "done": 28}
    assert timing.executed_instructions < 20


def test_a_stock_that_runs_dry_is_not_jumped_over():
    # 1,000 units for 2,000 takings: blocked for ever after 1,000 firings of 2 ticks.
    streams = {"taker": [Loop("i", 2000, (step(0, 2, waits=[Count("stock")]),))]}
    with priced_family() as machine:
        program = pipeline(streams, {"stock": 1000})
        for mode in ("full", "skip"):
            with pytest.raises(Undefined, match=r"stream taker waits for 1 of stock \(has 0\)"):
                simulate(program, machine, mode=mode)


def test_nested_loops_cost_what_their_shape_costs():
    nest = Loop("a", 1000, (Loop("b", 1000, (Loop("c", 1000, (step(0, 1),)),)), step(0, 1)))
    with priced_family() as machine:
        timing = simulate(pipeline({"s": [nest]}, {}), machine).timing
    assert timing.ticks == timing.issued_instructions == 1000 * (1000 * 1000 + 1)
    assert timing.executed_instructions < 100


def test_a_ring_of_two_between_unlike_nests_costs_what_its_shape_costs():
    streams = {
        "give": [Loop("a", 600, (Loop("b", 1000, (step(0, 3, 7, waits=[Count("free")], signals=[Count("full")]),)),))],
        "take": [Loop("a", 1000, (Loop("b", 600, (step(1, 5, 2, waits=[Count("full")], signals=[Count("free")]),)),))],
    }
    with priced_family() as machine:
        timing = simulate(pipeline(streams, {"full": 0, "free": 2}), machine).timing
    # Slot after slot: a tile takes 3 + 7 to come and 5 + 2 to go, two slots are under way: two tiles every 17 ticks.
    assert timing.ticks == pytest.approx(600_000 * 17 / 2, abs=20)
    assert timing.executed_instructions < 20_000


MATMULS = (
    "matmul:m=36,n=30,k=24,dtype=int8",
    "matmul:batch=3,m=17,n=23,k=19,dtype=int8,out=int8,bias=yes,activation=relu",
    "matmul:batch=2,m=30,n=12,k=33,dtype=bf16,out=bf16",
)
CONVOLUTIONS = (
    "conv2d:n=2,h=9,w=7,c=6,f=10,r=3,s=3,padding=1,dtype=int8",
    "conv2d:n=1,h=8,w=9,c=4,f=6,r=3,s=2,stride=2,padding=2,dilation=2,groups=2,dtype=bf16,bias=yes",
)
MACHINES = {
    "one array": tiny(),
    "set-up, issue and semaphores": tiny(dma={"setup": 3, "row_setup": 1}, issue=2, semaphore=3),
    "two arrays, two cores": tiny(cores=2, array={"count": 2}),
    "three cores, two memories": tiny(
        cores=3,
        memories={"dram": memory(), "ddr": memory(bandwidth=3e9, latency=7e-9)},
        weight_memory="ddr",
        weight_buffer=512,
        weight_tile=15,
        dma={"in_flight_bytes": 32},
    ),
}


@pytest.mark.parametrize("name", sorted(MACHINES))
@pytest.mark.parametrize("text", MATMULS + CONVOLUTIONS)
def test_random_schedules_take_the_same_ticks_with_and_without_jumps(text, name):
    workload, machine = parse_workload(text), MACHINES[name]
    for schedule in itertools.islice(legal_schedules(workload, machine, seed=len(text + name)), 1):
        alike(lowered(workload, machine, schedule), machine)
