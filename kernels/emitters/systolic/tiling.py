"""Cuts dimensions into tiles and writes loop nests over them with uniform bodies.

A nest asks for *conditions* such as "the first tile along k and r" (wait for the operand here) or "the last along n and
k" (free it here). Tiles that differ in size or in a condition are peeled into loops of their own, so that no
instruction of a body is conditional. Once an outer loop rules a condition out, inner loops are not split for it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from presil.simulators.program import Affine, Loop, Node

Edge = Literal["peel", "even"]
End = Literal["first", "last"]
ZERO = Affine()


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile: its number, its first element, its size."""

    index: int
    start: int
    size: int


@dataclass(frozen=True)
class Axis:
    """A dimension cut into tiles. `offset` is where the elements of this core begin."""

    name: str
    tiles: tuple[Tile, ...]
    offset: Affine = ZERO

    @property
    def count(self) -> int:
        """The number of tiles."""
        return len(self.tiles)

    @property
    def largest(self) -> int:
        """The largest tile: the first, as `cut` cuts."""
        return self.tiles[0].size

    @functools.cached_property
    def alike(self) -> tuple[tuple[Tile, ...], ...]:
        """Neighbouring tiles of one size."""
        return tuple(tuple(group) for _, group in itertools.groupby(self.tiles, lambda tile: tile.size))


def cut(name: str, total: int, size: int, edge: Edge = "peel", offset: Affine | None = None) -> Axis:
    """`total` elements in tiles of at most `size`.

    `peel`: full tiles and a rest. `even`: as many tiles, as alike as possible (sizes differ by at most one).
    """
    count = -(-total // size)
    if edge == "even":
        small, larger = divmod(total, count)
        sizes = [small + 1] * larger + [small] * (count - larger)
    else:
        sizes = [size] * (total // size) + ([total % size] if total % size else [])
    starts = [0, *itertools.accumulate(sizes)]
    return Axis(name, tuple(Tile(i, starts[i], n) for i, n in enumerate(sizes)), offset or ZERO)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a body stands along one axis: tile number and first element as expressions, and the size.

    `example` is one of the tiles meant; all of them are alike in what the nest was split by.
    """

    index: Affine
    start: Affine
    size: int
    example: Tile


Places = Mapping[str, Place]


@dataclass(frozen=True, slots=True)
class Condition:
    """True where every axis in `axes` is at its first (last) tile."""

    name: str
    end: End
    axes: frozenset[str]


Body = Callable[[Places, frozenset[str]], Sequence[Node]]
Signature = Callable[[Axis, Tile], object]  # beside the size


def nest(
    axes: Sequence[Axis],
    body: Body,
    conditions: Sequence[Condition] = (),
    signature: Signature | None = None,
) -> tuple[Node, ...]:
    """Loops over all tiles of `axes`, outermost first, around what `body(places, true conditions)` gives.

    Tiles along an axis share a loop while size, `signature` and the conditions are the same for them.
    """
    return tuple(_nest(axes, body, tuple(conditions), signature, {}))


def _nest(
    axes: Sequence[Axis],
    body: Body,
    alive: tuple[Condition, ...],
    signature: Signature | None,
    places: dict[str, Place],
) -> list[Node]:
    if not axes:
        return list(body(places, frozenset(c.name for c in alive)))
    axis, *inner = axes
    nodes: list[Node] = []
    for run, still in _runs(axis, alive, signature):
        first = run[0]
        if len(run) == 1:
            place = Place(Affine(first.index), axis.offset + first.start, first.size, first)
        else:
            variable = Affine.var(axis.name)
            place = Place(variable + first.index, axis.offset + variable * first.size + first.start, first.size, first)
        nodes_inside = _nest(inner, body, still, signature, {**places, axis.name: place})
        if not nodes_inside:
            continue
        nodes += nodes_inside if len(run) == 1 else [Loop(axis.name, len(run), tuple(nodes_inside))]
    return nodes


def _runs(
    axis: Axis, alive: tuple[Condition, ...], signature: Signature | None
) -> list[tuple[Sequence[Tile], tuple[Condition, ...]]]:
    """Neighbouring tiles that are alike, with the conditions that still can hold inside."""
    ends = {c.end for c in alive if axis.name in c.axes}
    groups: list[Sequence[Tile]] = []
    for alike in _alike(axis, signature):
        first = int("first" in ends and alike[0].index == 0 and len(alike) > 1)
        last = len(alike) - int("last" in ends and alike[-1].index == axis.count - 1 and len(alike) > 1 + first)
        groups += [group for group in (alike[:first], alike[first:last], alike[last:]) if group]

    def still(tile: Tile) -> tuple[Condition, ...]:
        ends = {"first": tile.index == 0, "last": tile.index == axis.count - 1}
        return tuple(c for c in alive if axis.name not in c.axes or ends[c.end])

    return [(group, still(group[0])) for group in groups]


def _alike(axis: Axis, signature: Signature | None) -> Sequence[Sequence[Tile]]:
    """Neighbouring tiles of one size and signature."""
    if signature is None:
        return axis.alike
    runs = (itertools.groupby(tiles, lambda tile: signature(axis, tile)) for tiles in axis.alike)
    return [tuple(tiles) for run in runs for _, tiles in run]


def number(axes: Sequence[Axis], places: Places) -> Affine:
    """The running number of the tile at `places` when `axes` are walked outermost first."""
    total = Affine()
    for axis in axes:
        total = total * axis.count + places[axis.name].index
    return total
