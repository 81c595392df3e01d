"""One operation on each element: add, multiply or relu.

int8 saturates: y = clamp(x + z, -128, 127), and so for a product. Floats are computed in fp32, rounded to nearest, and
for bf16 rounded once more: one rounding of a known value, so the bound is the distance to the nearest float. Only where
both roundings of a bf16 sum take part is it the sum of the two (a product of bf16 numbers is exact in fp32).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .operator import Arrays, Operator, Parameter, TensorSpec, Work, Workload, uncropped
from .patterns import check_size, chosen, generator, normal, whole, wide_exponents
from .rounding import output_bound, rounded


class Elementwise:
    """x [rows, columns], z of the same shape but for relu; y [rows, columns], all of one dtype."""

    name = "elementwise"
    summary = "add, multiply or relu of each element"
    parameters = (
        Parameter(name="kind", doc="what is computed", words=("add", "multiply", "relu")),
        Parameter(name="rows", doc="rows of the matrix", alike=64),
        Parameter(name="columns", doc="columns of the matrix", alike=64),
        Parameter(
            name="dtype", doc="of all tensors", default="int8", words=("int8", "bf16", "fp16", "fp32"), always=True
        ),
    )

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        shape, dtype = (workload.int("rows"), workload.int("columns")), workload.word("dtype")
        second = () if workload["kind"] == "relu" else (TensorSpec("z", dtype, shape, "in"),)
        return (TensorSpec("x", dtype, shape, "in"), *second, TensorSpec("y", dtype, shape, "out"))

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return {}

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`."""
        specs = self.tensors(workload)
        check_size(specs)
        return {spec.name: _operand(workload, spec, seed, pattern) for spec in specs if spec.role != "out"}

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        exact = np.int64 if workload["dtype"] == "int8" else np.float64
        x = inputs["x"].astype(exact)
        if workload["kind"] == "relu":
            return {"y": np.maximum(x, 0)}
        z = inputs["z"].astype(exact)
        y = x + z if workload["kind"] == "add" else x * z
        return {"y": np.clip(y, -128, 127) if exact is np.int64 else y}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`, and the text above."""
        if workload["dtype"] == "int8":
            return {"y": np.zeros(self.tensors(workload)[-1].shape)}
        y = self.reference(workload, inputs)["y"]
        in_fp32 = np.abs(rounded(y, "fp32") - y)
        return {"y": output_bound(y, in_fp32, workload.word("dtype"))}

    crop = staticmethod(uncropped)

    def work(self, workload: Workload) -> Work:
        """One vector operation an element; every tensor moves once."""
        specs = self.tensors(workload)
        return Work(
            multiply_adds=0,
            vector_operations=specs[-1].elements,
            tensor_bytes={spec.name: spec.size_bytes for spec in specs},
        )


_EXPONENTS = {"fp32": 60, "bf16": 60, "fp16": 4}  # products of two stay far from the ends of the format


def _operand(workload: Workload, spec: TensorSpec, seed: int, pattern: str) -> np.ndarray:
    rng = generator(seed, pattern, spec.name)
    product = workload["kind"] == "multiply"
    if spec.dtype == "int8":
        if pattern == "extremes":
            return chosen(rng, (-128, -127, -1, 0, 1, 127), spec)
        # Small factors, or nearly all products would saturate.
        most = 11 if product and (pattern == "integers" or spec.name == "z") else 127
        values = whole(rng, -most - 1, most, spec)
    elif pattern == "random":
        values = normal(rng, 3, spec)
    elif pattern == "extremes":
        values = wide_exponents(rng, _EXPONENTS[spec.dtype], spec)
    else:
        values = whole(rng, -15, 15, spec)  # sums and products have at most 8 bits: exact in bf16
    if pattern == "marker":  # neighbours along each axis differ in x, and z never hides it
        rows, columns = np.indices(spec.shape, sparse=True)
        code = (7 * rows + 3 * columns + seed) % 29 - 14
        values = (code if spec.name == "x" else np.where(code == 0, 1, 2)).astype(values.dtype)
    return values


OPERATOR: Operator = Elementwise()
