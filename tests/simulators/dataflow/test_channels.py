"""Is a deadlock by routing found where there is one, and only there?"""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from presil.simulators.dataflow.channels import (
    Cycle,
    channel_dependencies,
    channel_name,
    dateline,
    dependency_cycle,
    explain_cycle,
)
from presil.simulators.dataflow.routes import path, route
from presil.simulators.dataflow.topology import Topology
from presil.simulators.dataflow.trees import multicast_tree, reduction_tree, union
from presil.simulators.errors import BadInput

from .networks import ORDERS, meshes, networks, one_way_tori, tiles

SQUARE = Topology(2, 2)
TURNS = [[0, 1, 3], [1, 3, 2], [3, 2, 0], [2, 0, 1]]  # each a quarter of the way round the square, and the next


def all_pairs(network, order="xy"):
    return [route(network, a, b, order) for a in range(network.tiles) for b in range(network.tiles) if a != b]


def in_classes(network, routes):
    return [dateline(network, links) for links in routes]


def test_four_routes_that_turn_round_a_square_wait_in_a_ring():
    links = tuple(map(SQUARE.link_named, ("east(0,0)", "south(1,0)", "west(1,1)", "north(0,1)")))
    cycle = dependency_cycle([path(SQUARE, tiles) for tiles in TURNS])
    assert cycle == Cycle(links, ((0,), (1,), (2,), (3,)))
    assert explain_cycle(cycle, SQUARE.link_name).splitlines() == [
        "deadlock by routing: 4 links wait for each other",
        "  east(0,0) waits for south(1,0) (route 0)",
        "  south(1,0) waits for west(1,1) (route 1)",
        "  west(1,1) waits for north(0,1) (route 2)",
        "  north(0,1) waits for east(0,0) (route 3)",
    ]


@pytest.mark.parametrize("left_out", range(4))
def test_three_of_the_four_do_not(left_out):
    assert dependency_cycle([path(SQUARE, tiles) for i, tiles in enumerate(TURNS) if i != left_out]) is None


def test_both_orders_together_make_that_ring():
    """0 to 3 and 3 to 0 along x first, 1 to 2 and 2 to 1 along y first."""
    mixed = [route(SQUARE, a, b, order) for a, b, order in ((0, 3, "xy"), (1, 2, "yx"), (3, 0, "xy"), (2, 1, "yx"))]
    assert mixed == [path(SQUARE, tiles) for tiles in TURNS]


def test_dependencies_name_every_route_once():
    assert channel_dependencies([(1, 2, 3), (2, 3), (1, 2), (7,)]) == {1: {2: [0, 2]}, 2: {3: [0, 1]}}


def test_every_branch_of_a_tree_waits():
    network = Topology(3, 3)
    tree = union(network, [path(network, [0, 1, 4]), path(network, [0, 1, 2])], 0)
    trunk, down, on = map(network.link_named, ("east(0,0)", "south(1,0)", "east(1,0)"))
    assert channel_dependencies([tree]) == {trunk: {down: [0], on: [0]}}
    # The branch down closes the ring of four that three routes leave open.
    square = union(SQUARE, [path(SQUARE, [0, 1, 3])], 0)
    assert dependency_cycle([square, *(path(SQUARE, tiles) for tiles in TURNS[1:])]) is not None


@given(meshes(most=4), ORDERS)
@settings(max_examples=40)
def test_dimension_order_on_a_mesh_has_no_cycle(network, order):
    assert dependency_cycle(all_pairs(network, order)) is None


@given(st.data(), meshes())
def test_nor_have_trees_and_routes_of_one_order(data, network):
    """A reduction turns as a route does. A multicast does too: it is their union."""
    flows = [route(network, data.draw(tiles(network)), data.draw(tiles(network))) for _ in range(4)]
    some = st.lists(tiles(network), min_size=1, unique=True)
    flows += [multicast_tree(network, data.draw(tiles(network)), data.draw(some)) for _ in range(3)]
    flows += [reduction_tree(network, data.draw(some), data.draw(tiles(network))) for _ in range(3)]
    assert dependency_cycle(flows) is None


# With links both ways routes take half the ring at most: of 4, two hops, so each link waits for the next; of 3, one.
# One-way routes take up to all links but one: of 3, two hops.
@pytest.mark.parametrize(("both_ways", "smallest"), [(True, 4), (False, 3)])
@pytest.mark.parametrize("extent", [2, 3, 4, 5, 6])
def test_a_ring_has_a_cycle_from_that_size_on(extent, both_ways, smallest):
    ways = ("east", "west") if both_ways else ("east",)
    network = Topology(extent, 1, wrap_x=True, directions=ways)
    cycle = dependency_cycle(all_pairs(network))
    assert (cycle is not None) == (extent >= smallest)
    if cycle:
        assert {network.direction(link) for link in cycle.links} in ({0}, {2})
        assert len(cycle.links) == extent
    assert dependency_cycle(in_classes(network, all_pairs(network))) is None


