"""Instances of several kinds: what is worked out from one of them is what each takes when it is stepped through."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from presil.simulators.apart import kind_tallies
from presil.simulators.chip import chip_ticks, run_chip, runner
from presil.simulators.compiled import CompiledProgram, compile_program
from presil.simulators.engine import Engine
from presil.simulators.program import Count, Loop, Node, Program
from presil.simulators.tally import Tally, tally

from .random_pipelines import BETWEEN, LAUNCH, pipeline, priced_family, random_pipeline, step

Growth = tuple[int, tuple[tuple[str, int], ...]]  # trips, and grid variables with what each adds


def triangle(program: Program, instances: int, growth: Growth) -> Program:
    """`program` again and again in each instance, as often as `growth` says."""
    streams = tuple(replace(s, body=(Loop("again", growth[0], s.body, growth[1]),)) for s in program.streams)
    # What nothing gives must last for all trips.
    enough = tuple(replace(s, initial=s.initial * (100 if "stock" in s.name else 1)) for s in program.semaphores)
    return replace(
        program, name="pipeline 1", streams=streams, semaphores=enough, grid=(("b", instances),), place="dispatch"
    )


def stepped(compiled: CompiledProgram, kind: int) -> Tally:
    """One instance of a kind on a core of its own, every instruction of it."""
    codes = compiled.kinds[kind]
    engine = Engine(replace(compiled, cores=1, instances=1, kinds=(codes,), kind_of=(), launch=0), skip=False)
    engine.run()
    return tally(engine)


def agreed(program: Program, machine) -> int:
    """Holds the tallies of all kinds against stepping; gives how many were simulated."""
    compiled = compile_program(program, machine)
    runs: list[CompiledProgram] = []
    run = runner(10**6)

    def counting(one: CompiledProgram) -> Engine:
        runs.append(one)
        return run(one)

    found = kind_tallies(compiled, counting)
    assert sorted(found) == list(range(len(compiled.kinds)))
    for kind, got in found.items():
        wanted = stepped(compiled, kind)
        assert (got.ticks, got.issued) == (wanted.ticks, wanted.issued), kind
        assert {k: t for k, t in got.stalls.items() if t} == {k: t for k, t in wanted.stalls.items() if t}, kind
    return len(runs)


def test_by_hand_each_trip_less_is_a_period_less():
    # 10 ticks a trip: 20, 21, ... 29 trips are 200, 210, ... 290 ticks, and one simulation.
    program = triangle(pipeline({"s": [step(0, 10)]}, {}), 10, (20, (("b", 1),)))
    with priced_family() as machine:
        compiled = compile_program(program, machine)
        found = kind_tallies(compiled, runner(10**6))
        assert [found[compiled.kind_of[b]].ticks for b in range(10)] == [200 + 10 * b for b in range(10)]
        assert [found[compiled.kind_of[b]].issued for b in range(10)] == [(20 + b,) for b in range(10)]
        assert agreed(program, machine) == 1


def test_by_hand_the_whole_chip():
    # Three cores take 4 instances of 200, 210, 220, 230: the first core is free again at 200, and takes the fourth.
    program = triangle(pipeline({"s": [step(0, 10)]}, {}), 4, (20, (("b", 1),)))
    with priced_family() as machine:
        compiled = compile_program(program, machine)
        assert chip_ticks(compiled, runner(10**6)) == LAUNCH + 200 + BETWEEN + 230
        assert run_chip(compiled, runner(10**6)).ticks == LAUNCH + 200 + BETWEEN + 230
        # Longest first: 230, 220, 210, and then 200 where the third is done.
        falling = triangle(pipeline({"s": [step(0, 10)]}, {}), 4, (23, (("b", -1),)))
        assert chip_ticks(compile_program(falling, machine), runner(10**6)) == LAUNCH + 210 + BETWEEN + 200


def test_a_kind_of_no_trips_takes_nothing():
    program = triangle(pipeline({"s": [step(0, 10)]}, {}), 10, (0, (("b", 3),)))
    with priced_family() as machine:
        compiled = compile_program(program, machine)
        found = kind_tallies(compiled, runner(10**6))
        assert [found[compiled.kind_of[b]].ticks for b in range(10)] == [30 * b for b in range(10)]
        agreed(program, machine)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_of_several_kinds(seed):
    chance = random.Random(seed)
    rising = (chance.randint(0, 30), (("b", chance.randint(1, 3)),))
    count = chance.randint(2, 8)
    growth = rising if seed % 2 else (count + chance.randint(0, 30), (("b", -1),))
    with priced_family() as machine:
        agreed(triangle(random_pipeline(chance.randint, 4), count, growth), machine)


def cut(chance: random.Random, growth: Growth, most: int) -> tuple[Growth, Growth]:
    """Two loops that make the trips of `growth` together, the second from at least one."""
    first = chance.randint(1, most)
    return (growth[0] - first, growth[1]), (first, ())


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_with_something_before_and_behind(seed):
    """As attention: some instructions, a loop that grows, others; or two loops, of which one grows."""
    chance = random.Random(1000 + seed)
    count = chance.randint(2, 8)
    growth: Growth = (chance.randint(8, 40), (("b", chance.randint(1, 2)),))
    streams, semaphores = {}, {"full": 0, "free": chance.randint(1, 4)}
    ends = chance.randint(0, 2), chance.randint(0, 2)
    signals = ([Count("free")], [Count("full")]), ([Count("full")], [Count("free")])
    for i, (waits, gives) in enumerate(signals):
        body: list[Node] = [one(chance, i, waits, ())]
        body += [one(chance, i, (), ()) for _ in range(chance.randint(0, 2))]
        body.append(one(chance, i, (), gives))
        trips = [growth]
        if seed % 3 == 0:
            trips = list(cut(chance, growth, 7))
            trips = trips[::-1] if chance.randint(0, 1) else trips
        middle = [Loop(f"k{n}", base, tuple(body), terms) for n, (base, terms) in enumerate(trips)]
        before, behind = ([one(chance, i, (), ()) for _ in range(end)] for end in ends)
        streams[f"s{i}"] = [*before, *middle, *behind]
    program = replace(pipeline(streams, semaphores), name="pipeline 1", grid=(("b", count),), place="dispatch")
    with priced_family() as machine:
        agreed(program, machine)


def one(chance: random.Random, stream: int, waits: Sequence[Count], signals: Sequence[Count]):
    """An instruction on one of two engines of its stream."""
    engine = 2 * stream + chance.randint(0, 1)
    return step(engine, chance.randint(1, 9), chance.randint(0, 20), waits=waits, signals=signals)


def test_most_kinds_are_not_simulated():
    """Or the shortcut would be tested by nothing."""
    simulated = kinds = 0
    with priced_family() as machine:
        for seed in range(10):
            chance = random.Random(seed)
            simulated += agreed(triangle(random_pipeline(chance.randint, 3), 8, (30, (("b", 2),))), machine)
            kinds += 8
    assert simulated < kinds / 2
