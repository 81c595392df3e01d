"""A deadlock is explained: which streams, what they wait for, what they have, and who could free them."""

from __future__ import annotations

import pytest

from presil.simulators.errors import Undefined
from presil.simulators.program import Count, Loop
from presil.simulators.simulate import simulate

from .random_pipelines import pipeline, priced_family, step


def explained(streams, semaphores, cores: int = 1) -> str:
    """The message, which is the same in both modes."""
    texts = []
    with priced_family() as machine:
        for mode in ("skip", "full"):
            with pytest.raises(Undefined) as caught:
                simulate(pipeline(streams, semaphores, cores), machine, mode=mode, inputs={})
            assert caught.value.kind == "deadlock"
            texts.append(str(caught.value))
    assert texts[0] == texts[1]
    return texts[0]


def test_a_circle_names_both_streams_and_who_would_free_each():
    streams = {
        "a": [step(0, 1, waits=[Count("x", 2)], signals=[Count("y")])],
        "b": [step(1, 1, waits=[Count("y")], signals=[Count("x", 2)])],
    }
    assert explained(streams, {"x": 1, "y": 0}) == (
        "deadlock at pipeline: "
        "stream a waits for 2 of x (has 1) before step; only a signal in stream b would free it; "
        "stream b waits for 1 of y (has 0) before step; only a signal in stream a would free it"
    )


def test_a_semaphore_that_nothing_signals_is_named():
    text = explained({"a": [step(0, 3), step(0, 1, waits=[Count("x")])]}, {"x": 0})
    assert text == "deadlock at pipeline: stream a waits for 1 of x (has 0) before step; nothing signals it"


def test_each_core_is_named():
    text = explained({"a": [step(0, 1, waits=[Count("x")])]}, {"x": 0}, cores=2)
    assert "core 0 stream a waits" in text
    assert "core 1 stream a waits" in text


def test_streams_that_are_done_are_not_blamed():
    text = explained(
        {"good": [Loop("i", 9, (step(0, 1, signals=[Count("x")]),))], "bad": [step(1, 1, waits=[Count("x", 10)])]},
        {"x": 0},
    )
    assert text.startswith("deadlock at pipeline: stream bad waits for 10 of x (has 9)")
    assert "stream good waits" not in text


def test_a_deadlock_after_a_jump_has_the_counts_of_the_whole_run():
    # The ring is given back one slot in two only: after 1,000 rounds the 1,000 spare slots are gone.
    streams = {
        "make": [Loop("i", 5000, (step(0, 2, waits=[Count("free")], signals=[Count("full")]),))],
        "use": [Loop("i", 5000, (step(1, 3, waits=[Count("full")]), step(1, 1, signals=[Count("half")])))],
        "back": [Loop("i", 2500, (step(2, 1, waits=[Count("half", 2)], signals=[Count("free")]),))],
    }
    text = explained(streams, {"free": 1000, "full": 0, "half": 0})
    assert "stream make waits for 1 of free (has 0) before step; only a signal in stream back would free it" in text
    assert "stream use waits for 1 of full (has 0)" in text
