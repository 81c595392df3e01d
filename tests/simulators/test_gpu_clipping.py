"""What a region has outside of its tensor reads as zero and is not stored: on all sides, with steps, by padding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from presil.simulators.errors import BadInput, Undefined
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate

from .gpu_parts import H100, program

Box = list[tuple[int, int, int]]  # (start, size, step) of each dimension


def boxes(least: int, most: int):
    """Shapes of one to three dimensions, each with a start from `least` to `most` behind its end."""

    def around(extent: int):
        return st.tuples(st.integers(least, extent + most), st.integers(1, 5), st.integers(1, 3))

    extents = st.lists(st.integers(1, 6), min_size=1, max_size=3)
    return extents.flatmap(lambda shape: st.tuples(st.just(shape), st.tuples(*map(around, shape)).map(list)))


def written(box: Box) -> str:
    return ", ".join(f"{start} +: {size} : {step}" for start, size, step in box)


def shown(sizes) -> str:
    return ", ".join(map(str, sizes))


def reading(shape: list[int], box: Box, op: str = "load") -> tuple[np.ndarray, np.ndarray]:
    """What a block reads of 1, 2, 3, ..., and what it should."""
    sizes = [size for _, size, _ in box]
    space = "registers" if op == "load" else "shared"
    found = program(f"""
        tensor x: fp32[{shown(shape)}] in @hbm
        tensor y: fp32[{shown(sizes)}] out @hbm
        buffer t: fp32[{shown(sizes)}] x1 @{space}+0
        semaphore there
        {op} t{{0}}, x[{written(box)}] signal(there)
        store y, t{{0}} wait(there)
    """)
    assert sanitize(found, H100) == ()
    x = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    wanted = np.zeros(sizes, np.float32)
    for at in itertools.product(*map(range, sizes)):
        index = tuple(start + i * step for i, (start, _, step) in zip(at, box, strict=True))
        if all(0 <= i < extent for i, extent in zip(index, shape, strict=True)):
            wanted[at] = x[index]
    return simulate(found, H100.with_cores(1), mode="full", inputs={"x": x}).outputs["y"], wanted


def reaches(one: tuple[int, int, int]) -> bool:
    """Whether it ends before the tensor begins by less than a step."""
    start, size, step = one
    return start + size * step >= 0


@given(boxes(-4, 3), st.sampled_from(["load", "copy"]))
@settings(max_examples=80)
def test_reads_are_padded_with_zeros(drawn, op):
    shape, box = drawn
    assume(all(reaches(each) for each in box))
    got, wanted = reading(shape, box, op)
    np.testing.assert_array_equal(got, wanted)


FAR = [-4, -5, -8, -9]


@pytest.mark.parametrize("start", [-2, -3, *FAR, -100, 19, 20, 21, 100])
def test_reads_wholly_outside_are_zeros(start):
    got, wanted = reading([20], [(start, 3, 1)])
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("start", [-1, -2, -3, -5, -6, -7])
def test_reads_before_the_start_begin_at_a_multiple_of_the_step(start):
    # From -5 in threes: -5, -2, 1, 4: two zeros, then elements 1 and 4.
    got, wanted = reading([20], [(start, 4, 3)])
    np.testing.assert_array_equal(got, wanted)


@given(boxes(0, 0), st.sampled_from(["registers", "shared"]))
@settings(max_examples=60)
def test_stores_leave_alone_what_is_not_there(drawn, space):
    shape, box = drawn
    box = [(min(start, extent - 1), size, step) for extent, (start, size, step) in zip(shape, box, strict=True)]
    sizes = [size for _, size, _ in box]
    first = int(np.prod(shape)) * 4
    text = f"""
        tensor x: fp32[{shown(sizes)}] in @hbm
        tensor y: fp32[{shown(shape)}] out @hbm
        buffer nothing: fp32[{shown(shape)}] x1 @registers+0
        buffer t: fp32[{shown(sizes)}] x1 @{space}+{first}
        semaphore there
        fill nothing{{0}} value=-1.0 signal(there)
        {"load" if space == "registers" else "copy"} t{{0}}, x signal(here)
        store y, nothing{{0}} wait(there)
        store y[{written(box)}], t{{0}} wait(here)
    """
    found = program(f"semaphore here\n{text}")
    assert sanitize(found, H100) == ()
    x = np.arange(1, np.prod(sizes) + 1, dtype=np.float32).reshape(sizes)
    wanted = np.full(shape, -1, np.float32)
    for at in itertools.product(*map(range, sizes)):
        index = tuple(start + i * step for i, (start, _, step) in zip(at, box, strict=True))
        if all(i < extent for i, extent in zip(index, shape, strict=True)):
            wanted[index] = x[at]
    run = simulate(found, H100.with_cores(1), mode="full", inputs={"x": x})
    np.testing.assert_array_equal(run.outputs["y"], wanted)


def test_stores_of_later_instances_may_lie_wholly_behind():
    # 5 elements in tiles of 2 from 2 * b: the fourth block stores nothing, and that is right.
    found = program(
        """
        tensor y: fp32[5] out @hbm
        buffer t: fp32[2] x1 @registers+0
        semaphore there
        fill t{0} value=2.0 signal(there)
        store y[2*b +: 2], t{0} wait(there)
        """,
        grid="grid b=4 dispatch",
    )
    assert sanitize(found, H100) == ()
    assert simulate(found, H100, mode="full", inputs={}).outputs["y"].tolist() == [2.0] * 5


BOUNDS = [
    ("store y[b - 1 +: 2], t{0}", Undefined, "y dimension 0 reaches -1..2, but has 0..4"),
    ("store y[0 - b +: 2], t{0}", Undefined, "y dimension 0 reaches -3..0, but has 0..4"),
    ("store y[2*b +: 2, 0 +: 1], t{0}", BadInput, "found 2 dimensions of 'y'; allowed: 1"),
    ("store y[b +: 2], t{0}[b +: 2]", Undefined, "t dimension 0 reaches 0..4, but has 0..1"),  # no buffer is clipped
    ("load t{0}[1 +: 2], x[0 +: 2]", Undefined, "t dimension 0 reaches 1..2, but has 0..1"),
    ("move s{0}, t{0}[1 +: 2]", Undefined, "t dimension 0 reaches 1..2, but has 0..1"),
    ("store x[b +: 2], t{0}", Undefined, "x is an input"),
]


@pytest.mark.parametrize(("text", "error", "why"), BOUNDS)
def test_what_is_not_clipped_is_refused(text, error, why):
    declared = """
    tensor x: fp32[5] in @hbm
    tensor y: fp32[5] out @hbm
    buffer t: fp32[2] x1 @registers+0
    buffer s: fp32[2] x1 @shared+0
    """
    with pytest.raises(error) as found:
        program(declared + text, grid="grid b=4 dispatch")
    assert why in str(found.value)


def test_nothing_outside_is_touched_in_neighbours():
    """A tensor that lies behind another is not read in its place."""
    text = """
        tensor w: fp32[4] in @hbm
        tensor x: fp32[2, 2] in @hbm
        tensor v: fp32[4] in @hbm
        tensor y: fp32[4, 4] out @hbm
        buffer t: fp32[4, 4] x1 @registers+0
        semaphore there
        load t{0}, x[-1 +: 4, -1 +: 4] signal(there)
        store y, t{0} wait(there)
    """
    ones = {name: np.ones(4, np.float32) for name in ("w", "v")}
    x = np.array([[5, 6], [7, 8]], np.float32)
    y = simulate(program(text), H100, mode="full", inputs={**ones, "x": x}).outputs["y"]
    assert y.tolist() == [[0, 0, 0, 0], [0, 5, 6, 0], [0, 7, 8, 0], [0, 0, 0, 0]]
