"""Are the programs of operators along rows right: in numbers, in order, in time, and in what is refused?"""

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from presil.kernels.emitters import emitter
from presil.kernels.operators import operator, parse_workload
from presil.kernels.operators.operator import PATTERNS
from presil.kernels.space import Schedule
from presil.simulators.assembly import parse, render
from presil.simulators.errors import Undefined, Unsupported
from presil.simulators.legality import check_legality
from presil.simulators.machine import load_machine, parse_machine
from presil.simulators.program import Loop, instructions
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate
from presil.simulators.timing import TICKS_PER_CYCLE

# Little of everything, and no two figures alike: rows of some operators do not fit, blocks are shorter than latencies.
SMALL = parse_machine("""
name: small
title: A small machine
family: systolic
extends: tpu-v4
cores: {value: 3, source: chosen}
systolic:
  scratchpad: {value: 12 KiB, source: chosen}
  vector:
    lanes: {value: 24, source: chosen}
    latency: {value: 7, source: chosen}
  dma:
    load_channels: {value: 1, source: chosen}
    port_bytes_per_cycle: {value: 32, source: chosen}
    row_setup: {value: 3, source: chosen}
  issue: {value: 2, source: chosen}
""")
MACHINES = {"small": SMALL, "tpu-v4": load_machine("tpu-v4")}

WORKLOADS = [
    "elementwise:kind=add,rows=13,columns=370,dtype=int8",
    "elementwise:kind=multiply,rows=6,columns=700,dtype=bf16",
    "elementwise:kind=add,rows=11,columns=129,dtype=bf16",
    "elementwise:kind=relu,rows=1,columns=3003,dtype=fp32",
    "reduction:kind=sum,rows=14,columns=1000,dtype=fp32",
    "reduction:kind=max,rows=7,columns=333,dtype=bf16",
    "softmax:rows=12,columns=100,dtype=fp32",
    "softmax:rows=5,columns=2500,dtype=bf16",
    "layernorm:rows=7,columns=150,dtype=bf16",
    "layernorm:rows=6,columns=1111,dtype=fp32",
    "rmsnorm:rows=10,columns=333,dtype=fp32",
    "rmsnorm:rows=3,columns=4100,dtype=bf16",
]
CASES = [(text, machine) for text in WORKLOADS for machine in MACHINES]


def lowered(text, machine, **choices):
    """(workload, program) for the first legal schedule that has these choices."""
    workload = parse_workload(text)
    emit = emitter(workload.operator, "systolic")
    schedule = next(s for s in legal_schedules(text, machine) if choices.items() <= dict(s.choices).items())
    return workload, emit.lower(workload, machine, schedule)


def legal_schedules(text, machine):
    workload = parse_workload(text)
    emit = emitter(workload.operator, "systolic")
    space = emit.space(workload, machine)
    order = random.Random(5).sample(range(space.count()), space.count())
    for index in order:
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


@pytest.mark.parametrize(("text", "name"), CASES)
def test_outputs_lie_within_the_error_bound_and_both_modes_take_the_same_time(text, name):
    machine, workload = MACHINES[name], parse_workload(text)
    emit, op = emitter(workload.operator, "systolic"), operator(workload.operator)
    seeds = {p: op.inputs(workload, 3, p) for p in PATTERNS}
    right = {p: (op.reference(workload, i)["y"], op.error_bound(workload, i)["y"]) for p, i in seeds.items()}
    schedules = sampled(text, machine)
    assert len(schedules) > 4
    for number, schedule in enumerate(schedules):
        program = emit.lower(workload, machine, schedule)
        assert parse(render(program)) == program
        pattern = PATTERNS[number % len(PATTERNS)]
        done = simulate(program, machine, mode="full", inputs=seeds[pattern], poison_seed=number)
        reference, bound = right[pattern]
        off = np.abs(done.outputs["y"].astype(reference.dtype) - reference)
        assert (off <= bound).all(), f"{schedule}: {pattern} is off by {off.max()}"
        assert simulate(program, machine).timing.ticks == done.timing.ticks, schedule


@pytest.mark.parametrize(("text", "name"), CASES)
def test_programs_mean_the_same_under_every_timing(text, name):
    machine, workload = MACHINES[name], parse_workload(text)
    emit = emitter(workload.operator, "systolic")
    for schedule in sampled(text, machine):
        assert sanitize(emit.lower(workload, machine, schedule), machine) == (), schedule


@pytest.mark.parametrize("text", WORKLOADS)
def test_every_single_wait_is_needed(text):
    machine, workload = SMALL, parse_workload(text)
    emit = emitter(workload.operator, "systolic")
    tried = 0
    for schedule in sampled(text, machine)[:3]:
        program = emit.lower(workload, machine, schedule)
        for stream, position, wait in waits_of(program):
            faults = sanitize(without_wait(program, stream, position, wait), machine)
            assert "race" in {fault.kind for fault in faults}, (schedule, stream, position, wait)
            tried += 1
    assert tried > 5


def waits_of(program):
    """(stream, position in its text, wait) of every wait."""
    return [
        (stream.name, i, wait)
        for stream in program.streams
        for i, (instruction, _) in enumerate(instructions(stream.body))
        for wait in instruction.waits
    ]


