"""Does the engine do what the program form says: order, waits, links, the first come first, and where the time went?"""

from __future__ import annotations

import pickle
from itertools import pairwise

import pytest
from hypothesis import given, settings

from presil.simulators.errors import BadInput, Undefined, Unsupported
from presil.simulators.program import Count, Loop
from presil.simulators.simulate import simulate
from presil.simulators.timeline import Timeline
from presil.simulators.timing import Timing

from .random_pipelines import pipeline, pipelines, priced_family, step


def timed(
    streams, semaphores=None, *, cores: int = 1, **options
) -> tuple[Timing, dict[tuple[int, str], list[tuple[int, int]]]]:
    """(timing, {(core, engine): [(start, end of occupancy)]}) in ticks."""
    timeline = Timeline()
    with priced_family() as machine:
        program = pipeline(streams, semaphores or {}, cores)
        timing = simulate(program, machine, **options).timing
        assert simulate(program, machine, timeline=timeline).timing.ticks == timing.ticks
    slices = {(c, e): [(a, b) for a, b, *_ in s] for (c, e, kind), s in timeline._tracks.items() if kind == "busy"}
    return timing, slices


def test_a_stream_goes_on_when_its_engine_accepts_not_when_the_result_is_there():
    _, slices = timed({"s": [step(0, 5, 30), step(1, 2), step(0, 1), step(1, 1)]})
    # Engine 0 takes the first at 0 and is free at 5; engine 1 takes the second at 0 as well. The third waits for engine
    # 0 until 5, and the fourth stands behind it in the stream although its engine is free at 2.
    assert slices == {(0, "engine0"): [(0, 5), (5, 6)], (0, "engine1"): [(0, 2), (5, 6)]}


def test_the_end_is_when_the_last_result_is_there():
    timing, _ = timed({"s": [step(0, 5, 30)]})
    assert timing.ticks == 35
    assert timing.engines["engine0"].busy_ticks == 5
    assert timing.engines["engine0"].stall_ticks == {"done": 30}


def test_one_engine_completes_in_order():
    # The first is done at 1 + 20; the second would be at 2 + 0, but comes out behind it.
    streams = {
        "s": [step(0, 1, 20, signals=[Count("slow")]), step(0, 1, 0, signals=[Count("quick")])],
        "t": [step(1, 1, waits=[Count("quick")])],
        "u": [step(2, 1, waits=[Count("slow")])],
    }
    _, slices = timed(streams, {"slow": 0, "quick": 0})
    assert slices[0, "engine1"] == slices[0, "engine2"] == [(21, 22)]


def test_engines_complete_out_of_order_among_each_other():
    streams = {
        "s": [step(0, 1, 20, signals=[Count("slow")]), step(1, 1, 0, signals=[Count("quick")])],
        "t": [step(2, 1, waits=[Count("quick")])],
    }
    assert timed(streams, {"slow": 0, "quick": 0})[1][0, "engine2"] == [(1, 2)]


def test_a_signal_is_seen_in_its_tick_and_not_one_sooner():
    streams = {"s": [step(0, 3, 4, signals=[Count("full")])], "t": [step(1, 1, waits=[Count("full")])]}
    assert timed(streams, {"full": 0})[1][0, "engine1"] == [(7, 8)]


def test_waits_are_taken_in_order_and_each_takes_its_units():
    # a is full at 10, b at 14 (twice two). The first wait is held while the second is waited for.
    streams = {
        "a": [step(0, 10, signals=[Count("a", 3)])],
        "b": [Loop("i", 2, (step(1, 7, signals=[Count("b", 2)]),))],
        "c": [step(2, 1, waits=[Count("a", 2), Count("b", 4)]), step(2, 1, waits=[Count("a", 1)])],
    }
    timing, slices = timed(streams, {"a": 0, "b": 0})
    assert slices[0, "engine2"] == [(14, 15), (15, 16)]
    assert timing.engines["engine2"].stall_ticks == {"a": 10, "b": 4}


def test_the_first_stream_of_the_text_takes_a_unit_that_two_wait_for():
    streams = {
        "giver": [step(0, 5, signals=[Count("s")]), step(0, 5, signals=[Count("s")])],
        "first": [step(1, 1, waits=[Count("s")])],
        "second": [step(2, 1, waits=[Count("s")])],
    }
    _, slices = timed(streams, {"s": 0})
    assert (slices[0, "engine1"], slices[0, "engine2"]) == ([(5, 6)], [(10, 11)])


