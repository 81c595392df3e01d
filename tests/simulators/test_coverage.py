"""Do the stores of a grid cover a tensor once? The quick answer against counting, and the faults of large grids."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from presil.simulators.coverage import Stores, is_tiled
from presil.simulators.gpu.isa import OPS
from presil.simulators.kinds import kinds, point
from presil.simulators.order import Order
from presil.simulators.program import Program, executed
from presil.simulators.sanitizer import _Sanitizer, sanitize

from .gpu_parts import H100, program


def stores(shape: str, sizes: str, body: str, grid: str) -> Program:
    """Each block stores tiles of ones: `body` has the stores and their loops."""
    text = f"tensor y: fp32[{shape}] out @hbm\nbuffer t: fp32[{sizes}] x1 @registers+0\nsemaphore done\nstream s {{\n"
    return program(f"{text}fill t{{0}} value=1.0 signal(done)\nsync wait(done)\n{body}\n}}", H100, f"grid {grid}")


def tiled(found: Program) -> bool:
    """The quick answer."""
    each = [Stores(Order(k.program, H100), [point(found, i) for i in k.instances]) for k in kinds(found)]
    return is_tiled(found.tensors[0], each, OPS)


def counts(found: Program) -> np.ndarray:
    """How often each element is stored: every store of every instance, one by one."""
    tensor = found.tensors[0]
    times = np.zeros(tensor.shape, int)
    for kind in kinds(found):
        for instance in kind.instances:
            for stream in kind.program.streams:
                for instruction, values in executed(stream.body, point(found, instance)):
                    if instruction.op != "store":
                        continue
                    at = []
                    for dim, extent in zip(instruction.operands[0].dims, tensor.shape, strict=True):
                        first = dim.start.at(values)
                        at.append([i for i in range(first, first + dim.size * dim.step, dim.step) if i < extent])
                    for index in itertools.product(*at):
                        times[index] += 1
    return times


def slow(found: Program) -> list[str]:
    """The kinds of faults that the sanitizer finds in the output where it does not take the quick way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("presil.simulators.sanitizer.is_tiled", lambda *_: False)
        return sorted({f.kind for f in _Sanitizer(found, H100, 20)._judge_output(found.tensors[0])})


def test_tiles_of_a_grid():
    found = stores("8, 12", "2, 4", "store y[2*i +: 2, 4*j +: 4], t{0}", "i=4, j=3 dispatch")
    assert (counts(found) == 1).all()
    assert tiled(found)
    assert slow(found) == []
    assert sanitize(found, H100) == ()


def test_edges_are_clipped():
    found = stores("7, 10", "2, 4", "store y[2*i +: 2, 4*j +: 4], t{0}", "i=4, j=3 persistent")
    assert (counts(found) == 1).all()
    assert tiled(found)
    assert slow(found) == []
    # Blocks that lie wholly behind the end store nothing.
    behind = stores("7, 10", "2, 4", "store y[2*i +: 2, 4*j +: 4], t{0}", "i=5, j=4 dispatch")
    assert tiled(behind)
    assert slow(behind) == []


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("i=4", "i=3", {"unstored"}),
        ("y[2*i +: 2", "y[i +: 2", {"race", "unstored"}),
        ("4*j +: 4]", "3*j +: 4]", {"race", "unstored"}),
        ("y: fp32[8, 12]", "y: fp32[9, 12]", {"unstored"}),
        ("y: fp32[8, 12]", "y: fp32[8, 13]", {"unstored"}),
        ("4*j +: 4]", "8*j +: 4]", {"unstored"}),
        ("grid i=4, j=3", "grid r=2, i=4, j=3", {"race"}),
    ],
)
def test_missing_and_double_stores_are_neither_way_passed(old, new, wanted):
    text = (
        "tensor y: fp32[8, 12] out @hbm\nbuffer t: fp32[2, 4] x1 @registers+0\nsemaphore done\nstream s {\n"
        "fill t{0} value=1.0 signal(done)\nstore y[2*i +: 2, 4*j +: 4], t{0} wait(done)\n}"
    )
    grid = "grid i=4, j=3 dispatch"
    found = program(text.replace(old, new), H100, grid.replace(old, new))
    assert text.replace(old, new) != text or grid.replace(old, new) != grid
    assert not (counts(found) == 1).all()
    assert not tiled(found)
    assert {f.kind for f in sanitize(found, H100)} == wanted


def test_several_stores_of_a_block_and_loops():
    halves = "store y[4*i +: 2, 0 +: 4], t{0}\nstore y[4*i + 2 +: 2, 0 +: 4], t{0}"
    assert tiled(stores("16, 4", "2, 4", halves, "i=4 dispatch"))
    turns = "loop k 2 { store y[4*i + 2*k +: 2, 0 +: 4], t{0} }"
    assert tiled(stores("16, 4", "2, 4", turns, "i=4 dispatch"))
    assert not tiled(stores("16, 4", "2, 4", turns.replace("2*k", "k"), "i=4 dispatch"))
    # Every fourth block of rows: instance i stores i, i + 4, i + 8, ...
    far = "loop k 4 { store y[8*k + 2*i +: 2, 0 +: 4], t{0} }"
    assert tiled(stores("32, 4", "2, 4", far, "i=4 dispatch"))


