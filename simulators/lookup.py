"""Operands that data choose: an op with `lookup` reads those entries of a pool that a table names.

Its operands are destination, pool, table. The first dimension of the pool counts its entries and is whole, so that the
text says a superset of what is read, and every static check holds whatever the table says. Pool and table are inputs
of their phase: they do not change while it runs, so it does not matter when they are read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

from .family import POOL, TABLE, Op
from .program import Affine, Dim, Instruction, Program, Region, Tensor, instructions

__all__ = ["POOL", "TABLE", "boxed", "tables", "whole"]


def tables(program: Program, ops: Mapping[str, Op]) -> dict[str, int]:
    """Of each table that is looked up in, how many entries its elements may name: from 0 up."""
    found: dict[str, int] = {}
    for phase in program.phases:
        bodies = [instructions(stream.body) for stream in phase.streams]
        for instruction, _ in itertools.chain.from_iterable(bodies):
            if instruction.op in ops and ops[instruction.op].lookup:
                pool, table = (phase.tensor(instruction.operands[i].name) for i in (POOL, TABLE))
                if pool is not None and table is not None:
                    found[table.name] = min(found.get(table.name, pool.shape[0]), pool.shape[0])
    return found


def boxed(instruction: Instruction, program: Program) -> tuple[Region, Tensor]:
    """What a legal lookup reads, as a box: of the tensor that one would have if each element of the table, in row-major
    order, had an entry of its own.
    """
    pool_region, table_region = instruction.operands[POOL], instruction.operands[TABLE]
    pool, table = program.tensor(pool_region.name), program.tensor(table_region.name)
    assert pool is not None
    assert table is not None
    place, count = Affine(), 1
    for axis, dim in enumerate(whole(table_region, table)):
        place = place + dim.start * math.prod(table.shape[axis + 1 :])
        count *= dim.size
    name = f"{pool.name}[{table.name}]"
    dims = (Dim(place, count), *whole(pool_region, pool)[1:])
    return Region(name, None, dims), replace(pool, name=name, shape=(math.prod(table.shape), *pool.shape[1:]))


def whole(region: Region, owner: Tensor) -> tuple[Dim, ...]:
    """The dimensions of a region, also of one that has none and so is the whole tensor."""
    return region.dims or tuple(Dim(Affine(), extent) for extent in owner.shape)
