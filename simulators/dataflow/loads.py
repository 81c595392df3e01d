"""Bytes on each link of given flows, and the busiest link.

A flow is a route or tree and its bytes; a tree moves them once over each of its links. The time of the busiest link is
a bound from below of the time of these flows over these routes, reached if nothing but links limits them (Dally &
Towles, Principles and Practices of Interconnection Networks, 2004, section 3.3: channel load).
"""

from __future__ import annotations

from collections.abc import Iterable

from .channels import links_of
from .routes import Route
from .topology import Topology, whole
from .trees import Tree

MOST_BYTES = 1 << 62
Flow = tuple[Route | Tree, int]


def link_loads(flows: Iterable[Flow]) -> dict[int, int]:
    """Bytes per link that carries any. Raises BadInput for bytes that are no whole number."""
    loads: dict[int, int] = {}
    for routed, count in flows:
        check_bytes(count)
        for link in links_of(routed):
            loads[link] = loads.get(link, 0) + count
    return loads


def bottleneck(topology: Topology, flows: Iterable[Flow]) -> tuple[int, float] | None:
    """(link, time): the link that takes longest, bytes over capacity; of equal ones the smallest number.

    None where no link carries anything. Raises as `link_loads` does.
    """
    times = {link: count / topology.link_capacity(link) for link, count in link_loads(flows).items()}
    return min(times.items(), key=lambda item: (-item[1], item[0]), default=None)


def check_bytes(count: int) -> None:
    """Raises BadInput for what is no number of bytes."""
    whole("bytes", count, 0, MOST_BYTES)
