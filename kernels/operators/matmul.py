"""Matrix multiplication: y[b, m, n] = sum over k of x[b, m, k] * w[b, k, n], then bias and activation.

Numbers, requantisation and the error bound: `contraction.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from . import contraction, probes
from .operator import Arrays, Crop, Operator, Parameter, TensorSpec, Work, Workload, enclosing, resized
from .patterns import check_size


class Matmul:
    """x [batch, m, k], constant w [batch, k, n], perhaps a constant bias [n]; y [batch, m, n]."""

    name = "matmul"
    summary = "matrix multiplication, with bias and activation behind it"
    parameters = (
        Parameter(name="batch", doc="independent multiplications", default=1, alike=1),
        Parameter(name="m", doc="rows of the output", alike=64),
        Parameter(name="n", doc="columns of the output", alike=64),
        Parameter(name="k", doc="length of the sums"),
        *contraction.PARAMETERS,
    )

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""
        contraction.validate(workload, workload.int("k"))

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        batch, m, n, k = (workload.int(name) for name in ("batch", "m", "n", "k"))
        dtype = workload.word("dtype")
        return (
            TensorSpec("x", dtype, (batch, m, k), "in"),
            TensorSpec("w", dtype, (batch, k, n), "const"),
            *contraction.bias_specs(workload, n),
            TensorSpec("y", workload.word("out"), (batch, m, n), "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return contraction.attributes(workload, workload.int("k"))

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`."""
        specs = self.tensors(workload)
        check_size(specs)
        x, w, *bias, _ = specs
        depth = workload.int("k")
        if pattern == "marker":
            plan = probes.plan(workload, depth, rows=workload.int("m"), columns=workload.int("n"))
            shape = (workload.int("batch"), depth, workload.int("n"))
            values = {
                "x": probes.x_probes(plan, x, depth, seed),
                "w": probes.w_probes(plan, shape, w, seed),
            }
        else:
            values = {
                "x": probes.operand(workload, x, depth, seed, pattern, corner=(slice(None), 0)),
                "w": probes.operand(workload, w, depth, seed, pattern, corner=(slice(None), slice(None), 0)),
            }
        for spec in bias:
            values[spec.name] = contraction.bias_values(workload, spec, depth, seed, pattern)
        return values

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        total = contraction.product(inputs["x"], inputs["w"])
        return {"y": contraction.finish(workload, workload.int("k"), total, inputs)}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`, and the derivation in `contraction.py`."""
        if workload["dtype"] == "int8":
            return {"y": np.zeros(self.tensors(workload)[-1].shape)}
        reference = self.reference(workload, inputs)["y"] if workload["out"] != "fp32" else None
        magnitude = contraction.magnitude_product(inputs["x"], inputs["w"])
        return {"y": contraction.float_bound(workload, workload.int("k"), magnitude, inputs, reference)}

    def crop(self, workload: Workload, inputs: Arrays, stored: np.ndarray) -> Crop:
        """The batches, rows and columns that enclose what is stored; sums stay whole."""
        batch, rows, columns = box = tuple(enclosing(stored, axis) for axis in range(3))
        sizes = {n: s.stop - s.start for n, s in zip(("batch", "m", "n"), box, strict=True)}
        part = {"x": inputs["x"][batch, rows], "w": inputs["w"][batch, :, columns]}
        if "bias" in inputs:
            part["bias"] = inputs["bias"][columns]
        return Crop(resized(workload, **sizes), part, box)

    def work(self, workload: Workload) -> Work:
        """The multiply-adds are batch * m * n * k; every tensor moves once."""
        specs = self.tensors(workload)
        outputs = specs[-1].elements
        return Work(
            multiply_adds=outputs * workload.int("k"),
            vector_operations=contraction.vector_operations(workload, outputs),
            tensor_bytes={spec.name: spec.size_bytes for spec in specs},
        )


OPERATOR: Operator = Matmul()
