"""Regions as boxes in bytes: how the RTL walks them. A box is (size, stride) along each dimension, outermost first."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from .errors import Unsupported
from .formats import size_bytes
from .program import Affine, Buffer, Region, Tensor
from .words import DIMS

Box = tuple[tuple[int, int], ...]


def box(region: Region, owner: Tensor | Buffer) -> Box:
    """Sizes and strides in bytes of a region, one for each dimension of its owner."""
    strides = _strides(owner)
    sizes = [dim.size for dim in region.dims] or list(owner.shape)
    steps = [dim.step for dim in region.dims] or [1] * len(sizes)
    return tuple((n, step * stride) for n, step, stride in zip(sizes, steps, strides, strict=True))


def start(region: Region, owner: Tensor | Buffer) -> Affine:
    """Bytes from the beginning of the tensor, or of its slot, to the first element."""
    total = Affine()
    for dim, stride in zip(region.dims, _strides(owner), strict=False):
        total = total + dim.start * stride
    return total


def merged(dims: Box) -> Box:
    """The same walk in as few dimensions as it takes."""
    found: list[tuple[int, int]] = []
    for size, stride in dims:
        if size == 1:
            continue
        if found and found[-1][1] == size * stride:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    return tuple(found)


def padded(dims: Box, where: str) -> Box:
    """Exactly as many dimensions as the RTL walks. Raises Unsupported for more."""
    if len(dims) > DIMS:
        raise Unsupported(f"{where}: a box of {len(dims)} dimensions; the RTL walks {DIMS}")
    return ((1, 0),) * (DIMS - len(dims)) + dims


def rows(dims: Box) -> Box:
    """Leading dimensions merged, the last kept apart: rows of elements."""
    return (*merged(dims[:-1]), dims[-1])


def runs(dims: Box, element_bytes: int) -> Box:
    """Runs of bytes: the last dimension is contiguous."""
    found = merged((*dims, (element_bytes, 1)))
    return found if found and found[-1][1] == 1 else (*found, (1, 1))  # single bytes apart are runs of 1


def broadcast(dims: Box, sizes: Sequence[int]) -> Box:
    """`dims` walked as often as `sizes` say, which they are broadcast to as numpy does."""
    missing = len(sizes) - len(dims)
    wide = ((1, 0),) * missing + tuple(dims)
    return tuple((n, stride if size == n else 0) for n, (size, stride) in zip(sizes, wide, strict=True))


def elements(dims: Box) -> int:
    """Elements of a box."""
    return math.prod(size for size, _ in dims)


def _strides(owner: Tensor | Buffer) -> tuple[int, ...]:
    inner = [*owner.shape[1:], 1]
    sizes = itertools.accumulate(reversed(inner), lambda a, b: a * b)
    return tuple(n * size_bytes(owner.dtype) for n in reversed(list(sizes)))
