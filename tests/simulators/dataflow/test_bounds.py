"""Is no routing quicker than the bound, and are the bounds those that can be derived by hand?

The study: how far dimension order is from any routing, on k x k meshes with links of one byte per unit of time.
"""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.simulators.dataflow.bounds import Bound, Demand, _crossing, cut_bound, least_cut, max_flow_bound
from presil.simulators.dataflow.loads import bottleneck
from presil.simulators.dataflow.routes import path, route
from presil.simulators.dataflow.topology import Topology
from presil.simulators.dataflow.trees import multicast_tree
from presil.simulators.errors import BadInput, Unsupported

from .networks import ORDERS, networks, one_way_tori, tiles


def all_to_all(network):
    return [Demand(a, (b,), 1) for a in range(network.tiles) for b in range(network.tiles) if a != b]


def transpose(network):
    k = network.width
    return [Demand(network.tile(x, y), (network.tile(y, x),), 1) for x in range(k) for y in range(k) if x != y]


def routed_time(network, demands, order="xy"):
    """Of the busiest link in dimension order; several targets share a tree."""
    flows = [(multicast_tree(network, d.source, d.targets, order), d.bytes) for d in demands]
    return (bottleneck(network, flows) or (0, 0.0))[1]


# Between columns c and c + 1 go the flows of (c + 1) k sources to (k - c - 1) k targets, over k links each way: one has
# k (c + 1) (k - c - 1) or more. In the middle of an even k that is k**3 / 4, of an odd k (k**2 - 1) k / 4 (Dally &
# Towles 2004, section 3.3). In order xy the link in row y carries the c + 1 sources of its row to all (k - c - 1) k
# targets: the same. No routing is better than dimension order here.
@pytest.mark.parametrize(("k", "time"), [(2, 2), (3, 6), (4, 16), (5, 30), (8, 128)])
def test_dimension_order_is_the_best_for_all_to_all_on_a_mesh(k, time):
    network = Topology(k, k)
    demands = all_to_all(network)
    assert routed_time(network, demands) == time
    assert cut_bound(network, demands).time == time
    assert max_flow_bound(network, demands).time == pytest.approx(time, rel=1e-6)


# On a k x k torus, k even, two columns of links each way part two halves: k**4 / 4 flows over 2 k links, k**3 / 8.
# Of targets half the ring away we send all east: each eastward link of a row carries distances 1 to k / 2 of k tiles in
# each of the k rows, (1 + ... + k / 2) k = k**2 (k + 2) / 8, so (k + 2) / k of the bound.
@pytest.mark.parametrize("k", [4, 6, 8])
def test_on_a_torus_the_tie_to_the_east_costs_two_parts_in_k(k):
    network = Topology(k, k, wrap_x=True, wrap_y=True)
    demands = all_to_all(network)
    assert routed_time(network, demands) == k**2 * (k + 2) / 8
    assert cut_bound(network, demands).time == k**3 / 8
    if k < 8:  # some seconds; it lies between the two
        assert max_flow_bound(network, demands).time == pytest.approx(k**3 / 8, rel=1e-6)


# Transpose, (x, y) to (y, x). In order xy row k - 1 sends all of its k - 1 flows east into (k - 1, k - 1): k - 1.
# A bound: of the tiles below the diagonal take those in the m columns and rows of their corner. Their flows all leave.
# Where the square reaches past the diagonal, 2 m > k, a triangle of side t = 2 m - k is cut off it; a staircase has as
# many links out as its square, m up and m to the right: (m**2 - t (t + 1) / 2) / (2 m) for the best m.
@pytest.mark.parametrize(
    ("k", "routed", "least"), [(2, 1, 0.5), (4, 3, 1.0), (5, 4, 4 / 3), (6, 5, 1.625), (8, 7, 2.2)]
)
def test_dimension_order_is_far_from_the_best_for_a_transpose(k, routed, least):
    def cut(m):
        t = max(0, 2 * m - k)
        return (m * m - t * (t + 1) / 2) / (2 * m)

    network = Topology(k, k)
    demands = transpose(network)
    assert max(map(cut, range(1, k))) == pytest.approx(least)
    assert max_flow_bound(network, demands).time == pytest.approx(least, rel=1e-6)
    assert cut_bound(network, demands).time <= least
    assert routed_time(network, demands) == routed


