"""What the operators along rows share: parameters, inputs, and what the vector unit is taken to compute.

The vector unit computes in fp32: every add, multiply and conversion rounds once, to nearest, a maximum is exact, and
exp, rsqrt and reciprocal are off by at most 2 units in the last place, relative 4u with u = 2**-24. That is part of
the task: the bounds of `softmax.py`, `layernorm.py` and `rmsnorm.py` are derived from it, for any order of summation.
Results below the least normal number may be flushed to zero.
"""

from __future__ import annotations

import numpy as np

from presil.simulators.formats import DTYPES

from .operator import Parameter, TensorSpec, Workload
from .patterns import generator
from .rounding import FP32_UNIT

TRANSCENDENTAL = 4 * FP32_UNIT  # relative error of exp, rsqrt and reciprocal
SECOND_ORDER = 1 + 2.0**-10  # covers products of errors, where a bound is put together to first order
_HOT_COLUMNS = 64
EXTREME_KINDS = 6  # of rows of `extremes`

PARAMETERS = (
    Parameter(name="rows", doc="independent rows", alike=64),
    Parameter(name="columns", doc="length of a row"),
    Parameter(name="dtype", doc="of the tensors", default="fp32", words=("fp32", "bf16", "fp16"), always=True),
)


def shape(workload: Workload) -> tuple[int, int]:
    """(rows, columns)."""
    return workload.int("rows"), workload.int("columns")


def rows_of(spec: TensorSpec, seed: int, pattern: str) -> np.ndarray:
    """Values of x [rows, columns].

    `extremes` has rows of six kinds; of six seeds in a row, from a multiple of six, each row is of each kind once.
    `marker` has its weight in stripes that move from row to row.
    """
    rng = generator(seed, pattern, spec.name)
    rows, columns = spec.shape
    if pattern == "integers":
        return rng.integers(-8, 8, spec.shape, np.int8, endpoint=True).astype(DTYPES[spec.dtype])
    values = rng.standard_normal(spec.shape, np.float32)
    if pattern == "random":
        values = 3 * values + 2 * rng.standard_normal((rows, 1), np.float32)
    elif pattern == "marker":
        values = _hot(rng, rows, columns, values)
    else:
        turn = generator(seed // EXTREME_KINDS, pattern, "turn of each row").permutation(max(rows, EXTREME_KINDS))
        kinds = (turn[:rows] + seed) % EXTREME_KINDS
        for kind, change in enumerate((_large, _tiny, _far_from_zero, _constant, _one_hot, _alternating)):
            mine = np.flatnonzero(kinds == kind)
            values[mine] = change(values[mine])
    return values.astype(DTYPES[spec.dtype])


def per_column(spec: TensorSpec, seed: int, pattern: str) -> np.ndarray:
    """Values of gamma or beta [columns]: wide and signed, no two alike, none near 0."""
    rng = generator(seed, pattern, spec.name)
    if pattern == "integers":
        values = rng.integers(1, 4, spec.shape, np.int8, endpoint=True).astype(np.float32)
    else:
        values = rng.uniform(0.5, 3, spec.shape).astype(np.float32)
    signs = np.where(rng.random(spec.shape) < 0.5, np.float32(-1), np.float32(1))
    return (values * signs).astype(DTYPES[spec.dtype])


def _hot(rng: np.random.Generator, rows: int, columns: int, noise: np.ndarray) -> np.ndarray:
    """Some 64 columns of each row hold nearly all of its weight: a slice of columns without one is hardly there."""
    period = -(-columns // _HOT_COLUMNS)
    phase = int(rng.integers(0, period)) + np.arange(rows)[:, None]
    hot = (np.arange(columns)[None, :] + phase) % period == 0
    return np.where(hot, 6 + noise / 4, noise / 4 - 6).astype(np.float32)


def _large(values: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.ldexp(values, 10)
    return result


def _tiny(values: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.ldexp(values, -20)
    return result


def _far_from_zero(values: np.ndarray) -> np.ndarray:
    return values + 64


def _constant(values: np.ndarray) -> np.ndarray:
    return np.ones_like(values)


def _one_hot(values: np.ndarray) -> np.ndarray:
    result = np.zeros_like(values)
    if result.size:
        result[np.arange(len(result)), np.argmax(values, axis=1)] = 64
    return result


def _alternating(values: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.where(np.arange(values.shape[1]) % 2, np.float32(-24), np.float32(24)) + values
    return result
