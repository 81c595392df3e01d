"""What a contraction is told: how its operator lays out blocks, and the choices of the schedule."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from presil.simulators.formats import size_bytes
from presil.simulators.program import Affine, Attribute, Buffer, Dim, Instruction, Region

from .tiling import Axis, Condition, Places, Tile

Dims = tuple[Dim, ...]
Shape = tuple[int, ...]


class Layout(Protocol):
    """How an operator's tensors become blocks. Block shapes are those of the largest tiles."""

    @property
    def x_block(self) -> Shape:
        """Shape of a block of x; last dimension: inner length."""

    @property
    def w_block(self) -> Shape:
        """Shape of a block of w; last dimension: outputs."""

    @property
    def y_block(self) -> Shape:
        """Shape of a block of y; last dimension: outputs."""

    @property
    def bias(self) -> Shape | None:
        """Shape of the whole bias."""

    @property
    def taps(self) -> tuple[Axis, ...]:
        """Loops over kernel positions inside a block."""

    def inner_length(self, size: int) -> int:
        """Inner length of a block (at one kernel position, if there are `taps`) whose tile along k has `size`."""

    def load_x(self, slot: Affine, places: Places) -> Sequence[Instruction]:
        """Instructions without waits or signals that fill a block of x."""

    def x_signature(self, axis: Axis, tile: Tile) -> object:
        """What must be alike, beside the size, for two tiles to share the loads of x."""

    def x_rows(self, places: Places, inner: Dim) -> Dims:
        """The rows of a block of x at one kernel position, `inner` along the inner length."""

    def w_source(self, places: Places) -> Region:
        """The part of w that becomes a block."""

    def w_filled(self, places: Places) -> Dims:
        """The part of a block of w that is filled."""

    def w_part(self, places: Places, inner: Dim, outputs: Dim) -> Dims:
        """The weights of one kernel position."""

    def y_rows(self, places: Places) -> Dims:
        """The filled part of a block of y without its last dimension."""

    def y_filled(self, places: Places) -> Dims:
        """The filled part of a block of y."""

    def y_target(self, places: Places) -> Region:
        """Where a block of y goes."""

    def bias_part(self, places: Places) -> Dims:
        """The bias of a block of y."""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What the vector unit does to a block of sums, and the format it leaves."""

    op: str
    attributes: tuple[tuple[str, Attribute], ...]
    dtype: str


@dataclass(frozen=True, kw_only=True)
class Blocking:
    """The axes of a contraction and the choices that decide when blocks move."""

    g: tuple[Axis, ...]  # independent problems, outermost
    m: tuple[Axis, ...]
    n: Axis
    k: Axis
    order: str  # "mn" or "nm": which is outside; k is always innermost
    x_keep: bool  # a block of x stays on chip for all n
    w_keep: bool  # a block of w stays on chip for all m
    x_slots: int
    w_slots: int
    acc_slots: int
    y_slots: int
    dataflow: str
    arrays: int  # arrays that share the columns of a block
    input: str
    accumulator: str

    @functools.cached_property
    def outer(self) -> tuple[Axis, ...]:
        """All loops over blocks, outermost first."""
        return (*self.g, *((*self.m, self.n) if self.order == "mn" else (self.n, *self.m)), self.k)

    @functools.cached_property
    def x_axes(self) -> tuple[Axis, ...]:
        """The loops at which a block of x is loaded."""
        return tuple(a for a in self.outer if not (self.x_keep and a is self.n))

    @functools.cached_property
    def w_axes(self) -> tuple[Axis, ...]:
        """The loops at which a block of w is loaded."""
        return tuple(a for a in self.outer if not (self.w_keep and a in self.m))

    @functools.cached_property
    def y_axes(self) -> tuple[Axis, ...]:
        """The loops over blocks of y."""
        return self.outer[:-1]

    @functools.cached_property
    def blocks(self) -> int:
        """Blocks of products."""
        return _count(self.outer)

    @functools.cached_property
    def x_tiles(self) -> int:
        """Blocks of x that are loaded."""
        return _count(self.x_axes)

    @functools.cached_property
    def w_tiles(self) -> int:
        """Blocks of w that are loaded."""
        return _count(self.w_axes)

    @functools.cached_property
    def y_tiles(self) -> int:
        """Blocks of y."""
        return _count(self.y_axes)

    @functools.cached_property
    def x_ring(self) -> int:
        """Slots of the ring of x."""
        return self._ring(self.x_axes, (self.n,) if self.x_keep else (), self.x_slots)

    @functools.cached_property
    def w_ring(self) -> int:
        """Slots of the ring of w."""
        return self._ring(self.w_axes, self.m if self.w_keep else (), self.w_slots)

    @property
    def acc_ring(self) -> int:
        """Slots of the accumulator ring."""
        return min(self.acc_slots, self.y_tiles)

    @property
    def y_ring(self) -> int:
        """Slots of the ring of y."""
        return min(self.y_slots, self.y_tiles)

    def _ring(self, own: tuple[Axis, ...], reused: tuple[Axis, ...], slots: int) -> int:
        """The blocks inside the outermost loop they are reused over, times `slots`; never more than are loaded."""
        reusing = [self.outer.index(a) for a in reused if a.count > 1]
        kept = _count(a for a in own if self.outer.index(a) > min(reusing)) if reusing else 1
        return min(kept * slots, _count(own))

    @functools.cached_property
    def x_conditions(self) -> tuple[Condition, ...]:
        """First and last use of a block of x along the loops over blocks."""
        return _ends("x", (self.n,) if self.x_keep else ())

    @functools.cached_property
    def w_conditions(self) -> tuple[Condition, ...]:
        """First and last use of a block of w along the loops over blocks."""
        return _ends("w", self.m if self.w_keep else ())

    @functools.cached_property
    def acc_conditions(self) -> tuple[Condition, ...]:
        """First and last sum into a block of y."""
        return _ends("acc", (self.k,))

    def rows(self, places: Places) -> int:
        """Rows of x in the block at `places`."""
        return math.prod(places[a.name].size for a in self.m)


def _count(axes: Iterable[Axis]) -> int:
    return math.prod(a.count for a in axes)


def _ends(name: str, axes: Sequence[Axis]) -> tuple[Condition, ...]:
    names = frozenset(a.name for a in axes)
    return Condition(f"{name}_first", "first", names), Condition(f"{name}_last", "last", names)


def columns(size: int, array: int, arrays: int) -> tuple[int, int]:
    """(first, number) of the columns of a block of `size` outputs that one of `arrays` computes; all about as many."""
    share, rest = divmod(size, arrays)
    return array * share + min(array, rest), share + (array < rest)


def packed(wanted: Sequence[tuple[str, str, Shape, int, str]]) -> tuple[Buffer, ...]:
    """Buffers (name, dtype, shape, slots, space) one behind the other from offset 0 of each space, 64-byte aligned."""
    used: dict[str, int] = {}
    buffers = []
    for name, dtype, shape, slots, space in wanted:
        offset = used.get(space, 0)
        buffers.append(Buffer(name, dtype, shape, slots, space, offset))
        end = offset + slots * math.prod(shape) * size_bytes(dtype)
        used[space] = -(-end // ALIGNMENT) * ALIGNMENT
    return tuple(buffers)


ALIGNMENT = 64  # bytes


def part(dims: Dims, shape: Shape) -> Dims:
    """`dims` of a region, or () where they are the whole of `shape`."""
    whole = all(d.start == Affine() and d.size == n and d.step == 1 for d, n in zip(dims, shape, strict=True))
    return () if whole else dims


def filled(sizes: Sequence[int], shape: Shape) -> Dims:
    """The first `sizes` elements along each dimension of a block of `shape`."""
    return part(tuple(Dim(Affine(), n) for n in sizes), shape)
