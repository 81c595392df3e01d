"""All accesses of one instance of a program to one memory, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .family import Op
from .lines import Array, Line
from .order import Order
from .program import Affine, Region
from .regions import Area

READ, WRITE = 1, 2
FLAGS = {"r": READ, "w": WRITE, "rw": READ | WRITE}
Grid = dict[str, int]


@dataclass(slots=True, eq=False)
class Accesses:
    """One entry per access. `flags` is READ, WRITE or both; `line` and `execution` say which instruction it is."""

    region: Array
    line: Array
    execution: Array
    queue: Array
    index: Array
    moment: Array
    segment: Array
    flags: Array


def collect(order: Order, ops: Mapping[str, Op], area: Area, grid: Grid) -> Accesses:
    """The accesses of the instance at `grid` to the holders of `area`, whose regions are numbered on the way."""
    holders = {h.name: i for i, h in enumerate(area.holders)}
    nothing = [np.zeros(0, np.int64)] * 8
    parts: list[list[Array]] = [nothing]
    for number, line in enumerate(order.lines):
        moments: tuple[Array, ...] | None = None
        to = len(line.instruction.operands) - 1 if ops[line.instruction.op].spreads else 1
        for position, region in enumerate(line.instruction.operands):
            if region.name not in holders:
                continue
            moments = moments or tuple(m.astype(np.int32) for m in order.moments(line))
            count = len(line.place)
            parts.append([
                _numbers(area, holders[region.name], line, region, grid).astype(np.int32),
                np.full(count, number, np.int32),
                np.arange(count, dtype=np.int32),
                np.full(count, line.queue, np.int16),
                line.index.astype(np.int32),
                *moments,
                _flags(ops, line, grid) if position < to else np.full(count, READ, np.int8),
            ])  # fmt: skip
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    behind = [r for r in np.unique(columns[0]).tolist() if not area.boxes[r].elements]  # the end of a tensor: nothing
    if behind:
        there = ~np.isin(columns[0], behind)
        columns = [column[there] for column in columns]
    return Accesses(*columns)


def _numbers(area: Area, holder: int, line: Line, region: Region, grid: Grid) -> Array:
    """The number of the region a line touches at each execution."""
    owner = area.holders[holder]
    slot = line.spread(region.slot or Affine(), grid) % owner.slots
    starts = [line.spread(dim.start, grid) for dim in region.dims] or [np.zeros_like(slot)] * len(owner.shape)
    sizes = [dim.size for dim in region.dims] or owner.shape
    steps = [dim.step for dim in region.dims] or [1] * len(owner.shape)
    return area.number(holder, slot, starts, sizes, steps)


def _flags(ops: Mapping[str, Op], line: Line, grid: Grid) -> Array:
    """How each execution of a line touches its destination."""
    attributes = (("accumulate", 0), *line.instruction.attributes)  # left out: overwrites
    access = ops[line.instruction.op].access
    affine = [(key, line.spread(value, grid)) for key, value in attributes if isinstance(value, Affine)]
    if not affine:
        return np.full(len(line.place), FLAGS[access(dict(attributes))], np.int8)
    distinct, inverse = np.unique(np.stack([column for _, column in affine]), axis=1, return_inverse=True)
    values = [dict(zip((key for key, _ in affine), row, strict=True)) for row in distinct.T.tolist()]
    flags = np.array([FLAGS[access({**dict(attributes), **v})] for v in values], np.int8)
    return flags[inverse.reshape(-1)]