def test_kinds_cover_together():
    # A triangle: block b stores rows of b + 1 columns each of its own row, a second stream of stores the rest.
    text = "loop k 1 + b { store y[b +: 1, k +: 1], t{0} }"
    full = stores("4, 4", "1, 1", f"{text}\nloop k 3 - b {{ store y[b +: 1, b + k + 1 +: 1], t{{0}} }}", "b=4 dispatch")
    assert (counts(full) == 1).all()
    assert tiled(full)
    assert sanitize(full, H100) == ()
    half = stores("4, 4", "1, 1", text, "b=4 dispatch")
    assert not tiled(half)
    assert {f.kind for f in sanitize(half, H100)} == {"unstored"}


def test_what_is_not_plain_is_left_to_the_slow_way():
    # Every second row: right, but no boxes without gaps.
    steps = "store y[i +: 2 : 2, 0 +: 4], t{0}"
    found = stores("4, 4", "2, 4", steps, "i=2 dispatch")
    assert (counts(found) == 1).all()
    assert not tiled(found)
    assert slow(found) == []
    assert sanitize(found, H100) == ()


def test_a_tensor_that_nothing_stores_is_not_covered():
    found = program("tensor y: fp32[4] out @hbm\nbuffer t: fp32[4] x1 @registers+0\nfill t{0} value=1.0")
    assert not tiled(found)
    assert [(f.kind, f.where) for f in sanitize(found, H100)] == [("unstored", "tensor y")]


LARGE = "loop k 4 { store y[64*i + 16*k +: 16, 64*j +: 64], t{0} }"


def test_large_grids_are_judged():
    # 16,384 blocks of 4 stores.
    found = stores("8192, 8192", "16, 64", LARGE, "i=128, j=128 dispatch")
    assert sanitize(found, H100) == ()


@pytest.mark.parametrize(
    ("blocks", "shape", "body", "kinds_found"),
    [
        (64, "4097, 4096", LARGE, {"unstored"}),  # one row more
        (64, "4096, 4096", LARGE.replace("loop k 4", "loop k 3"), {"unstored"}),
        (8, "512, 512", LARGE + "\nstore y[64*i +: 16, 64*j +: 64], t{0}", set()),  # twice, but in order: no fault
        (8, "512, 512", LARGE + "\nstore y[64*i + 64 +: 16, 64*j +: 64], t{0}", {"race"}),  # the next block's
        (8, "512, 512", LARGE.replace("64*j +", "63*j +"), {"race", "unstored"}),
    ],
)
def test_faults_of_large_grids_are_found(blocks, shape, body, kinds_found):
    found = stores(shape, "16, 64", body, f"i={blocks}, j={blocks} dispatch")
    assert {f.kind for f in sanitize(found, H100)} == kinds_found


def test_the_element_that_is_missing_is_named():
    # All but the last column of blocks.
    found = stores("64, 64", "16, 16", "store y[16*i +: 16, 16*j +: 16], t{0}", "i=4, j=3 dispatch")
    (fault,) = sanitize(found, H100)
    assert re.fullmatch(r"element \[0, 48\] is never stored", fault.detail)


@st.composite
def grids(draw: DrawFn) -> Program:
    """Blocks that store boxes of a small tensor: most draws that tile it, some with a mistake."""
    rank = draw(st.integers(1, 3))
    names = "ijk"[:rank]
    tile = [draw(st.integers(1, 3)) for _ in range(rank)]
    blocks = [draw(st.integers(1, 3)) for _ in range(rank)]
    inner = [draw(st.integers(1, 2)) for _ in range(rank)]  # tiles of one block
    shape = [max(t * b * n - draw(st.integers(0, t - 1)), 1) for t, b, n in zip(tile, blocks, inner, strict=True)]
    loops, starts = [], []
    for axis, name in enumerate(names):
        reach = tile[axis] * inner[axis] if draw(st.integers(0, 9)) else draw(st.integers(0, 6))
        near = tile[axis] if draw(st.integers(0, 9)) else draw(st.integers(0, 4))
        if draw(st.booleans()):  # its tiles lie apart
            near, reach = near * blocks[axis], tile[axis]
        base = draw(st.integers(0, 2)) if not draw(st.integers(0, 14)) else 0
        starts.append(f"{reach}*{name} + {near}*t{axis} + {base} +: {tile[axis]}")
        loops.append(f"loop t{axis} {inner[axis]} {{")
    text = f"{' '.join(loops)} store y[{', '.join(starts)}], t{{0}} {'}' * rank}"
    sizes = ", ".join(map(str, tile))
    if not draw(st.integers(0, 5)):  # a second store
        box = (f"{draw(st.integers(0, extent - 1))} +: {size}" for extent, size in zip(shape, tile, strict=True))
        text += f"\nstore y[{', '.join(box)}], t{{0}}"
    order = draw(st.permutations([f"{name}={size}" for name, size in zip(names, blocks, strict=True)]))
    place = draw(st.sampled_from(["dispatch", "persistent"]))
    return stores(", ".join(map(str, shape)), sizes, text, f"{', '.join(order)} {place}")


@given(grids())
@settings(max_examples=200)
def test_the_quick_answer_is_that_of_counting(found):
    times = counts(found)
    once = bool((times == 1).all())
    assert tiled(found) == once  # all here are boxes without gaps: the quick answer is never `not known`
    faults = slow(found)
    assert ("unstored" in faults) == bool((times == 0).any())
    if once:
        assert faults == []
    if faults:
        assert not once


def test_most_draws_are_right():
    """Or the quick way would be tested by nothing but mistakes."""
    right = []

    @given(grids())
    @settings(max_examples=60, database=None)
    def look(found):
        right.append(bool((counts(found) == 1).all()))

    look()
    assert 0.2 < sum(right) / len(right) < 0.95
