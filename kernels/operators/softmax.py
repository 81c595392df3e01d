"""Softmax along rows: y[i, j] = exp(x[i, j] - m[i]) / sum over k of exp(x[i, k] - m[i]), with m the maximum of the row.

Error bound, with the arithmetic of `rowwise.py`, u = 2**-24 and D[j] = m - x[j] (row by row):

1. d[j] = x[j] - m is rounded once: off by u*D[j], so exp(d[j]) by a factor exp(u*D[j]) at most; exp itself adds 4u.
   Each term e[j] of the sum is off by the factor exp(u*D[j] + 4u) at most.
2. The sum S of `columns` positive terms, in any order: relative error a <= sum of p[k] * (exp(u*D[k] + 4u) - 1)
   + gamma(columns - 1), where p is the softmax itself: terms far below the maximum are off by more, but weigh nothing.
3. Reciprocal (4u) and product (u), or one division (u): y[j] is off by the factor exp(u*D[j] + 9u) / (1 - a) at most.
4. Terms below the least normal number may be flushed: 2 * 2**-126 absolute. Where D > 200, y itself is below that.

A kernel that does not subtract the maximum overflows on the pattern `extremes`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from . import rowwise
from .operator import Arrays, Operator, TensorSpec, Work, Workload, uncropped
from .patterns import check_size
from .rounding import FP32_UNIT, LEAST_NORMAL, gamma, output_bound

_FLUSHED_FROM = 200  # exp(-200) is far below the least normal number


class Softmax:
    """x [rows, columns]; y [rows, columns] of the same dtype."""

    name = "softmax"
    summary = "softmax along rows"
    parameters = rowwise.PARAMETERS

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        shape, dtype = rowwise.shape(workload), workload.word("dtype")
        return (TensorSpec("x", dtype, shape, "in"), TensorSpec("y", dtype, shape, "out"))

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return {}

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`."""
        specs = self.tensors(workload)
        check_size(specs)
        return {"x": rowwise.rows_of(specs[0], seed, pattern)}

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        x = inputs["x"].astype(np.float64)
        terms = np.exp(x - x.max(axis=1, keepdims=True))
        return {"y": terms / terms.sum(axis=1, keepdims=True)}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`, and the derivation above."""
        x = inputs["x"].astype(np.float64)
        y = self.reference(workload, inputs)["y"]
        shift = FP32_UNIT * np.minimum(x.max(axis=1, keepdims=True) - x, _FLUSHED_FROM)
        terms = np.expm1(shift + rowwise.TRANSCENDENTAL)
        of_sum = (y * terms).sum(axis=1, keepdims=True) + gamma(workload.int("columns") - 1)
        of_sum *= rowwise.SECOND_ORDER
        quotient = np.exp(shift + 2 * rowwise.TRANSCENDENTAL + FP32_UNIT) / (1 - of_sum) - 1
        error = rowwise.SECOND_ORDER * quotient * y + 2 * LEAST_NORMAL
        return {"y": output_bound(y, error, workload.word("dtype"))}

    crop = staticmethod(uncropped)

    def work(self, workload: Workload) -> Work:
        """A row takes 5 * columns - 1: maximum, subtract, exp, sum, one reciprocal, multiply."""
        rows, columns = rowwise.shape(workload)
        return Work(
            multiply_adds=0,
            vector_operations=rows * (5 * columns - 1),
            tensor_bytes={spec.name: spec.size_bytes for spec in self.tensors(workload)},
        )


OPERATOR: Operator = Softmax()
