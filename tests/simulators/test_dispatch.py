"""Grids that are dispatched or persistent: who gets which instance when, and the same ticks however they are timed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from presil.simulators.errors import Undefined
from presil.simulators.program import Count, Loop, Place, Program
from presil.simulators.simulate import simulate
from presil.simulators.timing import Timing

from .random_pipelines import BETWEEN, CORES, LAUNCH, issued, pipeline, priced_family, random_pipeline, step


def gridded(program: Program, instances: int, place: Place, slots: int = 1) -> Program:
    """`program` as a grid of as many instances; the name tells the stand-in family how many fit on a core."""
    return replace(program, name=f"pipeline {slots}", grid=(("b", instances),), place=place)


def agreed(program: Program, machine) -> Timing:
    """The timing of a few cores, once that of the whole chip, stepped through, agrees with it."""
    full, skip = (simulate(program, machine, mode=mode).timing for mode in ("full", "skip"))
    for name in ("ticks", "issued_instructions", "multiply_adds", "traffic_bytes"):
        assert getattr(full, name) == getattr(skip, name), name
    return skip


def shown(program: Program, machine) -> None:
    """Every core that the few stand for has the times it had on the whole chip."""
    full, skip = (simulate(program, machine, mode=mode).timing for mode in ("full", "skip"))
    assert skip.engines
    for name, time in skip.engines.items():
        assert full.engines[name] == time, name


def test_a_core_takes_the_next_instance_when_its_slot_is_free():
    # Three cores, seven instances of 10 ticks: rounds of 3, 3 and 1. 100 + 10 + 7 + 10 + 7 + 10 = 144.
    program = gridded(pipeline({"s": [step(0, 10)]}, {}), 7, "dispatch")
    with priced_family() as machine:
        timing = agreed(program, machine)
        shown(program, machine)
    assert timing.ticks == LAUNCH + 3 * 10 + 2 * BETWEEN
    assert timing.issued_instructions == 7
    assert timing.engines["core0.engine0"].stall_ticks == {"dispatch": 2 * BETWEEN, "launch": LAUNCH}
    # Cores 1 and 2 have had two.
    assert timing.engines["core1.engine0"].stall_ticks == {"dispatch": BETWEEN, "done": 10 + BETWEEN, "launch": LAUNCH}


def test_a_slot_is_free_when_its_last_result_is_there():
    # 10 ticks of work and 5 more to the result, then the next: 100 + 15 + 7 + 15.
    program = gridded(pipeline({"s": [step(0, 10, 5)]}, {}), 2 * CORES, "dispatch")
    with priced_family() as machine:
        assert agreed(program, machine).ticks == LAUNCH + 15 + BETWEEN + 15


def test_instances_of_one_core_share_its_engines():
    # Two slots: both start at 100, the engine takes 10 for the one and 10 for the other.
    program = gridded(pipeline({"s": [step(0, 10, 30)]}, {}), 2 * CORES, "dispatch", slots=2)
    with priced_family() as machine:
        assert agreed(program, machine).ticks == LAUNCH + 10 + 10 + 30


def test_the_emptiest_cores_are_served_first():
    # Four instances on three cores of two slots: one core has two of them, and takes 20 ticks for them.
    program = gridded(pipeline({"s": [step(0, 10)]}, {}), CORES + 1, "dispatch", slots=2)
    with priced_family() as machine:
        timing = agreed(program, machine)
        shown(program, machine)
    assert timing.ticks == LAUNCH + 20
    assert timing.engines["core1.engine0"].busy_ticks == 10


def test_a_core_has_its_own_share_of_a_link():
    # Two engines of one core, 10 ticks each, both on link 0 for 15: the second starts at 115, whatever other cores do.
    streams = {"s": [step(0, 10, link0=15)], "t": [step(1, 10, link0=15)]}
    with priced_family() as machine:
        timing = agreed(gridded(pipeline(streams, {}), CORES, "dispatch"), machine)
    assert timing.ticks == LAUNCH + 15 + 10


def test_persistent_streams_do_not_wait_for_each_other():
    # Producer 4 ticks a firing, consumer 10, a ring of two. Each core has two instances of one firing: the producer
    # begins its second at 4. Consumer: 104 to 114, 114 to 124.
    streams = {
        "producer": [step(0, 4, waits=[Count("free")], signals=[Count("full")])],
        "consumer": [step(1, 10, waits=[Count("full")], signals=[Count("free")])],
    }
    program = pipeline(streams, {"free": 2, "full": 0})
    with priced_family() as machine:
        assert agreed(gridded(program, 2 * CORES, "persistent"), machine).ticks == LAUNCH + 4 + 10 + 10
        # Dispatched, the second begins when the first has ended.
        assert agreed(gridded(program, 2 * CORES, "dispatch"), machine).ticks == LAUNCH + 2 * 14 + BETWEEN


def test_instances_make_the_trips_of_their_point():
    # Instance b makes 1 + 2b trips of 10 ticks: 10, 30, 50, 70 on three cores. The fourth goes to core 0, at 110 + 7.
    loop = Loop("k", 1, (step(0, 10),), (("b", 2),))
    program = gridded(pipeline({"s": [loop]}, {}), 4, "dispatch")
    with priced_family() as machine:
        timing = agreed(program, machine)
    assert timing.ticks == LAUNCH + 10 + BETWEEN + 70
    assert timing.issued_instructions == 1 + 3 + 5 + 7


@pytest.mark.parametrize("place", ["dispatch", "persistent"])
def test_many_instances_cost_what_their_shape_costs(place):
    streams = {
        "producer": [Loop("i", 50, (step(0, 4, 3, waits=[Count("free")], signals=[Count("full")]),))],
        "consumer": [Loop("i", 50, (step(1, 5, 2, waits=[Count("full")], signals=[Count("free")]),))],
    }
    program = gridded(pipeline(streams, {"free": 2, "full": 0}), 3_000_000, place, slots=2)
    with priced_family() as machine:
        timing = simulate(program, machine).timing
    assert timing.issued_instructions == 3_000_000 * 100
    assert timing.executed_instructions < 5_000


def test_a_deadlock_in_an_instance_is_named():
    program = gridded(pipeline({"s": [step(0, 1, waits=[Count("never")])]}, {"never": 0}), 5, "dispatch")
    with priced_family() as machine, pytest.raises(Undefined, match=r"stream s waits for 1 of never \(has 0\)"):
        simulate(program, machine)


def _drawn(seed: int, rounds: int) -> Program:
    """A random pipeline that can be run again and again: its counts end as they begin."""
    chance = random.Random(seed)
    while True:
        program = random_pipeline(chance.randint, rounds)
        if not any(s.name.startswith(("stock", "unread")) for s in program.semaphores) and all(
            any(s.name == f"free{full.name[4:]}" for s in program.semaphores)
            for full in program.semaphores
            if full.name.startswith("full")
        ):
            break
    divisor = chance.randint(0, 3)
    if divisor:
        program = replace(program, streams=tuple(replace(s, body=issued(s.body, divisor)) for s in program.streams))
    return program


@pytest.mark.parametrize("seed", range(40))
def test_random_grids_take_the_same_ticks_however_they_are_timed(seed):
    chance = random.Random(seed)
    program, count = _drawn(seed, 12), chance.randint(1, 40)
    with priced_family() as machine:
        for place, slots in (("dispatch", 1), ("dispatch", chance.randint(2, 4)), ("persistent", 1)):
            grid = gridded(program, count, place, slots)
            agreed(grid, machine)
            shown(grid, machine)


@pytest.mark.parametrize("seed", range(20))
def test_random_grids_of_several_kinds_take_the_same_ticks(seed):
    chance = random.Random(seed)
    program, count = _drawn(seed, 6), chance.randint(2, 12)
    growth = ((("b", chance.randint(1, 2)),), 1) if seed % 2 else ((("b", -1),), count)
    streams = tuple(replace(s, body=(Loop("again", growth[1], s.body, growth[0]),)) for s in program.streams)
    program = replace(program, streams=streams)
    with priced_family() as machine:
        for slots in (1, 2):
            agreed(gridded(program, count, "dispatch", slots), machine)
