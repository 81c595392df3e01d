"""matmul on systolic machines: is every schedule a right program, and is each of its waits needed?"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from scipy.stats import spearmanr

from presil.kernels.emitters import emitter
from presil.kernels.operators import parse_workload
from presil.kernels.space import Schedule
from presil.simulators.assembly import render
from presil.simulators.errors import Unsupported
from presil.simulators.machine import load_machine
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate

from ...simulators.drawn import legal_schedules
from ...simulators.tiny import TYPES, memory, tiny
from .proofs import loaded, prove, without_one_wait

MATMUL = emitter("matmul", "systolic")

# Sizes that divide nothing, that are smaller than the array, of one row, column or product; every output format.
WORKLOADS = (
    "matmul:m=7,n=11,k=8,dtype=int8",
    "matmul:batch=3,m=4,n=6,k=5,dtype=int8,out=int8",
    "matmul:m=1,n=23,k=10,dtype=int8,bias=yes",
    "matmul:batch=2,m=13,n=1,k=1,dtype=int8,out=int8,bias=yes,activation=relu",
    "matmul:batch=2,m=6,n=10,k=9,dtype=bf16",
    "matmul:m=9,n=8,k=13,dtype=bf16,out=bf16,bias=yes,activation=relu",
)
MACHINES = {
    "3 x 5": tiny(),
    "one plane, one channel": tiny(array={"weight_planes": 1, "result_planes": 1}, dma={"load_channels": 1}),
    "two arrays, two cores": tiny(cores=2, array={"count": 2}),
    "three arrays, own weight memory": tiny(
        array={"count": 3},
        memories={"dram": memory(), "ddr": memory(bandwidth=1e9, latency=3e-9)},
        weight_memory="ddr",
        weight_buffer=256,
        issue=2,
        semaphore=3,
        dma={"setup": 3, "row_setup": 1},
    ),
}


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("text", WORKLOADS)
def test_random_schedules_are_right(text, name):
    workload, machine = parse_workload(text), MACHINES[name]
    drawn = list(itertools.islice(legal_schedules(workload, machine, seed=len(text)), 5))
    assert len(drawn) == 5
    for schedule, pattern in zip(drawn, itertools.cycle(("random", "extremes", "marker")), strict=False):
        prove(workload, machine, schedule, pattern)


def test_every_schedule_of_a_small_space_is_right_or_says_why_not():
    # One choice of each buffer count and of the edges, all of the rest.
    workload, machine = parse_workload("matmul:m=4,n=6,k=4,dtype=int8"), tiny()
    space = MATMUL.space(workload, machine)
    kept = {"x_slots": 2, "w_slots": 2, "acc_slots": 2, "y_slots": 1, "edge": "peel"}
    schedules = [
        Schedule(tuple(zip((a.name for a in space.axes), choices, strict=True)))
        for choices in itertools.product(*((kept[a.name],) if a.name in kept else a.choices for a in space.axes))
    ]
    reasons = {s: MATMUL.legal(workload, machine, s) for s in schedules}
    for schedule in (s for s, reason in reasons.items() if reason is None):
        prove(workload, machine, schedule)
    assert set(filter(None, reasons.values())) == {
        "output-stationary: more rows in a block than in the array",
        "keeps what is used once",
    }


@pytest.mark.parametrize("name", MACHINES)
def test_each_deleted_wait_is_a_race(name):
    workload, machine = parse_workload("matmul:m=7,n=11,k=8,dtype=int8,out=int8,bias=yes"), MACHINES[name]
    schedule = next(legal_schedules(workload, machine, seed=5))
    changed = list(without_one_wait(MATMUL.lower(workload, machine, schedule)))
    assert len(changed) > 5
    for what, wrong in changed:
        assert "race" in {f.kind for f in sanitize(wrong, machine)}, (str(schedule), what)


def test_the_text_is_the_same_each_time():
    workload, machine = parse_workload(WORKLOADS[0]), tiny()
    schedule = next(legal_schedules(workload, machine, seed=1))
    assert render(MATMUL.lower(workload, machine, schedule)) == render(MATMUL.lower(workload, machine, schedule))


def schedule_of(machine, workload, **choices) -> Schedule:
    """The first schedule of the space, with some axes set."""
    space = MATMUL.space(workload, machine)
    first = dict(space.unrank(0).choices)
    assert set(choices) <= set(first)
    return Schedule(tuple({**first, **choices}.items()))


BLOCKS = {"bm": 3, "bn": 10, "bk": 6}


@pytest.mark.parametrize(
    ("choices", "x_moves", "w_moves"),
    [
        # Blocks of 3 x 10 x 6: m in 4, n in 2, k in 2. A block that is not kept comes once a block of products.
        ({}, 2, 4),
        ({"x_keep": 1}, 1, 4),
        ({"w_keep": 1}, 2, 1),
        ({"x_keep": 1, "w_keep": 1}, 1, 1),
        ({"order": "nm", "x_keep": 1}, 1, 4),
        ({"order": "nm", "w_keep": 1}, 2, 1),
    ],
)
def test_what_is_kept_is_loaded_once(choices, x_moves, w_moves):
    # x is read once for each of 2 blocks of n unless kept, w once for each of 4 blocks of m unless kept.
    workload, machine = parse_workload("matmul:m=12,n=20,k=12,dtype=int8"), tiny()
    timing = simulate(
        MATMUL.lower(workload, machine, schedule_of(machine, workload, **BLOCKS, **choices)), machine
    ).timing
    assert timing.traffic_bytes["dram"] == x_moves * 12 * 12 + w_moves * 12 * 20 + 12 * 20 * 4


def test_more_slots_and_more_cores_are_faster_where_transfers_bind():
    workload, machine = parse_workload("matmul:m=24,n=20,k=12,dtype=int8"), tiny(cores=2)
    one = schedule_of(machine, workload, **BLOCKS, cores="1")
    cycles = {}
    for name, changes in (("one slot", {}), ("two slots", {"x_slots": 2, "w_slots": 2}), ("two cores", {"cores": "m"})):
        schedule = Schedule(tuple({**dict(one.choices), **changes}.items()))
        cycles[name] = simulate(MATMUL.lower(workload, machine, schedule), machine).timing.cycles
    assert cycles["two slots"] < cycles["one slot"]
    assert cycles["two cores"] < cycles["one slot"]


def test_cores_share_what_they_can_divide():
    machine = tiny(cores=3)
    axis = next(
        a
        for a in MATMUL.space(parse_workload("matmul:batch=2,m=6,n=5,k=4,dtype=int8"), machine).axes
        if a.name == "cores"
    )
    assert axis.choices == ("m", "1")
    workload = parse_workload("matmul:batch=6,m=6,n=9,k=4,dtype=int8")
    for split in ("batch", "m", "n"):
        program = prove(workload, machine, schedule_of(machine, workload, cores=split))
        assert program.grid == (("core", 3),)
    assert prove(workload, machine, schedule_of(machine, workload, cores="1")).grid == ()


def test_bias_is_loaded_once_and_whole():
    workload, machine = parse_workload("matmul:m=12,n=20,k=6,dtype=int8,bias=yes"), tiny()
    program = prove(workload, machine, schedule_of(machine, workload, **{**BLOCKS, "bk": 6}))
    (bias,) = loaded(program, "bias")
    assert bias.operands[1].dims == ()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"scratchpad": 64}, "does not fit the scratchpad"),
        ({"accumulator": 64}, "does not fit the accumulator"),
        ({"weight_buffer": 32}, "does not fit the weights"),
        ({"vector": {"operations": ("relu",)}}, "the vector unit has no requantize"),
    ],
)
def test_what_cannot_be_is_said_in_few_words(change, reason):
    workload, machine = parse_workload("matmul:m=12,n=20,k=12,dtype=int8,out=int8"), tiny(**change)
    assert MATMUL.legal(workload, machine, schedule_of(tiny(), workload, **BLOCKS)) == reason


def test_a_format_the_array_does_not_multiply_is_refused_by_name():
    only_int8 = tiny(array={"types": TYPES[:1]})
    with pytest.raises(Unsupported, match="the array does not multiply bf16; it multiplies: int8"):
        MATMUL.space(parse_workload("matmul:m=4,n=4,k=4,dtype=bf16"), only_int8)


@pytest.mark.parametrize("name", ["tpu-v1", "tpu-v4", "gemmini-16"])
@pytest.mark.parametrize("text", ["matmul:m=33,n=300,k=70,dtype=int8", "matmul:m=4096,n=4096,k=4096,dtype=int8"])
def test_the_machines_that_come_with_presil_have_legal_schedules(name, text):
    workload, machine = parse_workload(text), load_machine(name)
    schedule = next(legal_schedules(workload, machine, seed=3))
    small = workload.int("m") < 100
    program = prove(workload, machine, schedule) if small else MATMUL.lower(workload, machine, schedule)
    timing = simulate(program, machine).timing
    assert timing.multiply_adds == workload.int("m") * workload.int("n") * workload.int("k")
    assert MATMUL.prior_cycles(workload, machine, schedule) > 0


def test_the_guess_of_cycles_ranks_schedules():
    # Not how near it is: whether it knows good from bad (Spearman's rank correlation; 0.9 as measured).
    workload, machine = parse_workload("matmul:m=256,n=256,k=256,dtype=int8"), load_machine("gemmini-16")
    drawn = list(itertools.islice(legal_schedules(workload, machine, seed=11), 25))
    times = [simulate(MATMUL.lower(workload, machine, s), machine).timing.cycles for s in drawn]
    guesses = [MATMUL.prior_cycles(workload, machine, s) for s in drawn]
    assert spearmanr(times, guesses).statistic > 0.75


def test_a_program_with_one_slot_too_few_is_wrong():
    workload, machine = parse_workload("matmul:m=12,n=20,k=12,dtype=int8"), tiny()
    program = MATMUL.lower(workload, machine, schedule_of(machine, workload, **BLOCKS, x_slots=2))
    buffers = tuple(replace(b, slots=1) if b.name == "xb" else b for b in program.buffers)
    assert {f.kind for f in sanitize(replace(program, buffers=buffers), machine)} == {"race"}
