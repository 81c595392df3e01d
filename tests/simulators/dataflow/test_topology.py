"""Are the links those between neighbours, each with a number and a name that lead back to it?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.simulators.dataflow.topology import EAST, NEXT, NORTH, PREVIOUS, SOUTH, WEST, Topology
from presil.simulators.errors import BadInput, Unsupported

from .networks import networks, one_way_tori


def test_tiles_are_numbered_row_by_row_and_chip_after_chip():
    network = Topology(4, 3, chips=2)
    assert [network.tile(3, 0), network.tile(0, 1), network.tile(3, 2), network.tile(0, 0, 1)] == [3, 4, 11, 12]
    assert network.place(12 + 6) == (1, 2, 1)  # 6 = 1 row of 4 and 2


# Counted by hand: a row of w tiles has w - 1 neighbours, a ring w; each pair has a link each way.
@pytest.mark.parametrize(
    ("network", "links"),
    [
        (Topology(1, 1), 0),
        (Topology(5, 1), 2 * 4),
        (Topology(4, 3), 2 * (3 * 3 + 4 * 2)),
        (Topology(4, 3, wrap_x=True), 2 * (3 * 4 + 4 * 2)),
        (Topology(4, 3, wrap_x=True, wrap_y=True), 2 * (3 * 4 + 4 * 3)),
        (Topology(2, 1, wrap_x=True), 4),  # a ring of two has two links each way
        (Topology(4, 3, wrap_x=True, wrap_y=True, directions=("east", "south")), 3 * 4 + 4 * 3),
        (Topology(4, 3, chips=3), 3 * 34 + 2 * 2 * 3),  # two borders of three rows
        (Topology(4, 3, chips=3, ring=True), 3 * 34 + 2 * 3 * 3),
        (Topology(4, 3, chips=3, gateway=(11, 0)), 3 * 34 + 2 * 2),
        (Topology(4, 3, chips=3, ring=True, gateway=(5, 5)), 3 * 34 + 2 * 3),
    ],
)
def test_as_many_links_as_neighbours(network, links):
    assert len(network.links) == links


def test_links_lead_to_the_neighbour_and_wrap_at_the_border():
    network = Topology(4, 3, wrap_x=True, wrap_y=True)
    corner = network.tile(3, 2)
    heads = {way: network.head(network.link(corner, way)) for way in (EAST, SOUTH, WEST, NORTH)}
    assert heads == {EAST: network.tile(0, 2), SOUTH: network.tile(3, 0), WEST: 10, NORTH: 7}
    assert [network.wraps(network.link(corner, way)) for way in (EAST, SOUTH, WEST, NORTH)] == [
        True,
        True,
        False,
        False,
    ]


def test_chips_are_joined_along_edges_or_at_a_gateway():
    edges = Topology(4, 3, chips=2)
    crossing = edges.link(edges.tile(3, 1, 0), NEXT)
    assert edges.link_name(crossing) == "next(0:3,1)"
    assert edges.place(edges.head(crossing)) == (1, 0, 1)
    assert edges.link_name(edges.opposite(crossing)) == "previous(1:0,1)"
    assert edges.link(edges.tile(3, 1, 1), NEXT) is None  # a row of chips ends
    ring = Topology(4, 3, chips=3, ring=True, gateway=(5, 2))
    assert ring.head(ring.link(ring.tile(1, 1, 2), NEXT)) == ring.tile(2, 0, 0)
    assert ring.head(ring.link(ring.tile(2, 0, 0), PREVIOUS)) == ring.tile(1, 1, 2)
    assert ring.link(ring.tile(3, 1, 0), NEXT) is None  # not its gateway


@given(networks() | one_way_tori())
def test_numbers_names_and_ends_of_links_agree(network):
    for link in network.links:
        tail, way = network.tail(link), network.direction(link)
        assert network.link(tail, way) == link
        assert network.link_named(network.link_name(link)) == link
        chip, x, y = network.place(tail)
        there = network.place(network.head(link))
        if way == NEXT:
            assert there[0] == (chip + 1) % network.chips
        elif way == PREVIOUS:
            assert there[0] == (chip - 1) % network.chips
        else:
            dx, dy = {EAST: (1, 0), SOUTH: (0, 1), WEST: (-1, 0), NORTH: (0, -1)}[way]
            assert there == (chip, (x + dx) % network.width, (y + dy) % network.height)
            assert network.wraps(link) == (there[1:] != (x + dx, y + dy))


@given(networks())
def test_the_way_back_of_the_way_back_is_the_link(network):
    for link in network.links:
        back = network.opposite(link)
        assert (network.tail(back), network.head(back)) == (network.head(link), network.tail(link))
        assert network.opposite(back) == link


def test_a_one_way_link_has_no_way_back():
    network = Topology(4, 4, wrap_x=True, wrap_y=True, directions=("east", "south"))
    with pytest.raises(Unsupported, match=r"east\(1,0\) is one-way: no link goes west"):
        network.opposite(network.link_named("east(1,0)"))


def test_capacity_is_that_of_the_kind_of_link():
    network = Topology(2, 1, chips=2, capacity=32, chip_capacity=4)
    names = {network.link_name(link): network.link_capacity(link) for link in network.links}
    assert names["east(0:0,0)"] == 32
    assert names["next(0:1,0)"] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 0}, "width is 0; allowed are whole numbers from 1"),
        ({"height": 2.0}, "height is 2.0; allowed are whole numbers"),
        ({"chips": True}, "chips is True; allowed are whole numbers"),
        ({"width": 2000, "height": 2000}, "4000000 tiles; at most 1048576 are allowed"),
        ({"width": 1, "wrap_x": True}, "wrap_x closes a ring of 1"),
        ({"ring": True}, "ring closes a ring of 1"),
        ({"wrap_y": 1}, "wrap_y is 1; it must be true or false"),
        ({"directions": ()}, r"directions is \(\); allowed is a tuple"),
        ({"directions": "both"}, "directions is 'both'; allowed is a tuple of some of east, south, west, north"),
        ({"directions": ("east", "sout")}, "no direction is called 'sout' .did you mean 'south'"),
        ({"directions": ("east", "next")}, "no direction is called 'next'"),
        ({"directions": ("east", "east")}, "directions names one twice"),
        ({"gateway": (1, 16)}, "gateway is 16; allowed are whole numbers from 0 to 15"),
        ({"gateway": 3}, "gateway is 3; allowed is a pair"),
        ({"capacity": 0}, "capacity is 0"),
        ({"chip_capacity": 0.5}, "chip_capacity is 0.5"),
    ],
)
def test_a_network_that_cannot_be_is_refused(arguments, message):
    with pytest.raises(BadInput, match=message):
        Topology(**{"width": 4, "height": 4} | arguments)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("east", r"'east' is no name of a link; one is written like east\(0,0\)"),
        ("east(0:1,1)", "is no name of a link"),
        ("eastt(1,1)", "no direction is called 'eastt' .did you mean 'east'"),
        ("east(4,1)", "x is 4; allowed are whole numbers from 0 to 3"),
        ("east(3,1)", r"there is no link east\(3,1\): links leave \(3,1\) to south, west, north"),
    ],
)
def test_a_name_of_no_link_is_refused(name, message):
    with pytest.raises(BadInput, match=message):
        Topology(4, 4).link_named(name)


@given(st.data(), networks())
def test_a_number_of_no_link_is_refused(data, network):
    number = data.draw(st.integers(-3, max(network.links, default=0) + 3))
    if number in network.links:
        network.check(number)
    else:
        with pytest.raises(BadInput):
            network.check(number)
