"""Routes from tile to tile: dimension-ordered, or as a schedule lists them.

A route is the tuple of its links in order; from a tile to itself it is empty. Dimension order (Dally & Towles,
Principles and Practices of Interconnection Networks, 2004, chapter 8): all hops along one axis, then all along the
other. On a ring with links both ways the shorter way is taken, of two equal ones east, south or next.

Between chips joined all along their edges a route crosses in the row of its source in order 'xy', in that of its
target in order 'yx', so that a row of chips is routed like one wide mesh; else at the gateways. Round a ring of chips
it goes the way of fewer chips. On each chip that it crosses it is dimension-ordered again.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import BadInput, Unsupported, nearest
from .topology import DIRECTIONS, EAST, NEXT, NORTH, PREVIOUS, SOUTH, WEST, Topology

ORDERS = ("xy", "yx")
Route = tuple[int, ...]


def route(topology: Topology, source: int, target: int, order: str = "xy") -> Route:
    """The dimension-ordered route from one tile to another.

    Raises BadInput for what is no tile or no order, Unsupported where one-way links do not lead to the target.
    """
    check_order(order)
    here, there = topology.place(source), topology.place(target)
    if here[0] == there[0]:
        return tuple(_on_chip(topology, here, there, order))
    jumps = _chip_jumps(topology, here[0], there[0])
    row = here[2] if order == "xy" else there[2]
    joint = row if topology.gateway is None else 0
    way, links = NEXT if jumps > 0 else PREVIOUS, list[int]()
    leaving, entering = _ends(topology, joint, jumps)
    chip, x, y = here
    for _ in range(abs(jumps)):
        links += _on_chip(topology, (chip, x, y), (chip, *leaving), order)
        links.append(topology.chip_link(chip, joint, way))
        chip, (x, y) = (chip + (1 if jumps > 0 else -1)) % topology.chips, entering
    return (*links, *_on_chip(topology, (chip, x, y), there, order))


def path(topology: Topology, tiles: Sequence[int]) -> Route:
    """The route along the listed tiles; of two links between the same tiles the one with the smaller number.

    Raises BadInput for an empty list, for a hop that is no link (it says where links lead from there), and for a link
    that is crossed twice.
    """
    if not tiles:
        raise BadInput("a path lists one tile at least")
    links, here = [], tiles[0]
    topology.place(here)
    for number, tile in enumerate(tiles[1:], 1):
        name = topology.tile_name(tile)
        leaving = [link for d in range(len(DIRECTIONS)) if (link := topology.link(here, d)) is not None]
        found = [link for link in leaving if topology.head(link) == tile]
        if not found:
            ends = ", ".join(dict.fromkeys(topology.tile_name(topology.head(link)) for link in leaving)) or "nowhere"
            raise BadInput(f"hop {number}, {topology.tile_name(here)} to {name}, is no link; links lead to {ends}")
        if found[0] in links:
            raise BadInput(f"hop {number} crosses {topology.link_name(found[0])} twice: a path would wait for itself")
        links.append(found[0])
        here = tile
    return tuple(links)


def rectangle(topology: Topology, corner: tuple[int, int], opposite: tuple[int, int], chip: int = 0) -> tuple[int, ...]:
    """The tiles of a chip from corner (x, y), eastward and southward, to the opposite corner, both included.

    On a torus it may reach over the edge. Raises BadInput for a corner that is no tile or lies the wrong way round.
    """
    for x, y in (corner, opposite):
        topology.tile(x, y, chip)
    columns = _span("columns", corner[0], opposite[0], topology.width, wrap=topology.wrap_x)
    rows = _span("rows", corner[1], opposite[1], topology.height, wrap=topology.wrap_y)
    return tuple(topology.tile(x, y, chip) for y in rows for x in columns)


def check_order(order: str) -> None:
    """Raises BadInput for what is no order of dimensions."""
    if order not in ORDERS:
        raise BadInput(f"no order is called {order!r}{nearest(str(order), ORDERS)}; allowed: {', '.join(ORDERS)}")


def _span(what: str, first: int, last: int, extent: int, *, wrap: bool) -> list[int]:
    if first > last and not wrap:
        raise BadInput(f"{what} {first} to {last} run backwards, and no link closes the ring")
    return [(first + i) % extent for i in range((last - first) % extent + 1)]


def _jumps(at: int, to: int, extent: int, *, wrap: bool, ahead: bool = True, back: bool = True) -> int | None:
    """Hops along a line or ring, negative backwards; None where one-way links do not lead there."""
    if at == to:
        return 0
    up = (to - at) % extent if ahead and (wrap or to > at) else None
    down = (at - to) % extent if back and (wrap or to < at) else None
    if up is not None and (down is None or up <= down):
        return up
    return None if down is None else -down


def _jumps_x(topology: Topology, at: int, to: int) -> int:
    ways = topology.directions
    found = _jumps(at, to, topology.width, wrap=topology.wrap_x, ahead="east" in ways, back="west" in ways)
    if found is None:
        raise Unsupported(f"no links lead from column {at} to {to}: directions are {', '.join(ways)}")
    return found


def _jumps_y(topology: Topology, at: int, to: int) -> int:
    ways = topology.directions
    found = _jumps(at, to, topology.height, wrap=topology.wrap_y, ahead="south" in ways, back="north" in ways)
    if found is None:
        raise Unsupported(f"no links lead from row {at} to {to}: directions are {', '.join(ways)}")
    return found


def _chip_jumps(topology: Topology, at: int, to: int) -> int:
    found = _jumps(at, to, topology.chips, wrap=topology.ring)
    assert found is not None  # links between chips go both ways
    return found


def _on_chip(topology: Topology, here: tuple[int, int, int], there: tuple[int, int, int], order: str) -> list[int]:
    """The links of a route within one chip; places are (chip, x, y)."""
    chip, x, y = here
    _, to_x, to_y = there
    width, height = topology.width, topology.height
    right, down = _jumps_x(topology, x, to_x), _jumps_y(topology, y, to_y)
    turn_x, turn_y = (x, to_y) if order == "yx" else (to_x, y)
    top = 4 * chip * width * height
    row, column = top + 4 * turn_y * width, top + 4 * turn_x
    across = _run(row + (EAST if right > 0 else WEST), 4, x, right, width)
    along = _run(column + (SOUTH if down > 0 else NORTH), 4 * width, y, down, height)
    return along + across if order == "yx" else across + along


def _run(base: int, stride: int, at: int, jumps: int, extent: int) -> list[int]:
    """The links of `jumps` hops in a row or column, whose tile 0 has such a link of number `base`."""
    if jumps >= 0:
        straight = range(at, min(at + jumps, extent))
        around = range(at + jumps - extent)
    else:
        straight = range(at, max(at + jumps, -1), -1)
        around = range(extent - 1, extent + at + jumps, -1)
    return [base + stride * i for run in (straight, around) for i in run]


def _ends(topology: Topology, joint: int, jumps: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """(x, y) where a route leaves a chip, and where it enters the one after it."""
    ends = [(tile % topology.width, tile // topology.width) for tile in topology.joint(joint)]
    return (ends[0], ends[1]) if jumps > 0 else (ends[1], ends[0])
