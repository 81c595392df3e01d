"""Do routes lead from link to link to their target, by the shortest way that their rule has?"""

import itertools
import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.simulators.dataflow.routes import path, rectangle, route
from presil.simulators.dataflow.topology import DIRECTIONS, NEXT, Topology
from presil.simulators.errors import BadInput, Unsupported

from .networks import ORDERS, meshes, networks, one_way_tori, tiles


def names(network, links):
    return " ".join(map(network.link_name, links))


def between(network, source, target, order="xy"):
    return names(network, route(network, network.tile(*source), network.tile(*target), order))


def test_dimension_order_on_a_mesh():
    network = Topology(4, 4)
    assert between(network, (0, 1), (2, 0)) == "east(0,1) east(1,1) north(2,1)"
    assert between(network, (0, 1), (2, 0), "yx") == "north(0,1) east(0,0) east(1,0)"
    assert between(network, (3, 3), (1, 3)) == "west(3,3) west(2,3)"
    assert between(network, (1, 1), (1, 1)) == ""


def test_a_torus_goes_the_shorter_way_round_and_of_equal_ones_east_or_south():
    network = Topology(4, 4, wrap_x=True, wrap_y=True)
    assert between(network, (0, 0), (3, 0)) == "west(0,0)"
    assert between(network, (3, 0), (1, 0)) == "east(3,0) east(0,0)"  # two hops either way
    assert between(network, (0, 1), (0, 3)) == "south(0,1) south(0,2)"
    assert between(network, (0, 0), (0, 3)) == "north(0,0)"


def test_a_one_way_torus_goes_all_the_way_round():
    network = Topology(4, 4, wrap_x=True, wrap_y=True, directions=("east", "south"))
    assert between(network, (1, 0), (0, 0)) == "east(1,0) east(2,0) east(3,0)"
    back = Topology(4, 4, wrap_x=True, wrap_y=True, directions=("west", "north"))
    assert between(back, (1, 0), (2, 3), "yx") == "north(1,0) west(1,3) west(0,3) west(3,3)"


def test_a_row_of_chips_joined_along_edges_is_routed_like_one_wide_mesh():
    network = Topology(2, 2, chips=2)
    there = (0, 1, 1)
    assert between(network, (0, 0, 0), there) == "east(0:0,0) next(0:1,0) south(1:0,0)"
    assert between(network, (0, 0, 0), there, "yx") == "south(0:0,0) east(0:0,1) next(0:1,1)"


def test_chips_are_crossed_at_their_gateways_the_shorter_way_round_a_ring():
    network = Topology(3, 1, chips=4, ring=True, gateway=(2, 0))
    assert between(network, (2, 0, 0), (0, 0, 2)) == "next(0:2,0) east(1:0,0) east(1:1,0) next(1:2,0)"
    assert between(network, (1, 0, 0), (1, 0, 3)) == "west(0:1,0) previous(0:0,0) west(3:2,0)"


@given(st.data(), networks() | one_way_tori(), ORDERS)
def test_a_route_goes_from_link_to_link_to_its_target(data, network, order):
    source, target = data.draw(tiles(network)), data.draw(tiles(network))
    here, there = source, set(network.links)
    for link in route(network, source, target, order):
        assert link in there
        assert network.tail(link) == here
        here = network.head(link)
    assert here == target


@given(st.data(), networks() | one_way_tori(), ORDERS)
def test_on_one_chip_its_length_is_the_manhattan_or_torus_distance(data, network, order):
    chip, x, y = network.place(data.draw(tiles(network)))
    to_x, to_y = data.draw(st.integers(0, network.width - 1)), data.draw(st.integers(0, network.height - 1))

    def hops(at, to, extent, wrap, ways):
        lengths = [to - at] * (ways[0] in network.directions) + [at - to] * (ways[1] in network.directions)
        return min(n % extent if wrap else abs(n) for n in lengths)

    links = route(network, network.tile(x, y, chip), network.tile(to_x, to_y, chip), order)
    along_x = hops(x, to_x, network.width, network.wrap_x, ("east", "west"))
    along_y = hops(y, to_y, network.height, network.wrap_y, ("south", "north"))
    assert len(links) == along_x + along_y
    axes = [DIRECTIONS[network.direction(link)] in {"north", "south"} for link in links]
    assert axes == sorted(axes, reverse=order == "yx")  # one turn at most


@given(st.data(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), ORDERS)
def test_a_row_of_chips_has_the_routes_of_one_wide_mesh(data, width, height, chips, order):
    split, whole = Topology(width, height, chips=chips), Topology(width * chips, height)
    source, target = data.draw(tiles(split)), data.draw(tiles(split))

    def wide(tile):
        chip, x, y = split.place(tile)
        return whole.tile(chip * width + x, y)

    walked = [wide(split.head(link)) for link in route(split, source, target, order)]
    assert walked == [whole.head(link) for link in route(whole, wide(source), wide(target), order)]