def test_the_class_changes_after_the_link_that_wraps_and_back_at_a_turn():
    network = Topology(4, 4, wrap_x=True, wrap_y=True)
    channels = dateline(network, route(network, network.tile(3, 3), network.tile(1, 1)))
    names = [channel_name(network, channel) for channel in channels]
    assert names == ["east(3,3).0", "east(0,3).1", "south(1,3).0", "south(1,0).1"]
    with pytest.raises(BadInput, match="link is 1000"):
        channel_name(network, 4 * 1000)


def test_around_a_ring_of_chips_all_links_after_the_dateline_are_of_the_other_class():
    network = Topology(2, 2, chips=3, ring=True)
    channels = dateline(network, route(network, network.tile(0, 0, 2), network.tile(1, 1, 0)))
    names = [channel_name(network, channel) for channel in channels]
    assert names == ["east(2:0,0).0", "next(2:1,0).0", "east(0:0,0).2", "south(0:1,0).2"]


@given(networks(most=4) | one_way_tori(most=4), ORDERS)
@settings(max_examples=60)
def test_datelines_break_the_cycles_of_tori_and_of_rings_of_meshes(network, order):
    """Not of tori in a row of chips: a row has no end there, so messages that come and go meet."""
    if network.chips > 1 and (network.wrap_x or network.wrap_y):
        return
    assert dependency_cycle(in_classes(network, all_pairs(network, order))) is None


@given(st.data(), networks() | one_way_tori(), ORDERS)
def test_datelines_break_those_of_trees_too(data, network, order):
    if network.chips > 1 and (network.wrap_x or network.wrap_y):
        return
    some = st.lists(tiles(network), min_size=1, unique=True)
    flows = [route(network, data.draw(tiles(network)), data.draw(tiles(network)), order) for _ in range(3)]
    flows += [multicast_tree(network, data.draw(tiles(network)), data.draw(some), order) for _ in range(3)]
    flows += [reduction_tree(network, data.draw(some), data.draw(tiles(network)), order) for _ in range(3)]
    assert dependency_cycle(in_classes(network, flows)) is None


def test_datelines_do_not_help_where_messages_of_two_chips_meet_in_a_ring():
    """Rows of 4 closed to rings, joined at tile 0. Eastward from it go those that came, up to tile 2; eastward to it
    go those that leave, from tile 2 on; 1 to 3 links the two. None is past its dateline, east(3,0), before tile 0.
    """
    network = Topology(4, 1, wrap_x=True, chips=2, gateway=(0, 0))
    ends = [(0, 6), (5, 7), (6, 0), (4, 2), (1, 3), (2, 4)]
    cycle = dependency_cycle(in_classes(network, [route(network, a, b) for a, b in ends]))
    assert [channel_name(network, channel) for channel in cycle.links] == [
        *(f"east(0:{x},0).0" for x in range(4)),
        "next(0:0,0).0",
        *(f"east(1:{x},0).0" for x in range(4)),
        "previous(1:0,0).0",
    ]
    assert cycle.routes == ((3,), (4,), (5,), (5,), (0,), (0,), (1,), (2,), (2,), (3,))


def test_a_ring_of_chips_has_a_cycle_without_its_dateline():
    network = Topology(2, 2, chips=4, ring=True)
    cycle = dependency_cycle(all_pairs(network))
    assert cycle is not None
    assert "next(3:1,0) waits for east(0:0,0)" in explain_cycle(cycle, network.link_name)


def test_a_class_goes_with_the_sum_at_a_join():
    """Tiles 2, 3 and 0 of a one-way ring of 4 add up into tile 1: what came over the dateline joins what did not."""
    network = Topology(4, 1, wrap_x=True, directions=("east",))
    tree = dateline(network, reduction_tree(network, [0, 2, 3], 1))
    assert [channel_name(network, link) for link in tree.links] == ["east(2,0).0", "east(3,0).0", "east(0,0).1"]


LINKS = st.lists(st.integers(0, 9), max_size=5, unique=True).map(tuple)


@given(st.lists(LINKS, max_size=8))
@settings(max_examples=300)
def test_a_cycle_is_found_exactly_where_strong_components_have_one(routes):
    graph = channel_dependencies(routes)
    edges = np.array([(a, b) for a, after in graph.items() for b in after], int).reshape(-1, 2).T
    adjacent = coo_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(10, 10))
    count, _ = connected_components(adjacent, directed=True, connection="strong")
    cycle = dependency_cycle(routes)
    assert (cycle is None) == (count == 10)  # no link waits for itself, as none is crossed twice
    if cycle:
        assert len(set(cycle.links)) == len(cycle.links)
        assert cycle.links[0] == min(cycle.links)
        for (a, b), users in zip(pairwise((*cycle.links, cycle.links[0])), cycle.routes, strict=True):
            assert users == tuple(i for i, links in enumerate(routes) if (a, b) in pairwise(links))


def test_a_long_list_of_routes_is_cut_short():
    cycle = Cycle((1, 2), (tuple(range(9)), (3, 8)))
    text = explain_cycle(cycle, partial("{}{}".format, "link "))
    assert "link 1 waits for link 2 (routes 0, 1, 2, 3 and 5 more)" in text
    assert "link 2 waits for link 1 (routes 3, 8)" in text
