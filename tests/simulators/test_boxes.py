"""Does a box walk the elements of its region, and keep their order when its dimensions are merged?"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.simulators import boxes
from presil.simulators.errors import Unsupported
from presil.simulators.formats import size_bytes
from presil.simulators.program import Affine, Buffer, Dim, Region, Tensor
from presil.simulators.words import DIMS


def walk(box):
    """Offset of each element, in the order in which the RTL walks."""
    return [sum(i * stride for i, (_, stride) in zip(at, box, strict=True)) for at in positions(n for n, _ in box)]


def positions(sizes):
    return itertools.product(*[range(n) for n in sizes])


def offsets(region, owner, values):
    """The same from numpy: bytes from the beginning of the owner to each element of the region, row by row."""
    places = np.arange(math.prod(owner.shape)).reshape(owner.shape) * size_bytes(owner.dtype)
    dims = [(d.start.at(values), d.size, d.step) for d in region.dims] or [(0, n, 1) for n in owner.shape]
    return places[tuple(slice(s, s + (n - 1) * step + 1, step) for s, n, step in dims)].ravel().tolist()


@st.composite
def owned(draw):
    """(region, owner, values of variables): a box that lies inside its tensor."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    owner = Tensor("x", draw(st.sampled_from(["int8", "int32"])), shape, "in", "dram")
    if draw(st.booleans()):
        return Region("x"), owner, {}
    dims, values = [], {"i": draw(st.integers(0, 2))}
    for extent in shape:
        size = draw(st.integers(1, extent))
        step = draw(st.integers(1, max(1, (extent - 1) // max(1, size - 1))))
        room = extent - 1 - (size - 1) * step
        factor = draw(st.integers(0, room // max(1, values["i"])))
        dims.append(Dim(Affine.var("i", factor) + draw(st.integers(0, room - factor * values["i"])), size, step))
    return Region("x", None, tuple(dims)), owner, values


@given(owned())
def test_a_box_walks_its_region_in_the_order_of_numpy(drawn):
    region, owner, values = drawn
    begin = boxes.start(region, owner).at(values)
    assert [begin + at for at in walk(boxes.box(region, owner))] == offsets(region, owner, values)


DRAWN_BOXES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 12)), max_size=5).map(tuple)


@given(DRAWN_BOXES | owned().map(lambda drawn: boxes.box(drawn[0], drawn[1])))
def test_merging_keeps_the_walk(box):
    assert walk(boxes.merged(box)) == walk(box)
    assert boxes.elements(boxes.merged(box)) == boxes.elements(box)
    assert all(size > 1 for size, _ in boxes.merged(box))


@given(owned().map(lambda drawn: boxes.box(drawn[0], drawn[1])))
def test_rows_keep_the_walk_and_the_last_dimension(box):
    assert walk(boxes.rows(box)) == walk(box)
    assert boxes.rows(box)[-1] == box[-1]


@given(owned())
def test_runs_walk_every_byte_once_in_order(drawn):
    region, owner, _ = drawn
    box, width = boxes.box(region, owner), size_bytes(owner.dtype)
    assert boxes.runs(box, width)[-1][1] == 1
    assert walk(boxes.runs(box, width)) == [at + i for at in walk(box) for i in range(width)]


@given(st.data())
def test_broadcast_walks_as_numpy_broadcasts(data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    narrow = [1 if data.draw(st.booleans()) else n for n in sizes[data.draw(st.integers(0, len(sizes) - 1)) :]]
    places = np.arange(math.prod(narrow)).reshape(narrow)
    own = tuple(zip(narrow, [s // places.itemsize for s in places.strides], strict=True))
    assert walk(boxes.broadcast(own, sizes)) == np.broadcast_to(places, sizes).ravel().tolist()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (((4, 8), (8, 1)), ((32, 1),)),  # whole rows
        (((4, 16), (8, 1)), ((4, 16), (8, 1))),  # half rows
        (((1, 99), (4, 8), (1, 5), (8, 1)), ((32, 1),)),  # dimensions of one element do not matter
        (((2, 6), (3, 2)), ((6, 2),)),  # every second element
        (((3, 0), (4, 0)), ((12, 0),)),  # one element, twelve times
        (((1, 7),), ()),
    ],
)
def test_merged_by_hand(before, after):
    assert boxes.merged(before) == after


def test_runs_by_hand():
    assert boxes.runs(((4, 128), (16, 4)), 4) == ((4, 128), (64, 1))  # rows of 16 words out of 32
    assert boxes.runs(((4, 64), (16, 4)), 4) == ((256, 1),)  # whole rows
    assert boxes.runs(((4, 64), (8, 8)), 4) == ((32, 8), (4, 1))  # every second word
    assert boxes.runs(((3, 5), (1, 1)), 1) == ((3, 5), (1, 1))  # a column of bytes
    assert boxes.runs((), 4) == ((4, 1),)
    assert boxes.runs(((1, 3),), 1) == ((1, 1),)


def test_a_box_is_padded_to_what_the_rtl_walks_and_no_further():
    assert boxes.padded(((2, 3),), "x") == (*((1, 0),) * (DIMS - 1), (2, 3))
    with pytest.raises(Unsupported, match="x: a box of 5 dimensions; the RTL walks 4"):
        boxes.padded(((2, 1),) * 5, "x")


def test_the_tile_of_a_buffer_is_whole_without_dims():
    tile = Buffer("acc", "int32", (3, 5), 2, "accumulator", 64)
    assert boxes.box(Region("acc", Affine()), tile) == ((3, 20), (5, 4))
    assert boxes.start(Region("acc", Affine()), tile) == Affine()