def without_wait(program, name, position, wait):
    """The program without one wait of its text."""
    counter = itertools.count()

    def cut(nodes):
        done = []
        for node in nodes:
            if isinstance(node, Loop):
                done.append(replace(node, body=cut(node.body)))
            elif next(counter) == position:
                done.append(replace(node, waits=tuple(w for w in node.waits if w != wait)))
            else:
                done.append(node)
        return tuple(done)

    streams = tuple(replace(s, body=cut(s.body)) if s.name == name else s for s in program.streams)
    return replace(program, streams=streams)


def test_a_row_that_fits_is_read_once_and_one_that_does_not_three_times():
    # 12 rows of 100 fp32 move once in and once out; 64-byte bursts divide neither row nor block, so more is touched.
    workload, program = lowered("softmax:rows=12,columns=100,dtype=fp32", SMALL, bc=100, br=4, cores=1)
    traffic = simulate(program, SMALL).timing.traffic_bytes["hbm"]
    assert traffic == 2 * 3 * 1600  # blocks of 4 x 400 bytes, 25 bursts each
    # 5 rows of 2,500 bf16: rows of 5,000 bytes in blocks of 640, 640, 640 and 580 columns: 20, 20, 20 and 19 bursts.
    workload, program = lowered("softmax:rows=5,columns=2500,dtype=bf16", SMALL, bc=640, br=1, cores=1)
    traffic = simulate(program, SMALL).timing.traffic_bytes["hbm"]
    assert traffic == 5 * (3 + 1) * 79 * 64
    assert workload["columns"] == 2500


def test_kept_constants_are_loaded_once_and_streamed_ones_with_every_block_of_rows():
    text = "rmsnorm:rows=10,columns=333,dtype=fp32"
    loads = {}
    for constants in ("keep", "stream"):
        _, program = lowered(text, SMALL, constants=constants, bc=176, br=2, cores=1)
        stream = next(s for s in program.streams if s.name == "load_constants")
        loads[constants] = sum(times for _, times in instructions(stream.body))
    assert loads == {"keep": 1, "stream": 5 * 2}  # 5 blocks of rows, 2 of columns


def test_cores_share_rows_or_else_columns_of_elementwise():
    assert lowered("softmax:rows=12,columns=100,dtype=fp32", SMALL, cores=3)[1].grid == (("core", 3),)
    _, program = lowered("elementwise:kind=relu,rows=1,columns=3003,dtype=fp32", SMALL, cores=3)
    assert program.grid == (("core", 3),)
    workload = parse_workload("softmax:rows=1,columns=3003,dtype=fp32")
    cores = next(a for a in emitter("softmax", "systolic").space(workload, SMALL).axes if a.name == "cores")
    assert cores.choices == (1,)


@pytest.mark.parametrize("text", WORKLOADS)
def test_what_legal_refuses_for_size_does_not_fit_and_what_it_admits_does(text):
    workload = parse_workload(text)
    emit = emitter(workload.operator, "systolic")
    space = emit.space(workload, SMALL)
    for index in random.Random(7).sample(range(space.count()), min(60, space.count())):
        schedule = space.unrank(index)
        reason = emit.legal(workload, SMALL, schedule)
        program = emit.lower(workload, SMALL, schedule)
        if reason == "does not fit the scratchpad":
            with pytest.raises(Undefined, match="scratchpad of small has 12,288"):
                check_legality(program, SMALL)
        elif reason is None:
            check_legality(program, SMALL)
        else:
            assert reason == "streams constants that need loading once"


@pytest.mark.parametrize(
    ("text", "name", "missing"),
    [
        ("softmax:rows=8,columns=64", "tpu-v1", "tpu-v1 has no subtract, exp, sum, reciprocal$"),
        (
            "layernorm:rows=8,columns=64",
            "gemmini-16",
            "gemmini-16 has no sum, scale, subtract, square, rsqrt, multiply$",
        ),
        ("reduction:kind=sum,rows=8,columns=64", "tpu-v1", "tpu-v1 has no sum$"),
        ("elementwise:kind=multiply,rows=8,columns=64", "gemmini-16", "gemmini-16 has no multiply$"),
    ],
)
def test_a_vector_unit_without_an_instruction_is_named(text, name, missing):
    workload = parse_workload(text)
    with pytest.raises(Unsupported, match=f"the vector unit of {missing}"):
        emitter(workload.operator, "systolic").space(workload, load_machine(name))


@pytest.mark.parametrize(("text", "name"), CASES)
def test_the_prior_is_near_the_simulated_time(text, name):
    machine, workload = MACHINES[name], parse_workload(text)
    emit = emitter(workload.operator, "systolic")
    for schedule in sampled(text, machine):
        cycles = simulate(emit.lower(workload, machine, schedule), machine).timing.ticks / TICKS_PER_CYCLE
        assert 0.4 < emit.prior_cycles(workload, machine, schedule) / cycles < 2.5, schedule


def test_columns_beyond_any_scratchpad_have_a_legal_schedule():
    workload = parse_workload("layernorm:rows=2,columns=1048576,dtype=fp32")
    emit = emitter("layernorm", "systolic")
    space = emit.space(workload, SMALL)
    narrow = Schedule((*((a.name, a.choices[0]) for a in space.axes[:-1]), ("constants", "stream")))
    assert emit.legal(workload, SMALL, narrow) is None
    check_legality(emit.lower(workload, SMALL, narrow), SMALL)
