"""Are the bytes of each link those of the flows over it?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.simulators.dataflow.loads import bottleneck, link_loads
from presil.simulators.dataflow.routes import route
from presil.simulators.dataflow.topology import Topology
from presil.simulators.dataflow.trees import multicast_tree
from presil.simulators.errors import BadInput

from .networks import networks, tiles


def test_flows_add_up_on_the_links_they_share_and_a_tree_counts_once():
    network = Topology(3, 2)
    flows = [(route(network, 0, 2), 10), (route(network, 1, 5), 7), (multicast_tree(network, 0, [2, 4, 5]), 100)]
    loads = {network.link_name(link): count for link, count in link_loads(flows).items()}
    assert loads == {"east(0,0)": 110, "east(1,0)": 117, "south(2,0)": 107, "south(1,0)": 100}
    link, time = bottleneck(network, flows)
    assert (network.link_name(link), time) == ("east(1,0)", 117.0)


def test_the_busiest_link_is_the_one_that_takes_longest():
    network = Topology(2, 1, chips=2, capacity=32, chip_capacity=4)
    link, time = bottleneck(network, [(route(network, 0, 3), 64), (route(network, 0, 1), 128)])
    # east(0:0,0) moves 192 bytes in 6, next(0:1,0) 64 bytes in 16.
    assert (network.link_name(link), time) == ("next(0:1,0)", 16.0)


def test_of_equally_busy_links_it_is_the_first():
    network = Topology(3, 1)
    assert bottleneck(network, [(route(network, 2, 0), 5), (route(network, 0, 1), 5)]) == (0, 5.0)


def test_where_nothing_moves_no_link_is_busiest():
    assert bottleneck(Topology(2, 2), [((), 5)]) is None


@given(st.data(), networks())
def test_all_loads_together_are_bytes_times_hops(data, network):
    pairs = data.draw(st.lists(st.tuples(tiles(network), tiles(network), st.integers(0, 1000)), max_size=10))
    loads = link_loads((route(network, a, b), n) for a, b, n in pairs)
    assert sum(loads.values()) == sum(n * len(route(network, a, b)) for a, b, n in pairs)


@pytest.mark.parametrize("count", [-1, 1.5, None, True])
def test_what_is_no_number_of_bytes_is_refused(count):
    with pytest.raises(BadInput, match="bytes is"):
        link_loads([((), count)])
