"""Whether the stores of all instances of a grid cover a tensor once: the common case, without looking at each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .family import Op
from .lines import Array, Line
from .order import Order
from .program import Affine, Region, Tensor

MOST = 50_000_000  # stores, and cells that they touch
Grid = dict[str, int]


@dataclass(frozen=True, slots=True)
class Stores:
    """The order of one kind of instances, with the grid points of all of them."""

    order: Order
    grids: Sequence[Grid]


@dataclass(frozen=True, slots=True)
class _Boxes:
    """Boxes of one size: where they start, per dimension."""

    sizes: tuple[int, ...]
    starts: tuple[Array, ...]


def is_tiled(tensor: Tensor, kinds: Sequence[Stores], ops: Mapping[str, Op]) -> bool:
    """Whether each element is stored exactly once, and none is read. False also where that is not plain to see.

    The tensor is parted into cells, so large that every store is of whole ones; each must be stored once.
    """
    boxes: list[_Boxes] = []
    total = 0
    for kind in kinds:
        columns = {name: np.array([grid[name] for grid in kind.grids]) for name in kind.grids[0]}
        for line in kind.order.lines:
            touched = [i for i, r in enumerate(line.instruction.operands) if r.name == tensor.name]
            if not touched:
                continue
            region = line.instruction.operands[0]
            total += len(kind.grids) * len(line.place)
            if touched != [0] or not _plain(line, ops, region) or total > MOST:
                return False
            boxes.append(_boxes(line, region, columns, len(kind.grids), tensor))
    if not boxes:
        return False
    cells = [int(np.gcd.reduce(list(_multiples(boxes, axis)))) for axis in range(len(tensor.shape))]
    counts = _counts(boxes, cells, tensor) if all(cells) else None
    return counts is not None and bool((counts == 1).all())


def _plain(line: Line, ops: Mapping[str, Op], region: Region) -> bool:
    """Whether a store overwrites a box without gaps."""
    fixed = not any(isinstance(value, Affine) for _, value in line.instruction.attributes)
    access = ops[line.instruction.op].access
    return (
        fixed
        and access({"accumulate": 0, **dict(line.instruction.attributes)}) == "w"
        and all(dim.step == 1 for dim in region.dims)
    )


def _boxes(line: Line, region: Region, columns: Mapping[str, Array], instances: int, tensor: Tensor) -> _Boxes:
    starts = []
    nothing: Grid = {}
    for axis in range(len(tensor.shape)):
        start = region.dims[axis].start if region.dims else Affine()
        terms = [(name, c) for name, c in start.terms if name in columns]
        fixed = sum((c * columns[name] for name, c in terms), np.zeros(instances, np.int64))
        starts.append((fixed[:, None] + line.spread(start, nothing)[None, :]).reshape(-1))
    return _Boxes(tuple(dim.size for dim in region.dims) or tensor.shape, tuple(starts))


def _multiples(boxes: Sequence[_Boxes], axis: int) -> Iterator[int]:
    """Numbers of which the size of a cell must be a divisor."""
    for each in boxes:
        yield each.sizes[axis]
        yield int(np.gcd.reduce(each.starts[axis]))


def _counts(boxes: Sequence[_Boxes], cells: Sequence[int], tensor: Tensor) -> Array | None:
    """How often each cell is stored; None where there are too many to look at."""
    shape = [-(-extent // cell) for extent, cell in zip(tensor.shape, cells, strict=True)]
    touched = sum(len(b.starts[0]) * math.prod(s // c for s, c in zip(b.sizes, cells, strict=True)) for b in boxes)
    if touched > MOST or math.prod(shape) > MOST:
        return None
    counts = np.zeros(math.prod(shape), np.int64)
    for each in boxes:
        for offset in np.ndindex(*(s // c for s, c in zip(each.sizes, cells, strict=True))):
            number = np.zeros(len(each.starts[0]), np.int64)
            inside = np.ones(len(number), bool)
            for start, cell, ahead, extent in zip(each.starts, cells, offset, shape, strict=True):
                at = start // cell + ahead
                inside &= at < extent  # what lies behind the end is not stored
                number = number * extent + at
            counts += np.bincount(number[inside], minlength=len(counts))
    return counts
