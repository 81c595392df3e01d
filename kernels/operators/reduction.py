"""Sum or maximum of each row, in fp32.

A maximum is exact. A sum of `columns` terms in fp32, in any order, is off by at most gamma(columns - 1) * sum|x| with
u = 2**-24 (Higham, 2002, section 4.2), and the float64 reference by the same with u = 2**-53. Sums of integers whose
magnitudes add up to less than 2**24 are exact in any order: the bound is 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from . import rowwise
from .operator import Arrays, Operator, Parameter, TensorSpec, Work, Workload, uncropped
from .patterns import check_size, generator, whole
from .rounding import EXACT_INTEGERS, FP64_UNIT, gamma


class Reduction:
    """x [rows, columns] of fp32 or bf16; y [rows, 1] of fp32."""

    name = "reduction"
    summary = "sum or maximum of each row"
    parameters = (Parameter(name="kind", doc="what is computed", words=("sum", "max")), *rowwise.PARAMETERS)

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        rows, columns = rowwise.shape(workload)
        return (
            TensorSpec("x", workload.word("dtype"), (rows, columns), "in"),
            TensorSpec("y", "fp32", (rows, 1), "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return {}

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`."""
        x, _ = specs = self.tensors(workload)
        check_size(specs)
        if pattern == "marker":
            return {"x": _probes(workload, x, seed)}
        if pattern == "integers":  # small enough that sums are exact
            most = max(1, min(127, (EXACT_INTEGERS - 1) // workload.int("columns")))
            return {"x": whole(generator(seed, pattern, x.name), -most, most, x)}
        values = rowwise.rows_of(x, seed, pattern)
        if workload["kind"] == "max":
            values[::2] = -np.abs(values[::2])  # rows without a positive number: a maximum that starts from 0 is wrong
        return {"x": values}

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        x = inputs["x"].astype(np.float64)
        return {"y": x.sum(axis=1, keepdims=True) if workload["kind"] == "sum" else x.max(axis=1, keepdims=True)}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`, and the derivation above."""
        x = inputs["x"].astype(np.float64)
        magnitude = np.abs(x).sum(axis=1, keepdims=True)
        if workload["kind"] == "max":
            return {"y": np.zeros_like(magnitude)}
        additions = workload.int("columns") - 1
        exact = (x == np.rint(x)).all(axis=1, keepdims=True) & (magnitude < EXACT_INTEGERS)
        return {"y": np.where(exact, 0.0, (gamma(additions) + gamma(additions, FP64_UNIT)) * magnitude)}

    crop = staticmethod(uncropped)

    def work(self, workload: Workload) -> Work:
        """A row takes columns - 1."""
        rows, columns = rowwise.shape(workload)
        return Work(
            multiply_adds=0,
            vector_operations=rows * (columns - 1),
            tensor_bytes={spec.name: spec.size_bytes for spec in self.tensors(workload)},
        )


def _probes(workload: Workload, spec: TensorSpec, seed: int) -> np.ndarray:
    """Sum: every element a positive integer, so that each shows. Maximum: it lies in another column from row to row."""
    rows, columns = spec.shape
    rng = generator(seed, "marker", spec.name)
    if workload["kind"] == "sum":
        return whole(rng, 1, 15, spec)
    values = whole(rng, -100, -50, spec)
    # Rows spread over the columns from a random start; every column has its turn where there are that many rows.
    turn = (np.arange(rows) * max(1, columns // rows) + int(rng.integers(columns))) % columns
    values[np.arange(rows), turn] = whole(rng, -9, -1, TensorSpec("", spec.dtype, (rows,), "in"))
    return values


OPERATOR: Operator = Reduction()
