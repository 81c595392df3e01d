"""Does a tree reach each of its members once, over each link once?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.simulators.dataflow.routes import path, rectangle, route
from presil.simulators.dataflow.topology import Topology
from presil.simulators.dataflow.trees import multicast_tree, reduction_tree, reversed_tree, union
from presil.simulators.errors import BadInput, Unsupported

from .networks import ORDERS, meshes, networks, one_way_tori, tiles


def names(network, links):
    return " ".join(map(network.link_name, links))


def test_a_multicast_forks_where_its_routes_part():
    network = Topology(3, 3)
    tree = multicast_tree(network, 0, rectangle(network, (1, 0), (2, 1)))
    # Along row 0, from there down columns 1 and 2.
    assert names(network, tree.links) == "east(0,0) east(1,0) south(1,0) south(2,0)"
    forks = [(network.link_name(a), network.link_name(b)) for a, b in tree.steps]
    assert forks == [("east(0,0)", "east(1,0)"), ("east(0,0)", "south(1,0)"), ("east(1,0)", "south(2,0)")]


def test_a_reduction_joins_where_its_routes_meet():
    network = Topology(3, 3)
    tree = reduction_tree(network, rectangle(network, (1, 0), (2, 1)), 0)
    assert sorted(names(network, tree.links).split()) == [
        "north(0,1)",
        "west(1,0)",
        "west(1,1)",
        "west(2,0)",
        "west(2,1)",
    ]
    assert tree.links[-1] in {network.link_named("north(0,1)"), network.link_named("west(1,0)")}


@given(st.data(), networks() | one_way_tori(), ORDERS)
def test_a_multicast_reaches_every_target_once(data, network, order):
    source = data.draw(tiles(network))
    targets = data.draw(st.lists(tiles(network), min_size=1, unique=True))
    tree = multicast_tree(network, source, targets, order)
    # Each tile is entered by one link, and walking from it back along the steps is the route.
    entered = {network.head(link): link for link in tree.links}
    before = {b: a for a, b in tree.steps}
    assert len(entered) == len(tree.links) == len(set(tree.links))
    assert len(before) == len(tree.steps)
    for target in targets:
        links = [entered[target]] if target != source else []
        while links and links[-1] in before:
            links.append(before[links[-1]])
        assert tuple(reversed(links)) == route(network, source, target, order)
    assert set(tree.links) == {link for target in targets for link in route(network, source, target, order)}


@given(st.data(), networks() | one_way_tori(), ORDERS)
def test_a_reduction_takes_every_source_to_the_target(data, network, order):
    target = data.draw(tiles(network))
    sources = data.draw(st.lists(tiles(network), min_size=1, unique=True))
    tree = reduction_tree(network, sources, target, order)
    left = {network.tail(link): link for link in tree.links}
    after = dict(tree.steps)
    assert len(left) == len(tree.links) == len(set(tree.links))
    assert len(after) == len(tree.steps)
    for source in sources:
        links = [left[source]] if source != target else []
        while links and links[-1] in after:
            links.append(after[links[-1]])
        assert tuple(links) == route(network, source, target, order)


@given(st.data(), networks() | one_way_tori(), ORDERS, st.booleans())
def test_links_stand_in_an_order_in_which_data_can_cross_them(data, network, order, inward):
    root = data.draw(tiles(network))
    everywhere = range(network.tiles)
    tree = (reduction_tree if inward else multicast_tree)(
        network, *((everywhere, root) if inward else (root, everywhere)), order
    )
    place = {link: i for i, link in enumerate(tree.links)}
    assert all(place[a] < place[b] and network.head(a) == network.tail(b) for a, b in tree.steps)


@given(st.data(), meshes(), ORDERS)
def test_on_a_mesh_the_reverse_of_a_multicast_is_the_reduction_in_the_other_order(data, network, order):
    """The way back along x then y goes along y then x."""
    root = data.draw(tiles(network))
    members = data.draw(st.lists(tiles(network), min_size=1, unique=True))
    back = reversed_tree(network, multicast_tree(network, root, members, order))
    other = reduction_tree(network, members, root, "yx" if order == "xy" else "xy")
    assert set(back.links) == set(other.links)
    assert set(back.steps) == set(other.steps)
    assert reversed_tree(network, back) == multicast_tree(network, root, members, order)


def test_one_way_networks_have_reductions_but_no_reversed_trees():
    network = Topology(3, 1, wrap_x=True, directions=("east",))
    tree = multicast_tree(network, 0, [1, 2])
    with pytest.raises(Unsupported, match=r"east\(0,0\) is one-way: no link goes west"):
        reversed_tree(network, tree)
    assert names(network, reduction_tree(network, [1, 2], 0).links) == "east(1,0) east(2,0)"


def test_one_to_all_over_chips_is_a_tree_where_edges_are_joined():
    network = Topology(3, 3, chips=3)
    tree = multicast_tree(network, 4, range(27))
    assert {network.head(link) for link in tree.links} | {4} == set(range(27))
    assert len(tree.links) == 26


def test_a_multicast_to_all_of_16384_tiles():
    network = Topology(128, 128)
    assert len(multicast_tree(network, network.tile(64, 64), range(network.tiles)).links) == network.tiles - 1


def test_a_tree_of_given_routes():
    network = Topology(3, 3)
    routes = [path(network, [0, 1, 4, 3]), path(network, [0, 1, 2, 5])]
    tree = union(network, routes, 0)
    assert (tree.root, tree.members) == (0, (3, 5))
    assert names(network, tree.links) == "east(0,0) south(1,0) west(1,1) east(1,0) south(2,0)"


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (
            [[0, 1, 4], [0, 3, 4, 5]],
            r"not a tree: tile \(1,1\) is at the end of two links, south\(1,0\) and east\(0,1\)",
        ),
        ([[0, 1, 4, 3, 0, 3]], r"not a tree: north\(0,1\) goes round to the root \(0,0\)"),
        ([[1, 2]], r"a route goes on with east\(1,0\) from \(0,0\)"),
        ([[0, 1], [0, 3], [0, 1]], r"tile \(1,0\) is named twice"),
        ([], "a tree has one tile at least besides its root"),
    ],
)
def test_routes_that_make_no_tree_are_refused(paths, message):
    network = Topology(3, 3)
    with pytest.raises(BadInput, match=message):
        union(network, [path(network, tiles) for tiles in paths], 0)


def test_a_broken_route_is_refused():
    network = Topology(3, 3)
    with pytest.raises(BadInput, match=r"a route goes on with east\(1,1\) from \(1,0\)"):
        union(network, [(network.link_named("east(0,0)"), network.link_named("east(1,1)"))], 0)
    with pytest.raises(BadInput, match="there is no link north"):
        union(network, [(3,)], 0)


def test_what_is_no_member_is_refused():
    with pytest.raises(BadInput, match="tile is 9"):
        multicast_tree(Topology(3, 3), 0, [9])
    with pytest.raises(BadInput, match=r"tile \(2,0\) is named twice"):
        reduction_tree(Topology(3, 3), [2, 1, 2], 0)
    with pytest.raises(BadInput, match="no order"):
        multicast_tree(Topology(3, 3), 0, [1], "zz")
