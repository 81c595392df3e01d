"""Are the GPU programs of operators along rows right: in numbers, in order, in time, and in what is refused?"""

import random

import pytest

from presil.kernels.checking import check
from presil.kernels.emitters import emitter
from presil.kernels.operators import parse_workload
from presil.kernels.operators.operator import PATTERNS
from presil.kernels.space import Schedule
from presil.simulators.family import family
from presil.simulators.legality import check_legality
from presil.simulators.machine import load_machine, parse_machine
from presil.simulators.program import instructions
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate
from presil.simulators.timing import TICKS_PER_CYCLE

from .proofs import prove, without_one_wait

# Few cores with little room: long rows do not fit, blocks are more than slots, and the L2 holds a part of the tensors.
SMALL = parse_machine("""
name: small
title: A small machine
family: gpu
extends: h100
cores: {value: 2, source: chosen}
gpu:
  occupancy:
    registers: {value: 48 KiB, source: chosen}
    registers_per_thread: {value: 72, source: chosen}
    threads: {value: 512, source: chosen}
    blocks: {value: 3, source: chosen}
    shared: {value: 33 KiB, source: chosen}
    shared_per_block: {value: 33 KiB, source: chosen}
  cache:
    capacity: {value: 64 KiB, source: chosen}
  launch: {value: 200 ns, source: chosen}
  follow: {value: 200 ns, source: chosen}
""")
H100 = load_machine("h100")

WORKLOADS = [
    "elementwise:kind=add,rows=13,columns=370,dtype=int8",
    "elementwise:kind=multiply,rows=37,columns=700,dtype=bf16",
    "elementwise:kind=relu,rows=1,columns=3003,dtype=fp32",
    "reduction:kind=sum,rows=14,columns=5000,dtype=fp32",
    "reduction:kind=max,rows=7,columns=2333,dtype=bf16",
    "softmax:rows=12,columns=100,dtype=fp32",
    "softmax:rows=5,columns=12500,dtype=bf16",
    "layernorm:rows=7,columns=1150,dtype=bf16",
    "layernorm:rows=6,columns=6111,dtype=fp32",
    "rmsnorm:rows=10,columns=333,dtype=fp32",
    "rmsnorm:rows=7,columns=12100,dtype=bf16",
]


def legal_schedules(text, machine):
    workload = parse_workload(text)
    emit = emitter(workload.operator, "gpu")
    space = emit.space(workload, machine)
    for index in random.Random(5).sample(range(space.count()), space.count()):
        if emit.legal(workload, machine, space.unrank(index)) is None:
            yield space.unrank(index)


def sampled(text, machine):
    """Legal schedules that together have every choice of every axis that some legal one has."""
    seen, chosen = set(), []
    for schedule in legal_schedules(text, machine):
        if not seen.issuperset(schedule.choices):
            chosen.append(schedule)
            seen.update(schedule.choices)
    return chosen


def lowered(text, machine, **choices):
    """(workload, program) for the first legal schedule that has these choices."""
    workload = parse_workload(text)
    schedule = next(s for s in legal_schedules(text, machine) if choices.items() <= dict(s.choices).items())
    return workload, emitter(workload.operator, "gpu").lower(workload, machine, schedule)


@pytest.mark.parametrize("text", WORKLOADS)
def test_sampled_schedules_are_legal_free_of_races_and_right(text):
    schedules = sampled(text, SMALL)
    assert len(schedules) > 3
    for number, schedule in enumerate(schedules):
        prove(parse_workload(text), SMALL, schedule, PATTERNS[number % len(PATTERNS)])


def test_the_spaces_have_rows_in_registers_and_in_shared_memory_whole_and_streamed_dispatched_and_persistent():
    seen = {c for s in sampled("softmax:rows=5,columns=12500,dtype=bf16", SMALL) for c in s.choices}
    wanted = {"hold": {"shared"}, "place": {"dispatch", "persistent"}, "stages": {2, 4, 8}, "sums": {"online", "apart"}}
    assert {(axis, c) for axis, choices in wanted.items() for c in choices} <= seen
    seen = {c for s in sampled("layernorm:rows=7,columns=1150,dtype=bf16", SMALL) for c in s.choices}
    assert {("hold", "registers"), ("hold", "shared"), ("stages", "row"), ("place", "persistent")} <= seen


@pytest.mark.parametrize("text", WORKLOADS)
def test_every_single_wait_is_needed(text):
    workload = parse_workload(text)
    tried = 0
    for schedule in sampled(text, SMALL)[:4]:
        program = emitter(workload.operator, "gpu").lower(workload, SMALL, schedule)
        for what, changed in without_one_wait(program):
            assert "race" in {fault.kind for fault in sanitize(changed, SMALL)}, (schedule, what)
            tried += 1
    assert tried > 3