@given(st.data(), networks(), ORDERS)
def test_no_joint_is_nearer_than_that_of_the_route(data, network, order):
    """The shortest of the routes that keep to one joint, each joined by hand from its parts."""
    source, target = data.draw(tiles(network)), data.draw(tiles(network))
    chip, last = network.place(source)[0], network.place(target)[0]

    def hops(a, b):
        return len(route(network, a, b, order))

    if chip == last:
        return
    lengths = []
    for onward, joint in itertools.product((True, False), range(network.joints)):
        gap = (last - chip if onward else chip - last) % network.chips
        if not network.ring and (last > chip) != onward:
            continue
        leaving, entering = network.joint(joint) if onward else network.joint(joint)[::-1]
        inner = network.chip_tiles
        parts = hops(source, chip * inner + leaving), hops(last * inner + entering, target)
        lengths.append((gap, not onward, sum(parts) + gap + (gap - 1) * hops(entering, leaving)))
    way = min(way for *way, _ in lengths)  # fewer chips come first, of equal ways onward
    assert hops(source, target) == min(length for *other, length in lengths if other == way)


def test_large_networks_cost_only_the_links_of_a_route():
    """Nothing is stored per tile: the same hops take the same time on 1024 times as many tiles, but for noise."""

    def seconds(network):
        pairs = [(a, network.tile(25, 30)) for a in range(25)]
        return min(timeit.repeat(lambda: [route(network, a, b) for a, b in pairs], number=20, repeat=5))

    large = Topology(1024, 1024)
    assert len(route(large, 0, large.tiles - 1)) == 2 * 1023
    assert seconds(large) < 10 * seconds(Topology(32, 32))


def test_one_way_links_that_lead_nowhere_are_named():
    network = Topology(4, 4, directions=("east", "south"))
    with pytest.raises(Unsupported, match="no links lead from column 2 to 0: directions are east, south"):
        route(network, 2, 0)
    with pytest.raises(Unsupported, match="no links lead from row 1 to 0"):
        route(network, 4, 0)
    # To the chip before leads only the west edge, which the links of a row do not reach.
    with pytest.raises(Unsupported, match="no links lead from column 1 to 0: directions are east"):
        route(Topology(4, 1, directions=("east",), chips=2), 5, 0)


def test_one_way_rows_take_the_crossing_that_they_reach():
    network = Topology(2, 3, directions=("east", "south"), chips=2)
    # From (0,1) row 0 is out of reach; (1,1,2) is reached over rows 1 and 2, in order xy over row 1.
    assert between(network, (0, 1, 0), (1, 2, 1)) == "east(0:0,1) next(0:1,1) east(1:0,1) south(1:1,1)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 16), "tile is 16; allowed are whole numbers from 0 to 15"),
        ((-1, 2), "tile is -1"),
        ((0.0, 2), "tile is 0.0"),
        ((0, 2, "xyz"), r"no order is called 'xyz' \(did you mean 'xy'\?\); allowed: xy, yx"),
    ],
)
def test_what_is_no_tile_or_order_is_refused(arguments, message):
    with pytest.raises(BadInput, match=message):
        route(Topology(4, 4), *arguments)


@given(st.data(), meshes())
def test_a_path_takes_any_way_that_is_there(data, network):
    here = data.draw(tiles(network))
    walked = [here]
    for _ in range(data.draw(st.integers(0, 8))):
        links = [link for link in network.links if network.tail(link) == walked[-1]]
        if not links:
            break
        walked.append(network.head(data.draw(st.sampled_from(links))))
    hops = list(itertools.pairwise(walked))
    if len(set(hops)) < len(hops):
        with pytest.raises(BadInput, match=r"crosses .* twice"):
            path(network, walked)
    else:
        links = path(network, walked)
        assert [(network.tail(link), network.head(link)) for link in links] == hops


def test_a_path_names_the_hop_that_is_no_link():
    network = Topology(4, 4)
    assert names(network, path(network, [0, 1, 5, 4])) == "east(0,0) south(1,0) west(1,1)"
    with pytest.raises(
        BadInput, match=r"hop 2, \(1,0\) to \(3,0\), is no link; links lead to \(2,0\), \(1,1\), \(0,0\)"
    ):
        path(network, [0, 1, 3])
    with pytest.raises(BadInput, match="a path lists one tile at least"):
        path(network, [])
    with pytest.raises(BadInput, match="tile is 99"):
        path(network, [0, 99])
    chips = Topology(2, 1, chips=2)
    assert chips.direction(path(chips, [1, 2])[0]) == NEXT
    with pytest.raises(BadInput, match=r"hop 1, \(0:0,0\) to \(1:0,0\), is no link; links lead to \(0:1,0\)"):
        path(chips, [0, 2])


def test_between_two_tiles_a_path_takes_the_link_of_the_smaller_number():
    network = Topology(2, 1, wrap_x=True)
    assert names(network, path(network, [0, 1, 0])) == "east(0,0) east(1,0)"


def test_rectangles_reach_over_the_edge_of_a_torus_only():
    assert rectangle(Topology(4, 4), (1, 2), (2, 3)) == (9, 10, 13, 14)
    assert rectangle(Topology(4, 4, wrap_x=True), (3, 1), (0, 1)) == (7, 4)
    assert rectangle(Topology(2, 2, chips=2), (0, 0), (1, 0), chip=1) == (4, 5)
    with pytest.raises(BadInput, match="columns 3 to 0 run backwards, and no link closes the ring"):
        rectangle(Topology(4, 4), (3, 1), (0, 1))
    with pytest.raises(BadInput, match="y is 4"):
        rectangle(Topology(4, 4), (0, 0), (3, 4))