# One to all: every link of the tree carries all bytes. Into a corner lead two links, so half the bytes must come over
# one of them: two trees without a common link would be twice as quick. On a torus four links lead to each tile.
@pytest.mark.parametrize("k", [2, 4, 8])
@pytest.mark.parametrize("source", ["corner", "middle"])
def test_one_tree_is_half_as_quick_as_the_bound_of_a_multicast(k, source):
    network = Topology(k, k)
    tile = 0 if source == "corner" else network.tile(k // 2, k // 2)
    demand = Demand(tile, tuple(range(network.tiles)), 1000)
    assert routed_time(network, [demand]) == 1000
    assert max_flow_bound(network, [demand]).time == 500
    assert max_flow_bound(Topology(k, k, wrap_x=True, wrap_y=True), [demand]).time == 250


# Copies for each target leave the corner over two links: (k**2 - 1) / 2. In order xy all but the k - 1 for column 0
# leave eastward: k (k - 1).
@pytest.mark.parametrize("k", [2, 4, 8])
def test_copies_leave_a_corner_one_by_one(k):
    network = Topology(k, k)
    demands = [Demand(0, (tile,), 1) for tile in range(1, k * k)]
    assert routed_time(network, demands) == k * (k - 1)
    assert max_flow_bound(network, demands).time == pytest.approx((k * k - 1) / 2, rel=1e-6)


def test_the_cut_of_a_chain_is_one_link_and_of_a_grid_the_smaller_degree():
    assert least_cut(Topology(5, 1), 0, 4) == 1
    grid = Topology(4, 4)
    assert least_cut(grid, grid.tile(1, 1), grid.tile(2, 2)) == 4
    assert least_cut(grid, grid.tile(1, 1), grid.tile(3, 0)) == 2  # a corner
    assert least_cut(Topology(2, 1, wrap_x=True), 0, 1) == 2
    assert least_cut(Topology(4, 4, wrap_x=True, wrap_y=True, directions=("east", "south")), 5, 0) == 2


def test_chips_are_bounded_by_the_links_between_them():
    network = Topology(4, 4, chips=2, capacity=8, chip_capacity=3)
    demand = Demand(network.tile(1, 1, 0), (network.tile(1, 1, 1),), 240)
    assert max_flow_bound(network, [demand]).time == 240 / (4 * 3)  # four rows; three would be 24, 8 each
    # All tiles of chip 0 send 30 bytes to their twins: 480 over 12 per unit of time.
    twins = [Demand(tile, (tile + 16,), 30) for tile in range(16)]
    assert cut_bound(network, twins).time == 40
    assert cut_bound(network, twins).why == "cut out of columns 0 to 3"
    assert max_flow_bound(network, twins).time == pytest.approx(40, rel=1e-6)
    narrow = Topology(4, 4, chips=2, gateway=(15, 0), capacity=8, chip_capacity=3)
    assert cut_bound(narrow, twins).time == 160


def test_a_multicast_crosses_a_cut_once_whatever_it_has_behind_it():
    network = Topology(4, 1)
    both = [Demand(0, (2, 3), 10), Demand(1, (3,), 5)]
    # Over east(2,0) or east(1,0): 10 of the one, 5 of the other.
    assert cut_bound(network, both).time == 15
    assert max_flow_bound(network, both).time == 15
    assert routed_time(network, both) == 15


def test_what_a_band_of_columns_has_to_take_in_bounds_too():
    """All columns but the middle one of 5 send 1 byte into it: 20 over 2 x 5 links; out of the two beside it, 10."""
    network = Topology(5, 5, wrap_x=True)
    demands = [Demand(network.tile(x, y), (network.tile(2, y),), 1) for x in (0, 1, 3, 4) for y in range(5)]
    assert cut_bound(network, demands) == Bound(2.0, "cut into columns 2 to 2")
    into = [Demand(network.tile(x, y), (network.tile(2, 2),), 1) for x in (0, 4) for y in range(5)]
    assert cut_bound(network, into).why == "cut into tile (2,2)"
    assert cut_bound(network, into).time == 10 / 4


def test_nothing_to_move_takes_no_time():
    network = Topology(3, 3)
    assert max_flow_bound(network, []).time == 0
    assert max_flow_bound(network, [Demand(4, (4,), 9), Demand(1, (2,), 0)]).why == "no bytes have to move"
    assert cut_bound(network, []).time == 0


def drawn_demands(data, network, most_targets):
    targets = st.lists(tiles(network), min_size=1, max_size=most_targets, unique=True).map(tuple)
    return data.draw(st.lists(st.builds(Demand, tiles(network), targets, st.integers(0, 99)), min_size=1, max_size=6))


@given(st.data(), networks(most=4) | one_way_tori(most=4), ORDERS)
def test_no_dimension_order_beats_a_bound(data, network, order):
    demands = drawn_demands(data, network, 4)
    routed = routed_time(network, demands, order) * (1 + 1e-6)
    assert cut_bound(network, demands).time <= routed
    assert max_flow_bound(network, demands).time <= routed


@given(st.data(), networks(most=3))
@settings(max_examples=50)
def test_no_choice_of_paths_beats_a_bound(data, network):
    """Any walks that are not dimension-ordered: round by a tile between."""
    flows, demands = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        a, between, b = (data.draw(tiles(network)) for _ in range(3))
        links = (*route(network, a, between), *route(network, between, b))
        flows.append((links, 10))
        demands.append(Demand(a, (b,), 10))
    slowest = (bottleneck(network, flows) or (0, 0.0))[1]
    assert max_flow_bound(network, demands).time <= slowest * (1 + 1e-6)


@given(st.data(), networks(most=4))
def test_the_cuts_are_all_those_of_the_family(data, network):
    """Bands of columns or rows and single tiles, each and all but it, counted one by one."""
    demands = drawn_demands(data, network, 4)
    lines = [[(network.place(t)[0], network.place(t)[1]) for t in range(network.tiles)]]
    lines += [[network.place(t)[2] for t in range(network.tiles)]]
    family = [{tile} for tile in range(network.tiles)]
    for line in lines:
        every = sorted(set(line))
        bands = [every[a:b] for a in range(len(every)) for b in range(a + 1, len(every) + 1)]
        family += [{tile for tile, at in enumerate(line) if at in band} for band in bands]
    best = 0.0
    for inside in [*family, *(set(range(network.tiles)) - band for band in family)]:
        moved = sum(d.bytes for d in demands if d.source in inside and set(d.targets) - inside)
        cut = [link for link in network.links if network.tail(link) in inside and network.head(link) not in inside]
        if moved:
            best = max(best, moved / sum(map(network.link_capacity, cut)))
    assert cut_bound(network, demands).time == pytest.approx(best)


MOVES = st.lists(
    st.tuples(st.integers(0, 5), st.lists(st.integers(0, 5), min_size=1, unique=True).map(sorted), st.integers(1, 9)),
    max_size=4,
)


@given(MOVES)
def test_what_crosses_the_border_of_each_band_is_counted_once(moves):
    out, into = _crossing(moves, 6)
    for first, last in itertools.combinations_with_replacement(range(6), 2):
        band = set(range(first, last + 1))
        assert out[first, last + 1] == sum(n for source, to, n in moves if source in band and set(to) - band)
        assert into[first, last + 1] == sum(n for source, to, n in moves if source not in band and set(to) & band)


def test_several_multicasts_are_bounded_by_the_least_cut_of_each_too():
    """One-way links south and east: into (1,2) lead two, but from (1,0) only column 1."""
    network = Topology(3, 3, directions=("east", "south"))
    demands = [Demand(1, (4, 7), 10), Demand(3, (4, 5), 1)]
    assert max_flow_bound(network, demands) == Bound(10.0, "least cut between (1,0) and (1,1)")
    assert cut_bound(network, demands).time < 10


@given(st.data(), networks(most=4) | one_way_tori(most=4))
def test_the_linear_program_is_never_below_a_cut(data, network):
    """Cuts bound every routing, and the program is one of them, split in fractions."""
    demands = drawn_demands(data, network, 1)
    assert max_flow_bound(network, demands).time >= cut_bound(network, demands).time * (1 - 1e-6)


@given(st.data(), networks(most=4) | one_way_tori(most=4))
@settings(max_examples=50)
def test_of_one_demand_the_program_and_the_least_cut_agree(data, network):
    """Max flow is min cut. Two demands between the same tiles are one for the program."""
    source, target = data.draw(tiles(network)), data.draw(tiles(network))
    if source == target:
        return
    halves = [Demand(source, (target,), 600), Demand(source, (target,), 1000)]
    assert max_flow_bound(network, halves).why == "maximum concurrent flow"
    least = 1600 / least_cut(network, source, target)
    assert max_flow_bound(network, halves).time == pytest.approx(least, rel=1e-6)
    assert max_flow_bound(network, [Demand(source, (target,), 1600)]).time == least


def test_two_paths_reach_the_bound_that_one_does_not():
    """From a corner to the other of a square: half the bytes along x first, half along y first."""
    network = Topology(2, 2)
    demand = Demand(0, (3,), 100)
    split = [(path(network, [0, 1, 3]), 50), (path(network, [0, 2, 3]), 50)]
    assert max_flow_bound(network, [demand]).time == bottleneck(network, split)[1] == 50
    assert routed_time(network, [demand]) == 100


def test_large_networks_are_bounded_by_cuts():
    network = Topology(64, 64)
    demands = [Demand(network.tile(x, y), (network.tile(63 - x, y),), 64) for x in range(64) for y in range(64)]
    # Each row sends 32 times 64 bytes over its middle, each way.
    assert max_flow_bound(network, demands).time == routed_time(network, demands) == 32 * 64


@pytest.mark.parametrize(
    ("demand", "message"),
    [
        (Demand(9, (0,), 1), "tile is 9"),
        (Demand(0, (1, -1), 1), "tile is -1"),
        (Demand(0, (), 1), r"a demand of \(0,0\) has no target"),
        (Demand(0, (1,), -1), "bytes is -1"),
        (Demand(0, (1,), 1.5), "bytes is 1.5"),
    ],
)
@pytest.mark.parametrize("bound", [max_flow_bound, cut_bound])
def test_what_is_no_demand_is_refused(bound, demand, message):
    with pytest.raises(BadInput, match=message):
        bound(Topology(3, 3), [demand])


def test_a_cut_lies_between_two_tiles():
    with pytest.raises(BadInput, match=r"a cut lies between two tiles; \(1,1\) is both"):
        least_cut(Topology(3, 3), 4, 4)


def test_where_no_links_lead_there_is_no_time():
    network = Topology(3, 3, directions=("east", "south"))
    with pytest.raises(Unsupported, match=r"no links lead from one to the other: \(2,2\) and \(0,0\)"):
        max_flow_bound(network, [Demand(8, (0,), 1)])
    with pytest.raises(Unsupported, match="no links lead from a source to its target"):
        max_flow_bound(network, [Demand(8, (0,), 1), Demand(0, (8,), 1)])
    with pytest.raises(Unsupported, match="no links lead out of some columns"):
        cut_bound(network, [Demand(8, (0,), 1)])