@pytest.mark.parametrize(
    "text", ["softmax:rows=140,columns=1030,dtype=fp32", "elementwise:kind=add,rows=70,columns=600"]
)
def test_the_verdict_on_a_whole_chip_is_right(text):
    workload = parse_workload(text)
    schedule = next(legal_schedules(text, H100))
    verdict = check(emitter(workload.operator, "gpu").lower(workload, H100, schedule), workload, H100, seeds=1)
    assert verdict.right, verdict.reasons


@pytest.mark.parametrize("text", WORKLOADS)
def test_the_prior_is_near_the_simulated_time(text):
    workload = parse_workload(text)
    emit = emitter(workload.operator, "gpu")
    for schedule in sampled(text, SMALL):
        cycles = simulate(emit.lower(workload, SMALL, schedule), SMALL).timing.ticks / TICKS_PER_CYCLE
        assert 0.4 < emit.prior_cycles(workload, SMALL, schedule) / cycles < 2.5, schedule


@pytest.mark.parametrize("text", WORKLOADS)
def test_what_legal_refuses_for_size_does_not_fit_and_what_it_admits_does(text):
    workload = parse_workload(text)
    emit = emitter(workload.operator, "gpu")
    space = emit.space(workload, SMALL)
    refused = {
        "more registers than a thread has": "registers per thread; small has 72",
        "no SM holds a block": "not one block fits|(shared|registers) of small has",
    }
    for index in random.Random(7).sample(range(space.count()), min(60, space.count())):
        schedule = space.unrank(index)
        reason = emit.legal(workload, SMALL, schedule)
        program = emit.lower(workload, SMALL, schedule)
        if reason is None:
            check_legality(program, SMALL)
        elif reason in refused:
            with pytest.raises(Exception, match=f"{'|'.join(refused.values())}"):
                check_legality(program, SMALL)


def test_the_closed_form_of_occupancy_is_that_of_the_machine():
    for text in WORKLOADS[3:]:
        workload = parse_workload(text)
        emit = emitter(workload.operator, "gpu")
        for schedule in sampled(text, SMALL):
            program, plan = emit.lower(workload, SMALL, schedule), emit.plan(workload, schedule)
            assert plan.resident(SMALL) == family("gpu").slots(program, SMALL), schedule


def traffic(program, machine):
    return simulate(program, machine).timing.traffic_bytes["hbm"]


def test_long_rows_are_read_once_for_each_pass_and_short_ones_once():
    text = "softmax:rows=256,columns=393216,dtype=fp32"
    tensor = 256 * 393216 * 4
    _, online = lowered(text, H100, sums="online", place="persistent")
    _, apart = lowered(text, H100, sums="apart", place="persistent")
    assert traffic(online, H100) == pytest.approx(3 * tensor, rel=0.01)  # two passes and the result
    assert traffic(apart, H100) == pytest.approx(4 * tensor, rel=0.02)
    text = "softmax:rows=4096,columns=4096,dtype=bf16"
    for hold in ("registers", "shared"):
        assert traffic(lowered(text, H100, hold=hold, stages="row")[1], H100) == 2 * 4096 * 4096 * 2


@pytest.mark.parametrize(
    ("text", "choices", "part"),
    [
        # One tensor is read and one written: the memory loses the turnaround (8.5%), and nothing else.
        ("elementwise:kind=relu,rows=16384,columns=16384,dtype=fp32", {"rows": 4, "columns": 512, "tiles": 1}, 1.02),
        (
            "softmax:rows=32768,columns=4096,dtype=bf16",
            {"hold": "registers", "rows": 1, "piece": 2048, "sums": "apart", "turns": 1},
            1.05,
        ),
        (
            "rmsnorm:rows=65536,columns=8192,dtype=bf16",
            {"hold": "shared", "rows": 4, "piece": 512, "stages": "row", "place": "dispatch"},
            1.05,
        ),
    ],
)
def test_large_sizes_come_near_the_bandwidth_of_the_memory(text, choices, part):
    _, program = lowered(text, H100, **choices)
    timing = simulate(program, H100).timing
    memory = H100.memories["hbm"]
    least = sum(timing.traffic_bytes.values()) / memory.bandwidth / memory.efficiency * 1.085
    assert 1 <= timing.seconds / least < part


def test_a_block_is_one_warpgroup_and_warps_that_copy():
    _, program = lowered("layernorm:rows=7,columns=1150,dtype=bf16", SMALL, hold="shared")
    assert [s.name for s in program.streams] == ["copies", "constants", "rows"]
    assert all(i.op == "copy" for s in program.streams[:2] for i, _ in instructions(s.body))


def test_no_row_is_too_long():
    workload = parse_workload("layernorm:rows=2,columns=1048576,dtype=fp32")
    emit = emitter("layernorm", "gpu")
    space = emit.space(workload, SMALL)
    choices = {"hold": "shared", "stages": 2, "place": "dispatch"}
    narrow = Schedule(tuple((a.name, choices.get(a.name, a.choices[0])) for a in space.axes))
    assert emit.legal(workload, SMALL, narrow) is None
    check_legality(emit.lower(workload, SMALL, narrow), SMALL)
