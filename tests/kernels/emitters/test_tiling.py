"""Are all tiles walked once, in order, with the conditions that were asked?"""

from __future__ import annotations

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from presil.kernels.emitters.systolic.tiling import Axis, Condition, cut, nest, number
from presil.simulators.program import Affine, Dim, Instruction, Loop, Node, Region, executed

TOTALS, SIZES, EDGES = st.integers(1, 40), st.integers(1, 45), st.sampled_from(["peel", "even"])


def sizes(axis: Axis) -> list[int]:
    return [tile.size for tile in axis.tiles]


def test_edges_by_hand():
    assert sizes(cut("m", 10, 4)) == [4, 4, 2]
    assert sizes(cut("m", 10, 4, "even")) == [4, 3, 3]
    assert sizes(cut("m", 8, 4)) == sizes(cut("m", 8, 4, "even")) == [4, 4]
    assert sizes(cut("m", 3, 4)) == sizes(cut("m", 3, 4, "even")) == [3]
    assert cut("m", 10, 4).largest == 4


@given(TOTALS, SIZES, EDGES)
def test_tiles_lie_one_behind_the_other(total, size, edge):
    axis = cut("m", total, size, edge)
    assert axis.count == math.ceil(total / size)
    assert [t.index for t in axis.tiles] == list(range(axis.count))
    assert [t.start for t in axis.tiles] == [0, *itertools.accumulate(sizes(axis))][:-1]
    assert sum(sizes(axis)) == total
    assert axis.largest <= size
    if edge == "even":
        assert max(sizes(axis)) - min(sizes(axis)) <= 1


AXES = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4), EDGES), min_size=1, max_size=3)


@given(AXES, st.data())
def test_a_nest_walks_every_tile_once_in_order_and_knows_its_ends(shapes, data):
    axes = [cut(f"v{i}", total, size, edge, Affine(100 * i)) for i, (total, size, edge) in enumerate(shapes)]
    names = [a.name for a in axes]
    conditions = [
        Condition(f"c{i}", end, frozenset(data.draw(st.sets(st.sampled_from(names)))))
        for i, end in enumerate(data.draw(st.lists(st.sampled_from(["first", "last"]), max_size=3)))
    ]

    def body(places, true) -> list[Node]:
        dims = tuple(Dim(places[n].start, places[n].size) for n in names)
        return [Instruction(",".join(sorted(true)), (Region("t", number(axes, places), dims),))]

    walked = []
    for instruction, values in executed(nest(axes, body, conditions), {}):
        (region,) = instruction.operands
        tile = [(d.start.at(values), d.size) for d in region.dims]
        walked.append((tile, region.slot.at(values), set(filter(None, instruction.op.split(",")))))

    wanted = []
    for index, tiles in enumerate(itertools.product(*(a.tiles for a in axes))):
        ends = {
            "first": {a.name for a, t in zip(axes, tiles, strict=True) if t.index == 0},
            "last": {a.name for a, t in zip(axes, tiles, strict=True) if t.index == a.count - 1},
        }
        true = {c.name for c in conditions if c.axes <= ends[c.end]}
        wanted.append(([(100 * i + t.start, t.size) for i, t in enumerate(tiles)], index, true))
    assert walked == wanted


def test_what_is_alike_shares_a_loop_and_nothing_else_is_split():
    def body(places, true) -> list[Node]:
        return [Instruction("op" + "".join(sorted(true)))]

    m, k = cut("m", 10, 2), cut("k", 7, 2)
    assert nest([m], body) == (Loop("m", 5, (Instruction("op"),)),)
    # Seven in twos: three full tiles and a rest. The first of them is told apart where it is asked for.
    first = Condition("!", "first", frozenset({"k"}))
    assert nest([k], body) == (Loop("k", 3, (Instruction("op"),)), Instruction("op"))
    assert nest([k], body, [first]) == (Instruction("op!"), Loop("k", 2, (Instruction("op"),)), Instruction("op"))
    # Asked along both: within the later tiles of m, k is not split.
    both = Condition("!", "first", frozenset({"m", "k"}))
    (one, several) = nest([m, cut("k", 6, 2)], body, [both])[:2], nest([m, cut("k", 6, 2)], body, [both])[2:]
    assert one == (Instruction("op!"), Loop("k", 2, (Instruction("op"),)))
    assert several == (Loop("m", 4, (Loop("k", 3, (Instruction("op"),)),)),)


def test_a_signature_splits_what_it_tells_apart():
    axis = cut("h", 8, 2)
    nodes = nest([axis], lambda *_: [Instruction("op")], signature=lambda _, tile: tile.index == 2)
    assert nodes == (Loop("h", 2, (Instruction("op"),)), Instruction("op"), Instruction("op"))
