"""Root-mean-square normalisation along rows: y[i, j] = x[i, j] / sqrt(mean over k of x[i, k]**2 + EPSILON) * gamma[j].

Error bound, with the arithmetic of `rowwise.py`, u = 2**-24 and c columns. All terms of the sum are positive: one
rounding of each square, c - 1 of the sum in any order, two for 1/c, two for EPSILON make the mean + EPSILON right
within a relative g = gamma(c + 4). rsqrt of it is right within (1 - g)**-0.5 * (1 + 4u), and the products with rsqrt
and gamma, in either order, round twice. So, relative to |y|: (1 - g)**-0.5 * (1 + 4u) * (1 + u)**2 - 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from . import rowwise
from .operator import Arrays, Operator, TensorSpec, Work, Workload, uncropped
from .patterns import check_size
from .rounding import FP32_UNIT, LEAST_NORMAL, gamma, output_bound

EPSILON = 1e-5


class RmsNorm:
    """x [rows, columns], constant gamma [columns]; y [rows, columns], all of one dtype."""

    name = "rmsnorm"
    summary = "root-mean-square normalisation along rows"
    parameters = rowwise.PARAMETERS

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        shape, dtype = rowwise.shape(workload), workload.word("dtype")
        return (
            TensorSpec("x", dtype, shape, "in"),
            TensorSpec("gamma", dtype, shape[1:], "const"),
            TensorSpec("y", dtype, shape, "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return {}

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`."""
        x, scale, _ = specs = self.tensors(workload)
        check_size(specs)
        return {"x": rowwise.rows_of(x, seed, pattern), "gamma": rowwise.per_column(scale, seed, pattern)}

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        x, scale = (inputs[name].astype(np.float64) for name in ("x", "gamma"))
        return {"y": x / np.sqrt((x**2).mean(axis=1, keepdims=True) + EPSILON) * scale}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`, and the derivation above."""
        y = self.reference(workload, inputs)["y"]
        g = gamma(workload.int("columns") + 4)
        relative = (1 - g) ** -0.5 * (1 + rowwise.TRANSCENDENTAL) * (1 + FP32_UNIT) ** 2 - 1
        error = rowwise.SECOND_ORDER * relative * np.abs(y) + LEAST_NORMAL
        return {"y": output_bound(y, error, workload.word("dtype"))}

    crop = staticmethod(uncropped)

    def work(self, workload: Workload) -> Work:
        """A row takes 4 * columns + 1: square, sum, scale, rsqrt, and two products."""
        rows, columns = rowwise.shape(workload)
        return Work(
            multiply_adds=0,
            vector_operations=rows * (4 * columns + 1),
            tensor_bytes={spec.name: spec.size_bytes for spec in self.tensors(workload)},
        )


OPERATOR: Operator = RmsNorm()