def test_two_streams_share_an_engine_first_come_first_served():
    streams = {"a": [Loop("i", 3, (step(0, 4),))], "b": [step(0, 3)]}
    # Both come at 0: a is first in the text. a comes back at 0 as well, before b: it is served until 8, then b; the
    # last of a comes when its second starts, at 4, when b is in line already.
    assert timed(streams)[1][0, "engine0"] == [(0, 4), (4, 8), (8, 11), (11, 15)]


def test_two_cores_share_a_link():
    # Each core moves three times for 4 ticks over one link.
    # Whose engine is free first asks for the link first: core 0 at 0, core 1 at 0 too, behind it. The second of core 0
    # asks at 4, when its engine is free, behind core 1, which has the link until 8; and so in turns.
    timing, slices = timed({"s": [Loop("i", 3, (step(0, 4, link0=4),))]}, cores=2)
    assert slices == {(0, "engine0"): [(0, 4), (8, 12), (16, 20)], (1, "engine0"): [(4, 8), (12, 16), (20, 24)]}
    assert timing.engines["core0.engine0"].stall_ticks == {"link link0": 4 + 4, "done": 4}
    assert timing.engines["core1.engine0"].stall_ticks == {"link link0": 4 + 4 + 4}
    assert timing.traffic_bytes["link0"] == 6 * 4
    assert timing.ticks == 24


def test_links_may_be_taken_for_longer_than_the_engine():
    _, slices = timed({"s": [step(0, 2, link0=9), step(1, 2, link0=1, link1=5), step(2, 1, link1=1)]})
    assert slices == {(0, "engine0"): [(0, 2)], (0, "engine1"): [(9, 11)], (0, "engine2"): [(14, 15)]}


def test_cores_have_semaphores_of_their_own():
    streams = {"s": [step(0, 3, link0=3, signals=[Count("full")])], "t": [step(1, 1, waits=[Count("full")])]}
    _, slices = timed(streams, {"full": 0}, cores=3)
    assert [slices[core, "engine1"] for core in range(3)] == [[(3, 4)], [(6, 7)], [(9, 10)]]


def test_a_loop_that_is_entered_again_starts_from_zero():
    timing, _ = timed({"s": [Loop("i", 3, (Loop("j", 4, (step(0, 2),)), step(0, 1)))]})
    assert (timing.ticks, timing.issued_instructions) == (3 * (4 * 2 + 1), 15)


@settings(max_examples=40)
@given(pipelines(12))
def test_the_ticks_of_every_engine_add_up_and_nothing_overlaps(program):
    timeline = Timeline()
    with priced_family() as machine:
        timing = simulate(program, machine, timeline=timeline).timing
    for engine in timing.engines.values():
        assert engine.busy_ticks + sum(engine.stall_ticks.values()) == timing.ticks
        assert min(engine.stall_ticks.values(), default=1) > 0
    for slices in timeline._tracks.values():
        assert all(first[1] <= second[0] for first, second in pairwise(slices))


def test_a_program_that_is_never_steady_is_ended_by_the_limit():
    # Two streams on two engines with unlike times never stand alike before 1009 * 1013 ticks are over.
    streams = {"a": [Loop("i", 10**9, (step(0, 1009),))], "b": [Loop("i", 10**9, (step(1, 1013),))]}
    with priced_family() as machine, pytest.raises(Undefined, match="endless at pipeline: more than 500 instructions"):
        simulate(pipeline(streams, {}), machine, max_instructions=500)


def test_a_run_of_every_instruction_that_would_be_too_long_is_refused_before_it_starts():
    streams = {"a": [Loop("i", 10**9, (Loop("j", 10**9, (step(0, 1),)),))]}
    with priced_family() as machine:
        program = pipeline(streams, {})
        wanted = r"pipeline issues 1,000,000,000,000,000,000 instructions; at most 50,000,000 are executed one by one"
        with pytest.raises(Unsupported, match=wanted):
            simulate(program, machine, mode="full", inputs={})
        with pytest.raises(Unsupported, match=wanted):
            simulate(program, machine, timeline=Timeline())
        assert simulate(program, machine).timing.ticks == 10**18  # which skip mode times at once


@pytest.mark.parametrize(
    "error", [Undefined("race", "here", "why"), BadInput("what", file="f", line=3), Unsupported("no")]
)
def test_errors_come_whole_out_of_another_process(error):
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (type(again), str(again)) == (type(error), str(error))
