"""Operands of sums of products: wide, extreme, integer-valued, and with a probe in every slice of the sum.

A probe is a large product at one place of the sum. Products at places of one *group* of neighbours fall on one output,
and different groups on different outputs as far as there are that many, so that dropping a slice, however short,
empties its outputs. Where the output is int8, a group is as long as it takes to move its output by 2 or more, and
probes are made smaller where several groups share an output, so that it does not saturate. Elsewhere a group is one
place.
Beside the probes lie weights of -1, 0 and 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from presil.simulators.formats import DTYPES

from .contraction import accumulator_step
from .operator import TensorSpec, Workload
from .patterns import chosen, generator, normal, whole, wide_exponents

_FLOATS = ("fp8", "bf16", "fp16", "fp32")
_LARGEST = {"int8": 127, **dict.fromkeys(_FLOATS, 15)}  # sums of 2**16 products stay below 2**24, hence exact
_WHOLE = {"fp8": 15, **dict.fromkeys(_FLOATS[1:], 255)}  # integers up to here are exact in the format
_FULL_SCALE = 100  # int8 outputs that several probes add up to
_EXACT_SUM = (1 << 24) - 65  # fp32 is exact below 2**24; leaves room for an integer bias of up to 64
_EXPONENTS = {"fp8": 4, "bf16": 30, "fp16": 10, "fp32": 30}  # of `extremes`: sums stay far from the ends of fp32


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """Where the probes of a sum over `depth` go: column group mod columns; and, where columns are few, row by row."""

    group: int
    groups: int
    columns: int
    rows: int
    x_probe: int
    w_probe: int
    signed: bool  # so many groups share an output that they must partly cancel

    def column(self, place: np.ndarray) -> np.ndarray:
        """The output column that shows each place of the sum."""
        return (place // self.group) % self.columns

    def row(self, place: np.ndarray) -> np.ndarray:
        """The output row, mod `rows`, that shows each place of the sum."""
        return (place // self.group // self.columns) % self.rows


def plan(workload: Workload, depth: int, rows: int, columns: int) -> ProbePlan:
    """The probes for sums over `depth` with that many outputs; `rows` 1 where rows of x cannot differ freely."""
    largest = _LARGEST[workload.word("dtype")]
    step = accumulator_step(depth) if workload["out"] == "int8" else 0
    group = max(1, -(-2 * step // (3 * largest**2 // 4)))  # x probes are at least 3/4 of the largest
    groups = -(-depth // group)
    used_rows = min(rows, -(-groups // columns))
    shared = -(-groups // (columns * used_rows))
    signed = shared > 32
    probe = largest
    if step:
        sharing = 2 * math.isqrt(shared) if signed else shared
        probe = min(largest, max(16, math.isqrt(_FULL_SCALE * step // (sharing * group))))
    return ProbePlan(group, groups, columns, used_rows, probe, probe, signed)


def operand(
    workload: Workload, spec: TensorSpec, depth: int, seed: int, pattern: str, *, corner: tuple[slice | int, ...]
) -> np.ndarray:
    """Values of x or w for every pattern but `marker`. `corner`: a row of x or a column of w, kept of one sign."""
    rng = generator(seed, pattern, spec.name)
    if spec.dtype == "int8":
        if pattern == "random":
            return whole(rng, -128, 127, spec)
        if pattern == "integers":  # as networks have them: activations from 0 up, symmetric weights
            return whole(rng, -127 if spec.role == "const" else 0, 127, spec)
        values = chosen(rng, (-128, -127, 127), spec)
        values[corner] = -128  # the largest sum there is: depth * 2**14
        return values
    if pattern == "random":
        return normal(rng, 3, spec)
    if pattern == "integers":
        most = max(1, min(_WHOLE[spec.dtype], math.isqrt(_EXACT_SUM // depth)))
        return whole(rng, -most, most, spec)
    return wide_exponents(rng, _EXPONENTS[spec.dtype], spec)


def x_probes(probes: ProbePlan, spec: TensorSpec, depth: int, seed: int) -> np.ndarray:
    """Values of x [batch, rows, depth]: probes of 3/4 to all of `x_probe`, each place of the sum in its row."""
    rng = generator(seed, "marker", spec.name)
    values = whole(rng, -(-3 * probes.x_probe // 4), probes.x_probe, spec)
    if probes.rows > 1:
        mine = np.arange(spec.shape[1])[:, None] % probes.rows == probes.row(np.arange(depth))[None, :]
        values = np.where(mine, values, np.zeros((), values.dtype))
    return values


def w_probes(probes: ProbePlan, shape: tuple[int, int, int], spec: TensorSpec, seed: int) -> np.ndarray:
    """Values of w as [batch, depth, columns] in the format of `spec`: a probe in the column of each place of it."""
    rng = generator(seed, "marker", spec.name)
    batch, depth, _ = shape
    values = rng.integers(-1, 1, shape, np.int8, endpoint=True).astype(DTYPES[spec.dtype])
    places = np.arange(depth)
    signs = np.ones((batch, probes.groups), np.int8)
    if probes.signed:
        signs = rng.integers(0, 1, signs.shape, np.int8, endpoint=True) * 2 - 1
    hot = probes.w_probe * signs[:, places // probes.group].astype(np.int16)
    values[:, places, probes.column(places)] = hot.astype(values.dtype)
    return values
