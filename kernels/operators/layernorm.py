"""Layer normalisation along rows: y[i, j] = (x[i, j] - mean[i]) / sqrt(variance[i] + EPSILON) * gamma[j] + beta[j].

The variance is the mean of (x - mean)**2. A kernel computes it so, from centred values: mean(x**2) - mean(x)**2 cancels
where the mean is large, and is not within the bound.

Error bound, with the arithmetic of `rowwise.py`, u = 2**-24, c columns and d = x - mean (row by row):

1. The mean is a sum of c terms in any order, times a rounded 1/c: off by at most e = gamma(c + 1) * mean|x|.
2. Centred values: x - computed mean, rounded once: off by e + u*(|d| + e) =: e_d.
3. Their squares sum to sum(d**2) + c*e**2, since sum(d) = 0: the error of the mean only ever adds. Three roundings of a
   term, c - 1 of the sum, two for 1/c, two for EPSILON: the computed variance + EPSILON lies between W * (1 - g) and
   (W + e**2) * (1 + g), with W the exact one and g = gamma(c + 6).
4. rsqrt of it (4u): off by a relative rho, the larger of (1 - g)**-0.5 and 1 - ((1 + e**2 / W) * (1 + g))**-0.5.
5. Two products, with rsqrt and gamma in either order (2u), and the sum with beta (u):
   |error| <= |gamma| * r * ((|d| + e_d) * (1 + rho) * (1 + u)**2 - |d|), and u * (|y| + that).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from . import rowwise
from .operator import Arrays, Operator, TensorSpec, Work, Workload, uncropped
from .patterns import check_size
from .rounding import FP32_UNIT, LEAST_NORMAL, gamma, output_bound

EPSILON = 1e-5


class LayerNorm:
    """x [rows, columns], constants gamma [columns] and beta [columns]; y [rows, columns], all of one dtype."""

    name = "layernorm"
    summary = "layer normalisation along rows"
    parameters = rowwise.PARAMETERS

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        shape, dtype = rowwise.shape(workload), workload.word("dtype")
        return (
            TensorSpec("x", dtype, shape, "in"),
            TensorSpec("gamma", dtype, shape[1:], "const"),
            TensorSpec("beta", dtype, shape[1:], "const"),
            TensorSpec("y", dtype, shape, "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return {}

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`."""
        x, *constants, _ = specs = self.tensors(workload)
        check_size(specs)
        values = {spec.name: rowwise.per_column(spec, seed, pattern) for spec in constants}
        return {"x": rowwise.rows_of(x, seed, pattern), **values}

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        x, scale, offset = (inputs[name].astype(np.float64) for name in ("x", "gamma", "beta"))
        centred = x - x.mean(axis=1, keepdims=True)
        variance = (centred**2).mean(axis=1, keepdims=True)
        return {"y": centred / np.sqrt(variance + EPSILON) * scale + offset}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`, and the derivation above."""
        x, scale = (inputs[name].astype(np.float64) for name in ("x", "gamma"))
        y = self.reference(workload, inputs)["y"]
        u, columns = FP32_UNIT, workload.int("columns")
        of_mean = gamma(columns + 1) * np.abs(x).mean(axis=1, keepdims=True)
        centred = np.abs(x - x.mean(axis=1, keepdims=True))
        of_centred = of_mean + u * (centred + of_mean)
        width = (centred**2).mean(axis=1, keepdims=True) + EPSILON
        g = gamma(columns + 6)
        high = (1 - g) ** -0.5 - 1
        low = 1 - ((1 + of_mean**2 / width) * (1 + g)) ** -0.5
        rho = (1 + np.maximum(high, low)) * (1 + rowwise.TRANSCENDENTAL) - 1
        spread = (centred + of_centred) * (1 + rho) * (1 + u) ** 2 - centred
        error = np.abs(scale) / np.sqrt(width) * spread
        error += u * (np.abs(y) + error) + LEAST_NORMAL
        return {"y": output_bound(y, rowwise.SECOND_ORDER * error, workload.word("dtype"))}

    crop = staticmethod(uncropped)

    def work(self, workload: Workload) -> Work:
        """A row takes 7 * columns + 1: sum, scale, subtract, square, sum, scale, rsqrt, two products, add."""
        rows, columns = rowwise.shape(workload)
        return Work(
            multiply_adds=0,
            vector_operations=rows * (7 * columns + 1),
            tensor_bytes={spec.name: spec.size_bytes for spec in self.tensors(workload)},
        )


OPERATOR: Operator = LayerNorm()
