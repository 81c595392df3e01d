"""The least time that any routing needs for given demands: no choice of routes, however split, is quicker.

Time is bytes over the capacity of links. Bounded is what links take; latency, buffers and what tiles do are left out.

- One demand: bytes over the least cut between its source and a target. Of one target this is reached, with the
  bytes split over several routes (Ford & Fulkerson 1956); of several it holds for routing that copies on the way and
  even for network coding (Ahlswede, Cai, Li & Yeung, IEEE Transactions on Information Theory 46(4), 2000).
- Many demands of one target each: the maximum concurrent flow (Shahrokhi & Matula, JACM 37(2), 1990), a linear program;
  reached by bytes split in any fractions.
- Any demands: for each cut of a family, the bytes that must cross it over its capacity (the bisection bound of Dally &
  Towles, Principles and Practices of Interconnection Networks, 2004, section 3.3). The family: bands of adjacent
  columns, of adjacent rows, and single tiles, each outwards and inwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import linprog
from scipy.sparse.csgraph import maximum_flow

from ..errors import BadInput, ModelError, Unsupported
from .loads import check_bytes
from .topology import Topology

MOST_VARIABLES = 20_000  # of a linear program: about ten seconds
_Counts = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Demand:
    """`bytes` that are to get from a source to each of its targets, the same to all."""

    source: int
    targets: tuple[int, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class Bound:
    """The least time, and what it comes from."""

    time: float
    why: str


def least_cut(topology: Topology, source: int, target: int) -> int:
    """Bytes per unit of time that can flow between two tiles over all routes at once (max flow is min cut).

    Raises BadInput for what are no two tiles.
    """
    topology.place(source), topology.place(target)
    if source == target:
        raise BadInput(f"a cut lies between two tiles; {topology.tile_name(source)} is both")
    return _least_cut(_capacities(topology), source, target)


def max_flow_bound(topology: Topology, demands: Sequence[Demand]) -> Bound:
    """The best bound of this file that can be had: of one demand its least cut, of several the linear program if all
    have one target and it is small, else the cuts of the family and the least cut of each demand of several targets.

    The linear program is solved to about 1e-7 of its value. Raises BadInput for demands that are none, Unsupported
    where no links lead to a target.
    """
    checked = _checked(topology, demands)
    if not checked:
        return Bound(0.0, "no bytes have to move")
    if len(checked) == 1:
        return _alone(topology, checked)
    single = all(len(d.targets) == 1 for d in checked)
    if single and len({d.source for d in checked}) * len(topology.links) <= MOST_VARIABLES:
        return Bound(_concurrent_flow(topology, checked), "maximum concurrent flow")
    several = [d for d in checked if len(d.targets) > 1]
    bounds = [cut_bound(topology, checked), *([_alone(topology, several)] if several else [])]
    return max(bounds, key=lambda bound: bound.time)


def cut_bound(topology: Topology, demands: Sequence[Demand]) -> Bound:
    """The largest bound of the family of cuts. Raises as `max_flow_bound` does."""
    checked = _checked(topology, demands)
    width, chip_tiles = topology.width, topology.chip_tiles
    columns = topology.chips * width

    def column(tile: int) -> int:
        return tile // chip_tiles * width + tile % width

    def row(tile: int) -> int:
        return tile // width % topology.height

    bounds = [
        _bands(topology, checked, column, columns, "columns"),
        _bands(topology, checked, row, topology.height, "rows"),
        _tiles(topology, checked),
    ]
    return max(bounds, key=lambda bound: bound.time)


def _checked(topology: Topology, demands: Sequence[Demand]) -> list[Demand]:
    """The demands that move bytes, without targets that have them already."""
    found = []
    for demand in demands:
        for tile in (demand.source, *demand.targets):
            topology.place(tile)
        if not demand.targets:
            raise BadInput(f"a demand of {topology.tile_name(demand.source)} has no target")
        check_bytes(demand.bytes)
        targets = tuple(t for t in dict.fromkeys(demand.targets) if t != demand.source)
        if targets and demand.bytes:
            found.append(Demand(demand.source, targets, demand.bytes))
    return found


def _capacities(topology: Topology) -> sparse.csr_array:
    """[tiles, tiles]: bytes per unit of time from tile to tile."""
    links = topology.links
    ends = ([topology.tail(link) for link in links], [topology.head(link) for link in links])
    values = np.array([topology.link_capacity(link) for link in links], np.int32)
    found = sparse.coo_array((values, ends), shape=(topology.tiles, topology.tiles))
    return found.tocsr()  # links between the same two tiles add up


def _least_cut(capacities: sparse.csr_array, source: int, target: int) -> int:
    return int(maximum_flow(capacities, source, target).flow_value)


def _alone(topology: Topology, demands: Sequence[Demand]) -> Bound:
    """The demand that takes longest if each had all links for itself."""
    capacities = _capacities(topology)
    best = Bound(0.0, "")
    for demand in demands:
        for target in demand.targets:
            cut = _least_cut(capacities, demand.source, target)
            names = f"{topology.tile_name(demand.source)} and {topology.tile_name(target)}"
            if not cut:
                raise Unsupported(f"no links lead from one to the other: {names}")
            if demand.bytes / cut > best.time:
                best = Bound(demand.bytes / cut, f"least cut between {names}")
    return best


def _concurrent_flow(topology: Topology, demands: Sequence[Demand]) -> float:
    """The least time in which all demands of one target each can flow at once.

    One commodity per source s, x[s, link] its bytes: at each tile what comes in less what goes out is what s owes it,
    and over each link the sum of x is at most time * capacity.
    """
    links = topology.links
    sources = {source: i for i, source in enumerate(dict.fromkeys(d.source for d in demands))}
    owed = np.zeros((len(sources), topology.tiles))
    for demand in demands:
        owed[sources[demand.source], demand.targets[0]] += demand.bytes
        owed[sources[demand.source], demand.source] -= demand.bytes
    ends = np.array([[topology.head(link) for link in links], [topology.tail(link) for link in links]])
    signs, columns = np.repeat([1.0, -1.0], len(links)), np.tile(np.arange(len(links)), 2)
    arrives = sparse.coo_array((signs, (ends.ravel(), columns)), shape=(topology.tiles, len(links)))
    capacities = np.array([[topology.link_capacity(link)] for link in links], float)
    none = np.zeros((owed.size, 1))
    kept: Any = sparse.hstack([sparse.kron(sparse.eye_array(len(sources)), arrives, "coo"), sparse.coo_array(none)])
    loads = sparse.kron(np.ones((1, len(sources))), sparse.eye_array(len(links)), "coo")
    limits: Any = sparse.hstack([loads, sparse.coo_array(-capacities)])
    scale = owed.max()  # tolerances are absolute
    cost = np.append(np.zeros(len(sources) * len(links)), 1.0)
    solved = linprog(cost, limits.tocsr(), np.zeros(len(links)), kept.tocsr(), owed.ravel() / scale, method="highs")
    if solved.status == 2:
        raise Unsupported("no links lead from a source to its target")
    if solved.status:
        raise ModelError(f"the linear program of a flow was not solved: {solved.message}")
    return float(solved.fun * scale)


def _bands(topology: Topology, demands: list[Demand], line: Callable[[int], int], lines: int, what: str) -> Bound:
    """The best of the cuts around bands of adjacent lines. Arrays are [first line, line after the last]."""
    out, into = _crossing([(line(d.source), sorted(set(map(line, d.targets))), d.bytes) for d in demands], lines)
    joined = [(line(topology.tail(x)), [line(topology.head(x))], topology.link_capacity(x)) for x in topology.links]
    open_out, open_into = _crossing(joined, lines)
    best = Bound(0.0, "")
    for word, moved, limit in (("out of", out, open_out), ("into", into, open_into)):
        if np.any((moved > 0) & (limit == 0)):
            raise Unsupported(f"no links lead {word} some {what}, but bytes have to")
        times = np.divide(moved, limit, out=np.zeros_like(moved), where=limit > 0)
        first, after = np.unravel_index(int(times.argmax()), times.shape)
        if times[first, after] > best.time:
            best = Bound(float(times[first, after]), f"cut {word} {what} {first} to {after - 1}")
    return best


def _crossing(moves: list[tuple[int, list[int], int]], lines: int) -> tuple[_Counts, _Counts]:
    """What has to cross the border of each band of lines, out of it and into it. A move is (from, to, amount)."""
    out, into = np.zeros((lines, lines + 1)), np.zeros((lines, lines + 1))
    added: dict[tuple[int, tuple[int, ...]], int] = {}
    for source, targets, amount in moves:
        key = (source, tuple(targets))
        added[key] = added.get(key, 0) + amount
    for (source, to), amount in added.items():
        # Out: bands with the source, but those that hold all targets too.
        out[: source + 1, source + 1 :] += amount
        out[: min(source, to[0]) + 1, max(source, to[-1]) + 1 :] -= amount
        # Into: bands whose first target is this one, but those that hold the source too.
        for before, target in zip((-1, *to), to, strict=False):
            into[before + 1 : target + 1, target + 1 :] += amount
            into[before + 1 : min(source, target) + 1, max(source, target) + 1 :] -= amount
    return out, into


def _tiles(topology: Topology, demands: list[Demand]) -> Bound:
    """The best of the cuts around single tiles."""
    out, into = np.zeros(topology.tiles), np.zeros(topology.tiles)
    open_out, open_into = np.zeros(topology.tiles), np.zeros(topology.tiles)
    for demand in demands:
        out[demand.source] += demand.bytes
        into[list(demand.targets)] += demand.bytes
    for link in topology.links:
        open_out[topology.tail(link)] += topology.link_capacity(link)
        open_into[topology.head(link)] += topology.link_capacity(link)
    best = Bound(0.0, "")
    for word, moved, limit in (("out of", out, open_out), ("into", into, open_into)):
        if np.any((moved > 0) & (limit == 0)):
            raise Unsupported(f"no links lead {word} some tile, but bytes have to")
        times = np.divide(moved, limit, out=np.zeros_like(moved), where=limit > 0)
        tile = int(times.argmax())
        if times[tile] > best.time:
            best = Bound(float(times[tile]), f"cut {word} tile {topology.tile_name(tile)}")
    return best
