"""Concrete regions of one memory: which there are, which overlap, and what a set of them covers.

A memory is an on-chip space with its buffers, or one tensor. Regions are strided boxes of a tile; two buffers may share
bytes, and then overlap is a matter of bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .formats import size_bytes
from .program import Buffer, Tensor

Array = np.ndarray
CHUNK = 1 << 20  # pairs compared at a time
MAX_PAIRS = 200_000_000
MAX_ALIASED = 200_000  # pairs of regions of two buffers that share bytes: compared one by one


@dataclass(frozen=True, slots=True)
class Holder:
    """What holds tiles: a buffer, or a tensor as one tile whose elements count as one byte each."""

    name: str
    shape: tuple[int, ...]
    item_bytes: int
    slots: int
    offset: int

    @staticmethod
    def of(owner: Buffer | Tensor) -> Holder:
        """The holder of a buffer or a tensor."""
        if isinstance(owner, Tensor):
            return Holder(owner.name, owner.shape, 1, 1, 0)
        return Holder(owner.name, owner.shape, size_bytes(owner.dtype), owner.slots, owner.offset)

    @property
    def tile(self) -> int:
        """Elements of one tile."""
        return math.prod(self.shape)

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.slots * self.tile * self.item_bytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one index to the next, per dimension."""
        return tuple(math.prod(self.shape[i + 1 :]) for i in range(len(self.shape)))


@dataclass(frozen=True, slots=True)
class Box:
    """One concrete region: `sizes` indices from `starts`, `steps` apart, of tile `slot` of holder `holder`."""

    holder: int
    slot: int
    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.sizes)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The box as an index of its tile."""
        parts = zip(self.starts, self.sizes, self.steps, strict=True)
        return tuple(slice(start, start + (size - 1) * step + 1, step) for start, size, step in parts)


class Area:
    """The distinct regions in use in one memory, numbered as they come."""

    def __init__(self, holders: Sequence[Holder]) -> None:
        self.holders = list(holders)
        self.boxes: list[Box] = []
        self._known: dict[tuple[object, int], int] = {}
        self._mask: Array | None = None
        self._overlaps: tuple[int, tuple[Array, Array]] | None = None

    def number(
        self, holder: int, slot: Array, starts: Sequence[Array], sizes: Sequence[int], steps: Sequence[int]
    ) -> Array:
        """The numbers of the regions with that slot and those starts, one per entry.

        All begin in bounds, or behind the end of a dimension, where there is nothing; what reaches there is clipped.
        """
        owner = self.holders[holder]
        steps = [1 if size == 1 else step for size, step in zip(sizes, steps, strict=True)]
        flat = slot
        for start, extent in zip(starts, owner.shape, strict=True):
            flat = flat * (extent + 1) + np.minimum(start, extent)
        distinct, inverse = _distinct(flat)
        kind = (holder, tuple(sizes), tuple(steps))
        numbers = [self._number(kind, value) for value in distinct.tolist()]
        found: Array = np.array(numbers, np.int64)[inverse]
        return found

    def _number(self, kind: tuple[int, tuple[int, ...], tuple[int, ...]], flat: int) -> int:
        found = self._known.get((kind, flat))
        if found is None:
            holder, sizes, steps = kind
            shape = self.holders[holder].shape
            starts: list[int] = []
            slot = flat
            for extent in reversed(shape):
                slot, start = divmod(slot, extent + 1)
                starts.insert(0, start)
            found = self._known[kind, flat] = len(self.boxes)
            walks = zip(sizes, starts, steps, shape, strict=True)
            inside = tuple(min(size, -(-(extent - start) // step)) for size, start, step, extent in walks)
            self.boxes.append(Box(holder, slot, tuple(starts), inside, steps))
        return found

    def overlaps(self) -> tuple[Array, Array]:
        """(first, near): the regions that share bytes with region r, r left out, are `near[first[r]:first[r + 1]]`.

        Asked again, it is not worked out again unless there are new regions.
        Raises OverflowError where there are too many pairs to compare.
        """
        if self._overlaps is None or self._overlaps[0] != len(self.boxes):
            self._overlaps = (len(self.boxes), self._compare())
        return self._overlaps[1]

    def _compare(self) -> tuple[Array, Array]:
        low, high = self._hulls()
        order = np.argsort(low, kind="stable")
        reach = np.searchsorted(low[order], high[order], "left")
        counts = np.maximum(reach - np.arange(len(order)) - 1, 0)
        if counts.sum() > MAX_PAIRS:
            raise OverflowError
        table = _Boxes(self.boxes)
        found: list[Array] = []
        ends = np.cumsum(counts)
        begin = aliased = 0
        while begin < len(order):
            done = ends[begin - 1] if begin else 0
            stop = max(int(np.searchsorted(ends, done + CHUNK, "right")), begin + 1)
            part = counts[begin:stop]
            left = np.repeat(np.arange(begin, stop), part)
            right = left + 1 + np.arange(len(left)) - np.repeat(np.cumsum(part) - part, part)
            a, b = order[left], order[right]
            same = table.holder[a] == table.holder[b]
            meet = np.zeros(len(a), bool)
            meet[same] = table.meet(a[same], b[same])
            aliased += int((~same).sum())
            if aliased > MAX_ALIASED:
                raise OverflowError
            for i in np.flatnonzero(~same):
                meet[i] = self._share_bytes(int(a[i]), int(b[i]))
            found.append(np.stack([a[meet], b[meet]]))
            begin = stop
        return _rows(np.concatenate(found, axis=1) if found else np.zeros((2, 0), np.int64), len(self.boxes))

    def uncovered(self, region: int, by: Iterable[int]) -> tuple[int, ...] | None:
        """The first index of the tile that is in `region` and in none of `by`, or None."""
        own = self._view(region)
        own[...] = False
        for other in by:
            self._view(other)[...] = True
        return self._first_missing(region, own)

    def _first_missing(self, region: int, own: Array) -> tuple[int, ...] | None:
        full = own.all(axis=-1)
        if full.all():
            return None
        box = self.boxes[region]
        at = np.unravel_index(int(np.argmin(full)), full.shape)
        return tuple(int(s + i * step) for s, i, step in zip(box.starts, at, box.steps, strict=True))

    def _share_bytes(self, a: int, b: int) -> bool:
        self._view(a)[...] = False
        self._view(b)[...] = True
        return bool(self._view(a).any())

    def _view(self, region: int) -> Array:
        """The bytes of a region in a mask of the whole memory, last axis: the bytes of one element."""
        if self._mask is None:
            self._mask = np.zeros(max(h.end for h in self.holders), bool)
        box = self.boxes[region]
        holder = self.holders[box.holder]
        start = holder.offset + box.slot * holder.tile * holder.item_bytes
        tile = self._mask[start : start + holder.tile * holder.item_bytes]
        return tile.reshape(*holder.shape, holder.item_bytes)[box.slices]

    def _hulls(self) -> tuple[Array, Array]:
        """First byte, and the byte behind the last, of each region."""
        low, high = [], []
        for box in self.boxes:
            holder = self.holders[box.holder]
            base = holder.offset + box.slot * holder.tile * holder.item_bytes
            first = sum(s * stride for s, stride in zip(box.starts, holder.strides, strict=True))
            dims = zip(box.sizes, box.steps, holder.strides, strict=True)
            last = first + sum((size - 1) * step * stride for size, step, stride in dims)
            low.append(base + first * holder.item_bytes)
            high.append(base + (last + 1) * holder.item_bytes)
        return np.array(low, np.int64), np.array(high, np.int64)

    def text(self, region: int) -> str:
        """`buffer xb slot 1 [0:128, 0:256]`."""
        box = self.boxes[region]
        holder = self.holders[box.holder]
        slot = f" slot {box.slot}" if holder.slots > 1 else ""
        dims = [f"{s.start}:{s.stop}" + (f":{s.step}" if s.step > 1 else "") for s in box.slices]
        return f"{holder.name}{slot}[{', '.join(dims)}]"


class _Boxes:
    """All boxes as columns, to compare many pairs at once."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        rank = max((len(b.sizes) for b in boxes), default=0)
        shape = (rank, len(boxes))
        self.holder = np.array([b.holder for b in boxes], np.int64)
        self.slot = np.array([b.slot for b in boxes], np.int64)
        self.first, self.step = np.zeros(shape, np.int64), np.ones(shape, np.int64)
        self.last = np.zeros(shape, np.int64)
        for i, box in enumerate(boxes):
            n = len(box.sizes)
            self.first[:n, i], self.step[:n, i] = box.starts, box.steps
            self.last[:n, i] = [s + (size - 1) * t for s, size, t in zip(box.starts, box.sizes, box.steps, strict=True)]
        self.strided = bool((self.step > 1).any())

    def meet(self, a: Array, b: Array) -> Array:
        """Whether boxes of one holder share an element, per pair."""
        found: Array = self.slot[a] == self.slot[b]
        for first, last, step in zip(self.first, self.last, self.step, strict=True):
            found &= (first[a] <= last[b]) & (first[b] <= last[a])
            if self.strided:
                one, two = (_Comb(*(column[x[found]] for column in (first, last, step))) for x in (a, b))
                found[found] = _combs_meet(one, two)
        return found


