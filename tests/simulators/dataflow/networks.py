"""Hypothesis strategies that draw networks and tiles of them."""

from hypothesis import strategies as st

from presil.simulators.dataflow.topology import Topology

ALL = ("east", "south", "west", "north")


@st.composite
def meshes(draw, most=6):
    return Topology(draw(st.integers(1, most)), draw(st.integers(1, most)))


@st.composite
def networks(draw, most=5):
    """Meshes and tori, of one chip or several, whose links go both ways."""
    width, height, chips = draw(st.integers(1, most)), draw(st.integers(1, most)), draw(st.integers(1, 4))
    inside = st.integers(0, width * height - 1)
    return Topology(
        width,
        height,
        wrap_x=width > 1 and draw(st.booleans()),
        wrap_y=height > 1 and draw(st.booleans()),
        chips=chips,
        ring=chips > 1 and draw(st.booleans()),
        gateway=draw(st.none() | st.tuples(inside, inside)),
    )


@st.composite
def one_way_tori(draw, most=6):
    """As either network of Wormhole."""
    width, height = draw(st.integers(2, most)), draw(st.integers(2, most))
    ways = draw(st.sampled_from([("east", "south"), ("west", "north")]))
    return Topology(width, height, wrap_x=True, wrap_y=True, directions=ways)


def tiles(network):
    return st.integers(0, network.tiles - 1)


ORDERS = st.sampled_from(["xy", "yx"])
