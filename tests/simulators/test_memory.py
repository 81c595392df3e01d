"""When are operands read and results there? What is never a number by luck?"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from presil.simulators.assembly import parse
from presil.simulators.errors import BadInput, Undefined, Unsupported
from presil.simulators.simulate import random_inputs, simulate

from .tiny import memory, tiny

HEAD = """
program "p" on "tiny"
workload "none"
tensor x: int8[8] in @dram
tensor y: int8[8] out @dram
buffer a: int8[8] x2 @scratchpad+0
buffer b: int8[8] x2 @scratchpad+64
buffer c: int8[8] x2 @scratchpad+128
semaphore s = 0
semaphore t = 0
semaphore u = 0
"""
X = np.arange(-3, 5, dtype=np.int8)
# 8 elements on 8 lanes: the vector unit is taken for 1 cycle; its results are there LATENCY cycles later.
SLOW = {"lanes": 8, "latency": 30}


def run(body: str, *, machine=None, **options):
    return simulate(parse(HEAD + body), machine or tiny(vector=SLOW), mode="full", inputs={"x": X}, **options).outputs[
        "y"
    ]


def test_results_of_one_engine_are_seen_by_the_next_without_a_wait():
    # b = 2x is under way for 31 cycles when its reader starts 1 cycle behind it.
    body = """
    stream load { load a{0}, x signal(s) }
    stream vector {
        add b{0}, a{0}, a{0} wait(s)
        add c{0}, b{0}, a{0}
        add c{1}, c{0}, b{0} signal(t)
    }
    stream store { store y, c{1} wait(t) }
    """
    assert np.array_equal(run(body), 5 * X)


def test_a_tile_that_its_own_engine_uses_again_at_once_is_neither_stale_nor_lost():
    # One engine, one tile, no waits: in order, so b is x, then 2x, then 4x, and each reader sees what came before it.
    body = """
    stream load { load a{0}, x signal(s) }
    stream vector {
        add b{0}, a{0}, a{0} wait(s)
        loop i 20 { sync }
        add c{0}, b{0}, a{0}
        loop i 20 { sync }
        add b{0}, a{0}, c{0}
        add c{0}, b{0}, b{0} signal(t)
    }
    stream store { store y, c{0} wait(t) }
    """
    assert np.array_equal(run(body), 8 * X)
    assert np.array_equal(run(body.replace("loop i 20 { sync }", "")), 8 * X)


def test_sums_of_one_engine_gather_without_a_wait_and_are_then_overwritten():
    head = HEAD.replace("tensor y: int8[8]", "tensor y: int32[8, 1]") + "buffer n: int32[8, 1] x1 @accumulator+0\n"
    body = """
    buffer m: int8[8, 1] x1 @scratchpad+0
    stream load { load a{0}, x signal(s) }
    stream vector {
        sum n{0}, m{0} accumulate=0 wait(s)
        loop i 4 { sum n{0}, m{0} accumulate=1 }
        sum n{0}, m{0} accumulate=0
        loop i 2 { sum n{0}, m{0} accumulate=1 }
        sync signal(t)
    }
    stream store { store y, n{0} wait(t) }
    """
    got = simulate(parse(head + body), tiny(vector=SLOW), mode="full", inputs={"x": X}).outputs["y"]
    assert np.array_equal(got[:, 0], 3 * X)


def test_operands_are_read_at_the_start():
    # The tile is overwritten (nothing orders that: a race) while its reader is under way. It has read at its start.
    body = """
    stream load {
        load a{0}, x signal(s)
        fill a{0} value=9 wait(u)
    }
    stream vector {
        add b{0}, a{0}, a{0} wait(s)
        sync signal(u)
        loop i 9 { sync }
        sync signal(t)
    }
    stream store { store y, b{0} wait(t) }
    """
    assert np.array_equal(run(body), 2 * X)


def test_a_slot_that_is_overwritten_too_soon_gives_a_wrong_number_as_on_the_chip():
    body = """
    stream load {
        load a{0}, x signal(s)
        fill a{0} value=9 signal(t)
    }
    stream vector { add b{0}, a{0}, a{0} wait(s) wait(t) signal(u) }
    stream store { store y, b{0} wait(u) }
    """
    assert np.array_equal(run(body), np.full(8, 18))


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ("stream v { add b{0}, a{0}, a{0} } stream store { store y, b{0} }", "add b, a, a"),
        ("stream load { load a{0}, x } stream store { store y, a{0} }", "store y, a"),
        ("stream load { load a{1}, x signal(s) } stream store { store y, a{0} wait(s) }", "store y, a"),
        (
            "stream load { load a{0}[0 +: 7], x[0 +: 7] signal(s) } stream store { store y, a{0} wait(s) }",
            "store y, a",
        ),
    ],
    ids=["never written", "still under way", "the other slot", "one element missing"],
)
def test_what_was_not_written_is_not_read(body, where):
    with pytest.raises(Undefined, match=f"uninitialised at {where}: . is read where nothing was written yet") as caught:
        run(body)
    assert caught.value.kind == "uninitialised"


def test_a_slot_that_is_being_written_again_is_not_read():
    body = """
    stream load {
        load a{0}, x signal(s)
        load a{0}, x
    }
    stream store { store y, a{0} wait(s) }
    """
    with pytest.raises(Undefined, match="or while its write is under way"):
        run(body)


def test_what_is_added_to_must_have_been_written():
    head = HEAD + "buffer m: int8[8, 1] x1 @scratchpad+0\nbuffer n: int32[8, 1] x1 @accumulator+0\n"
    body = "stream load { load a{0}, x signal(s) } stream v { sum n{0}, m{0} accumulate=1 wait(s) }"
    with pytest.raises(Undefined, match="uninitialised at sum n, m: n is read where nothing was written yet"):
        simulate(parse(head + body), tiny(), mode="full", inputs={"x": X})


def test_an_output_must_be_stored_whole():
    body = "stream load { load a{0}, x signal(s) } stream store { store y[0 +: 7], a{0}[0 +: 7] wait(s) }"
    with pytest.raises(Undefined, match=r"unstored at y\[7\]: 1 of 8 elements were never stored"):
        run(body)


def test_another_poison_gives_the_same_numbers():
    body = "stream load { load a{0}, x signal(s) } stream store { store y, a{0} wait(s) }"
    assert np.array_equal(run(body, poison_seed=1), run(body, poison_seed=2))


def test_two_buffers_may_share_bytes_and_then_see_each_other():
    body = """
    buffer over: int8[4] x1 @scratchpad+4
    stream load {
        load a{0}, x
        fill over{0} value=7 signal(s)
    }
    stream store { store y, a{0} wait(s) }
    """
    assert np.array_equal(run(body), [-3, -2, -1, 0, 7, 7, 7, 7])


def test_inputs_must_be_those_of_the_program():
    program = parse(HEAD + "stream load { load a{0}, x signal(s) } stream store { store y, a{0} wait(s) }")
    for inputs, message in (
        ({}, "no input for tensor x; given: none"),
        ({"x": X[:7]}, r"input x: int8\[7\], but the program says int8\[8\]"),
        ({"x": X.astype(np.int32)}, r"input x: int32\[8\], but the program says int8\[8\]"),
    ):
        with pytest.raises(BadInput, match=message):
            simulate(program, tiny(), mode="full", inputs=inputs)
    assert set(random_inputs(program)) == {"x"}


def test_inputs_are_not_changed():
    given = X.copy()
    simulate(
        parse(HEAD + "stream load { load a{0}, x signal(s) } stream store { store y, a{0} wait(s) }"),
        tiny(),
        mode="full",
        inputs={"x": given},
    ).outputs["y"][:] = 0
    assert np.array_equal(given, X)


def test_floats_overflow_to_infinity_without_a_warning():
    head = HEAD.replace("tensor x: int8", "tensor x: fp32").replace("tensor y: int8", "tensor y: fp32")
    body = """
    buffer f: fp32[8] x1 @scratchpad+0
    buffer g: fp32[8] x1 @scratchpad+512
    stream load { load f{0}, x signal(s) }
    stream v { multiply g{0}, f{0}, f{0} wait(s) signal(t) }
    stream store { store y, g{0} wait(t) }
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = simulate(parse(head + body), tiny(), mode="full", inputs={"x": np.full(8, 1e30, np.float32)})
    assert np.isposinf(got.outputs["y"]).all()


def test_what_is_too_large_to_hold_is_refused_before_it_is_allocated():
    program = parse(
        HEAD.replace("tensor x: int8[8]", "tensor x: int8[1099511627776]") + "stream load { load a{0}, x[0 +: 8] }"
    )
    machine = tiny(memories={"dram": memory(capacity=1 << 42)})
    assert simulate(program, machine).timing.ticks > 0
    with pytest.raises(
        Unsupported, match=r"p: tensors and on-chip memories of 1,099,511,6.* bytes; at most 4,294,967,296"
    ):
        simulate(program, machine, mode="full")