class _Comb(NamedTuple):
    """`first, first + step, ..., last`, for many pairs at once."""

    first: Array
    last: Array
    step: Array


def _combs_meet(a: _Comb, b: _Comb) -> Array:
    """Whether two combs share a tooth, per pair; their hulls overlap."""
    coarse, fine = a.step >= b.step, np.minimum(a.step, b.step)
    first, step = np.where(coarse, a.first, b.first), np.where(coarse, a.step, b.step)
    other = np.where(coarse, b.first, a.first)
    # Steps alike: teeth meet where their distance is a multiple. Fine step 1: the next tooth of the coarse one decides.
    alike = (first - other) % step == 0
    tooth = first + -(-np.maximum(other - first, 0) // step) * step <= np.minimum(a.last, b.last)
    found: Array = np.where(a.step == b.step, alike, tooth)
    for i in np.flatnonzero((fine > 1) & (a.step != b.step)):
        one, two = (range(int(c.first[i]), int(c.last[i]) + 1, int(c.step[i])) for c in (a, b))
        found[i] = any(x in two for x in one)
    return found


def _rows(pairs: Array, count: int) -> tuple[Array, Array]:
    """Unordered pairs as rows of neighbours, both ways."""
    a, b = np.concatenate([pairs[0], pairs[1]]), np.concatenate([pairs[1], pairs[0]])
    first = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(a, minlength=count), out=first[1:])
    return first, b[np.argsort(a, kind="stable")]


def _distinct(values: Array) -> tuple[Array, Array]:
    """`np.unique` with the inverse, of numbers from 0; by a table, without a sort, where a table is no larger."""
    size = int(values.max(initial=0)) + 1
    if size > len(values) or values.min(initial=0) < 0:
        return np.unique(values, return_inverse=True)
    seen = np.zeros(size, bool)
    seen[values] = True
    rank = np.cumsum(seen, dtype=np.int32) - 1
    return np.flatnonzero(seen), rank[values]
