"""Which half of the memories a block of a Gemmini mapping lies in, and which tile of weights comes next."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from presil.kernels.emitters.systolic.tiling import Axis, Place, Places

from .gemmini_walk import whole

HALVES = 2  # blocks in flight


def following(tiles: tuple[Axis, ...], inside: Places, now: frozenset[str]) -> Places:
    """The tile of weights behind the one at `inside`, which is not the last."""
    found: dict[str, Place] = {}
    for axis, inner in itertools.zip_longest(tiles, tiles[1:]):
        place = inside[axis.name]
        if f"last {axis.name}" in now:
            place = whole(axis.tiles[0].size)
        elif inner is None or f"last {inner.name}" in now:
            place = Place(place.index + 1, place.start + place.size, place.size, place.example)
        found[axis.name] = place
    return found


def ring(loops: tuple[Axis, ...], names: frozenset[str]) -> tuple[Axis, ...]:
    """The loops over blocks at which an operand that `names` choose is loaded.

    An inner loop that does not choose it finds it in its half; so does any, where the halves hold all there is of it.
    """
    while loops and loops[-1].name not in names:
        loops = loops[:-1]
    chosen = tuple(a for a in loops if a.name in names)
    return chosen if count(chosen) <= HALVES else loops


def count(axes: Sequence[Axis]) -> int:
    """How often the loops of `axes` run in all."""
    return math.prod(a.count for a in axes)


def slots(ring: Sequence[Axis]) -> int:
    """Halves that an operand has, loaded at the loops `ring`: one where there is one block."""
    return min(HALVES, count(ring))
