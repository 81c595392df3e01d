"""Quantised matrix multiplication: y[i, j] from sum over t of (x[i, t] - x_zero) * (w[t, j] - w_zero[j]), then bias,
rescaling and clamp. Definition and inputs: `requantisation.py`, `quantised_inputs.py`. Every output is exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from . import contraction, quantised_inputs, requantisation
from .operator import Arrays, Crop, Operator, Parameter, TensorSpec, Work, Workload, enclosing, resized


class QMatmul:
    """x [m, k], constant w [k, n] (int4: packed [k/2, n]), constants [n] of each channel; y [m, n]."""

    name = "qmatmul"
    summary = "matrix multiplication of quantised numbers, rescaled channel by channel"
    parameters = (
        Parameter(name="m", doc="rows of the output", alike=64),
        Parameter(name="n", doc="columns of the output", alike=64),
        Parameter(name="k", doc="length of the sums"),
        *requantisation.PARAMETERS,
    )

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""
        depth = workload.int("k")
        requantisation.validate(workload, depth, inner=depth)

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        m, n, k = (workload.int(name) for name in ("m", "n", "k"))
        return (
            TensorSpec("x", workload.word("dtype"), (m, k), "in"),
            requantisation.weight_spec(workload, (k, n)),
            *requantisation.constant_specs(workload, n),
            TensorSpec("y", workload.word("out"), (m, n), "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return requantisation.attributes(workload)

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`."""
        m, n, k = (workload.int(name) for name in ("m", "n", "k"))
        sums = quantised_inputs.Sums(shape=(k, n), depth=k, channels=n, rows=m)
        return quantised_inputs.draw(workload, self.tensors(workload), sums, seed, pattern)

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        centred = requantisation.centred(workload, inputs)
        total = contraction.product(centred["x"], centred["w"])
        return {"y": requantisation.finish(workload, total, inputs)}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """Zeros: every output is exact."""
        return {"y": np.zeros(self.tensors(workload)[-1].shape)}

    def crop(self, workload: Workload, inputs: Arrays, stored: np.ndarray) -> Crop:
        """The rows and columns that enclose what is stored; sums stay whole."""
        rows, columns = box = tuple(enclosing(stored, axis) for axis in range(2))
        sizes = {n: s.stop - s.start for n, s in zip(("m", "n"), box, strict=True)}
        part = {name: values[..., columns] for name, values in inputs.items() if name != "x"}
        return Crop(resized(workload, **sizes), {"x": inputs["x"][rows], **part}, box)

    def work(self, workload: Workload) -> Work:
        """The multiply-adds are m * n * k; one vector operation for each output that is rescaled."""
        specs = self.tensors(workload)
        outputs = specs[-1].elements
        return Work(
            multiply_adds=outputs * workload.int("k"),
            vector_operations=requantisation.vector_operations(workload, outputs),
            tensor_bytes={spec.name: spec.size_bytes for spec in specs},
        )


OPERATOR: Operator = QMatmul()
