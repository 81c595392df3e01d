"""A semaphore must not grow beyond what a counter holds, under any timing."""

from __future__ import annotations

import pytest

from presil.simulators import order
from presil.simulators.assembly import parse
from presil.simulators.faults import Fault
from presil.simulators.machine import load_machine
from presil.simulators.sanitizer import sanitize

from .pipelines import MATMUL
from .tiny import tiny

HEAD = """\
program "copy" on "tiny"
workload "none"
tensor x: int8[8] in @dram
tensor y: int8[8] out @dram
buffer b: int8[8] @scratchpad+0
semaphore done = 0
semaphore z = 1048576
stream copy {
    load b{0}, x signal(done)
    store y, b{0} wait(done)
}
"""
GIVES = "stream gives {{\n    loop i {n} {{\n        sync signal(z)\n    }}\n}}\n"
TAKES = "stream takes {{\n    loop i {n} {{\n        sync wait(z)\n    }}\n}}\n"


@pytest.mark.parametrize("n", [1, 100])
def test_a_count_that_only_some_timings_let_grow_too_far(n):
    """Where the wait comes first, as it does in a run, all is well."""
    for text in (TAKES + GIVES, GIVES + TAKES):
        detail = f"can grow to {2**20 + n:,} where its signals are early; the most it can hold is 1,048,576"
        assert sanitize(parse(HEAD + text.format(n=n)), tiny()) == (Fault("overflow", "semaphore z", detail),)


def test_what_is_taken_before_it_is_given_back_never_grows():
    one = "stream one {\n    loop i 100 {\n        sync wait(z) signal(z)\n    }\n}\n"
    assert sanitize(parse(HEAD + one), tiny()) == ()
    # Two streams, ordered by a semaphore of their own.
    two = "stream takes {\n sync wait(z) signal(taken)\n}\nstream gives {\n sync wait(taken) signal(z)\n}\n"
    text = HEAD.replace("semaphore z", "semaphore taken = 0\nsemaphore z") + two
    assert sanitize(parse(text), tiny()) == ()
    early = text.replace("sync wait(taken) signal(z)", "sync signal(z)\n sync wait(taken)")
    assert [f.kind for f in sanitize(parse(early), tiny())] == ["overflow"]


def test_a_ring_of_two_never_counts_beyond_two(monkeypatch):
    """However often it goes round: 48 loads take turns in two slots."""
    machine = load_machine("gemmini-16")
    monkeypatch.setattr(order, "MAX_COUNT", 2)
    assert sanitize(parse(MATMUL), machine) == ()
    monkeypatch.setattr(order, "MAX_COUNT", 1)
    found = sanitize(parse(MATMUL), machine)
    assert {f.kind for f in found} == {"overflow"}
    assert [f.where.removeprefix("semaphore ") for f in found] == [
        "x_full", "x_free", "w_full", "w_free", "p_full", "p_free", "a_full", "a_free"
    ]  # fmt: skip
    assert all(f.detail.startswith("can grow to 2 where") for f in found)
