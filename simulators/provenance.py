"""Which instruction wrote an element: for errors that must name it."""

from __future__ import annotations

import numpy as np

from .lines import describe, read_lines
from .machine import Machine
from .program import Program


def last_store(program: Program, machine: Machine, tensor: str, index: tuple[int, ...]) -> str:
    """The last instruction, in the order of its stream, to store element `index` of `tensor`; says if none does."""
    found = None
    for phase in program.phases:
        found = _last_store(phase, machine, tensor, index) or found
    return found or f"nothing stores {tensor}{list(index)}"


def _last_store(program: Program, machine: Machine, tensor: str, index: tuple[int, ...]) -> str | None:
    lines, _, _ = read_lines(program, machine)
    sizes = dict(program.grid)
    found = None
    for point in np.ndindex(*sizes.values()):
        grid = dict(zip(sizes, map(int, point), strict=True))
        for line in lines:
            region = line.instruction.operands[0] if line.instruction.operands else None
            if region is None or region.name != tensor:
                continue
            hit = np.ones(len(line.place), bool)
            for dim, i in zip(region.dims, index, strict=False):
                distance = i - line.spread(dim.start, grid)
                hit &= (distance >= 0) & (distance <= (dim.size - 1) * dim.step) & (distance % dim.step == 0)
            if hit.any():
                found = describe(program, line, int(np.flatnonzero(hit)[-1]), grid)
    return found
