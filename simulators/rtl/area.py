"""The area of a family's modules, as straight lines through a few sizes: cells for the module, and for each unit more.

Cells are gates of two inputs and flip-flops, not square micrometres: they compare designs, they do not price a chip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .synthesis import Cells, synthesise

Parameters = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A module, what its size is counted in, and the sizes at which it is synthesised.

    `units` gives the size from the parameters of the module. `ram`: its memories stay memories.
    """

    module: str
    unit: str
    units: Callable[[Parameters], float]
    sizes: Sequence[Parameters]
    ram: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """A module at one size."""

    parameters: dict[str, int]
    units: float
    cells: Cells

    @property
    def total(self) -> int:
        """Gates and flip-flops."""
        return self.cells.gates + self.cells.flip_flops


@dataclass(frozen=True, slots=True)
class Line:
    """`fixed + per_unit * units` cells, by least squares; `worst` is the largest relative distance of a point."""

    module: str
    unit: str
    fixed: float
    per_unit: float
    ram_bits_per_unit: float
    worst: float
    points: tuple[Point, ...]

    def cells(self, units: float) -> float:
        """Cells at another size."""
        return self.fixed + self.per_unit * units


def measure(
    family: str, parts: Sequence[Part], show: Callable[[int, int, str], None] | None = None
) -> tuple[Line, ...]:
    """Synthesises every part at its sizes. `show` is told (done, of how many, what). Raises Unsupported."""
    lines, done, total = [], 0, sum(len(part.sizes) for part in parts)
    for part in parts:
        points = []
        for parameters in part.sizes:
            if show:
                show(done, total, part.module)
            cells = synthesise(family, part.module, parameters, ram=part.ram)
            points.append(Point(dict(parameters), part.units(parameters), cells))
            done += 1
        lines.append(fitted(part.module, part.unit, tuple(points)))
    return tuple(lines)


def fitted(module: str, unit: str, points: tuple[Point, ...]) -> Line:
    """The line through points of at least two sizes."""
    sizes = [point.units for point in points]
    per_unit, fixed = (float(n) for n in np.polyfit(sizes, [point.total for point in points], 1))
    bits = round(float(np.polyfit(sizes, [point.cells.ram_bits for point in points], 1)[0]), 6) + 0.0  # not -0
    worst = max(abs(fixed + per_unit * p.units - p.total) / max(p.total, 1) for p in points)
    return Line(module, unit, fixed, per_unit, bits, worst, points)
