"""Softmax of int8 numbers along rows by a table of exponentials, exact in integers.

    e[j] = table[m - x[j]],  m the maximum of the row,    y[j] = min((512 * e[j] + S) // (2 * S) - 128, 127),  S = sum e

The table, int32 [256], falls from 2**15 and holds exp(-beta * d) * 2**15 for the scale beta of x: data, drawn from the
seed. y has the scale 1/256 and the zero point -128, as TensorFlow Lite's int8 softmax; the quotient 256 * e / S is
rounded to nearest, halves up. (TFLite's own tables are of floats, and its reference is a polynomial in fixed point:
this definition is ours.) All sums and products stay below 2**31.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .operator import Arrays, Operator, Parameter, TensorSpec, Work, Workload, uncropped
from .patterns import check_size, generator

ONE = 1 << 15
_ENTRIES = 256
_HOT = 16  # columns of a row that hold most of its weight
_KINDS = 4  # of rows of `extremes`


class QSoftmax:
    """x [rows, columns], constant table [256]; y [rows, columns]."""

    name = "qsoftmax"
    summary = "softmax along rows of int8 numbers, by a table"
    parameters = (
        Parameter(name="rows", doc="independent rows", alike=64),
        Parameter(name="columns", doc="length of a row", high=ONE - 1),
        Parameter(name="dtype", doc="of x and y", default="int8", words=("int8",), always=True),
    )

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        shape = workload.int("rows"), workload.int("columns")
        return (
            TensorSpec("x", "int8", shape, "in"),
            TensorSpec("table", "int32", (_ENTRIES,), "const"),
            TensorSpec("y", "int8", shape, "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return {}

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`. `integers`: a table of powers of two; all but some 16 columns of a row weigh nothing."""
        specs = self.tensors(workload)
        check_size(specs)
        rng = generator(seed, pattern, "x")
        distance = np.arange(_ENTRIES)
        if pattern == "integers":
            table = ONE >> np.minimum(distance // 8, 16)
            hot = rng.random(specs[0].shape, np.float32) < _HOT / specs[0].shape[1]
            x = np.where(hot, 8 * rng.integers(0, 2, hot.shape, endpoint=True), -128)
            return {"x": x.astype(np.int8), "table": table.astype(np.int32)}
        beta = generator(seed, pattern, "table").uniform(0.06, 0.12)
        table = np.rint(ONE * np.exp(-beta * distance)).astype(np.int32)
        return {"x": _rows(rng, seed, pattern, specs[0].shape), "table": table}

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        x = inputs["x"].astype(np.int64)
        terms = inputs["table"].astype(np.int64)[x.max(axis=1, keepdims=True) - x]
        total = terms.sum(axis=1, keepdims=True)
        return {"y": np.minimum((512 * terms + total) // (2 * total) - 128, 127)}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """Zeros: every output is exact."""
        return {"y": np.zeros(self.tensors(workload)[-1].shape)}

    crop = staticmethod(uncropped)

    def work(self, workload: Workload) -> Work:
        """Five operations an element: maximum, subtract, look up, sum, divide."""
        specs = self.tensors(workload)
        return Work(
            multiply_adds=0,
            vector_operations=5 * specs[-1].elements,
            tensor_bytes={spec.name: spec.size_bytes for spec in specs},
        )


def _rows(rng: np.random.Generator, seed: int, pattern: str, shape: tuple[int, ...]) -> np.ndarray:
    """About 16 columns of a row hold most of its weight, the others, together, about as much again."""
    rows, columns = shape
    period = -(-columns // _HOT)
    if pattern == "marker":  # every column is hot in some row
        hot = (np.arange(columns) + np.arange(rows)[:, None] + int(rng.integers(0, period))) % period == 0
    else:
        hot = rng.random(shape, np.float32) < 1 / period
    top = rng.integers(0, 60, (rows, 1), endpoint=True)
    near = rng.integers(0, 30 if pattern == "random" else 8, shape, endpoint=True)
    x = np.where(hot, 67 + top - near, top + rng.integers(-128, -30, shape, endpoint=True))
    if pattern == "extremes":
        kind = (np.arange(rows) + seed) % _KINDS
        x[kind == 0] = -128
        x[kind == 1] = np.where(np.arange(columns) == rng.integers(0, columns), 127, -128)
        x[kind == 2] = np.where(np.arange(columns) % 2, 127, -128)
    return x.astype(np.int8)


OPERATOR: Operator = QSoftmax()
