"""Layer and RMS normalisation of int8 numbers along rows of c columns, exact in integers.

    d[j] = c * x'[j] - s,  s = sum x' (layer) or 0 (rms),        x' = x - x_zero
    r = max(isqrt(c * sum x'**2 - s**2), 1)                      rounded down: c times the deviation
    t[j] = (2 * 128 * d[j] + r) // (2 * r)                       the normalised number in steps of 1/128, halves up
    y[j] = clamp(scaled(t[j] * gamma[j] + beta[j], multiplier, shift) + y_zero)

gamma int8 [c], beta int32 [c], one multiplier and shift, rounded once (`quantisation.py`, rule `tflite`): data, drawn
from the seed. x_zero cancels in `layer`. With at most 2**14 columns all fits int32, but for the square (46 bits).
Runtimes have no common rule: this definition is ours, the integer square root as in I-BERT (Kim et al. 2021).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from presil.simulators.formats import DTYPES

from .operator import Arrays, Operator, Parameter, TensorSpec, Work, Workload, uncropped
from .patterns import check_size, generator, whole
from .quantisation import LIMITS, multiply_by_quantised_multiplier, quantised_multipliers

STEPS = 128  # of the normalised number
_SPREAD = 30  # wanted standard deviation of outputs
_MOST_GAMMA = 100
_KINDS = 4  # of rows of `extremes`


class QNorm:
    """x [rows, columns], constants gamma, beta [columns], multiplier, shift [1]; y [rows, columns]."""

    name = "qnorm"
    summary = "layer or RMS normalisation along rows of int8 numbers"
    parameters = (
        Parameter(name="kind", doc="what is computed", words=("layer", "rms")),
        Parameter(name="rows", doc="independent rows", alike=64),
        Parameter(name="columns", doc="length of a row", high=1 << 14),
        Parameter(name="dtype", doc="of x and y", default="int8", words=("int8",), always=True),
        Parameter(name="x_zero", doc="what stands for 0 in x", default=-5, low=-128, high=127),
        Parameter(name="y_zero", doc="what stands for 0 in y", default=6, low=-128, high=127),
    )

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        rows, columns = workload.int("rows"), workload.int("columns")
        return (
            TensorSpec("x", "int8", (rows, columns), "in"),
            TensorSpec("gamma", "int8", (columns,), "const"),
            TensorSpec("beta", "int32", (columns,), "const"),
            TensorSpec("multiplier", "int32", (1,), "const"),
            TensorSpec("shift", "int8", (1,), "const"),
            TensorSpec("y", "int8", (rows, columns), "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """The zero points."""
        return {name: workload.int(name) for name in ("x_zero", "y_zero")}

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`. `integers`: small numbers and a scale that is a power of two, so that outputs are halves."""
        x, gamma, beta, *_ = specs = self.tensors(workload)
        check_size(specs)
        real = _SPREAD / (STEPS * _MOST_GAMMA) * generator(seed, pattern, "scale").uniform(0.7, 1.4)
        if pattern == "integers":
            real = 2.0 ** math.floor(math.log2(real))
        of_gamma = generator(seed, pattern, gamma.name)
        signs = of_gamma.choice(np.array((-1, 1), np.int8), gamma.shape)
        multiplier, shift = quantised_multipliers(np.array([real]))
        return {
            "x": _rows(x, seed, pattern),
            "gamma": signs * whole(of_gamma, _MOST_GAMMA // 2, _MOST_GAMMA, gamma),
            "beta": whole(generator(seed, pattern, beta.name), -round(20 / real), round(20 / real), beta),
            "multiplier": multiplier,
            "shift": shift,
        }

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        x = inputs["x"].astype(np.int64) - workload.int("x_zero")
        columns = x.shape[1]
        total = x.sum(axis=1, keepdims=True) * (workload["kind"] == "layer")
        square = columns * (x * x).sum(axis=1, keepdims=True) - total * total
        root = np.array([[max(math.isqrt(value), 1)] for value in square.ravel().tolist()])
        steps = (2 * STEPS * (columns * x - total) + root) // (2 * root)
        scaled = steps * inputs["gamma"].astype(np.int64) + inputs["beta"]
        y = multiply_by_quantised_multiplier(scaled, inputs["multiplier"], inputs["shift"]) + workload.int("y_zero")
        return {"y": np.clip(y, *LIMITS["int8"])}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """Zeros: every output is exact."""
        return {"y": np.zeros(self.tensors(workload)[-1].shape)}

    crop = staticmethod(uncropped)

    def work(self, workload: Workload) -> Work:
        """Of an element: sum (layer only), square, sum, subtract, divide, multiply, add, rescale; of a row a root."""
        specs = self.tensors(workload)
        rows, columns = specs[-1].shape
        return Work(
            multiply_adds=0,
            vector_operations=rows * ((8 if workload["kind"] == "layer" else 7) * columns + 1),
            tensor_bytes={spec.name: spec.size_bytes for spec in specs},
        )


def _rows(spec: TensorSpec, seed: int, pattern: str) -> np.ndarray:
    """Values of x. Rows differ in mean and width; `marker` has its weight in stripes that move from row to row."""
    rng = generator(seed, pattern, spec.name)
    rows, columns = spec.shape
    if pattern == "integers":
        return whole(rng, -4, 4, spec)
    if pattern == "marker":
        period = -(-columns // 64)
        hot = (np.arange(columns) + np.arange(rows)[:, None] + int(rng.integers(0, period))) % period == 0
        values = np.where(hot, 80 + rng.integers(0, 40, spec.shape), rng.integers(-10, 10, spec.shape))
        return values.astype(DTYPES[spec.dtype])
    width = rng.uniform(5, 40, (rows, 1))
    values = width * rng.standard_normal(spec.shape) + rng.uniform(-30, 30, (rows, 1))
    if pattern == "extremes":
        kind = (np.arange(rows) + seed) % _KINDS
        values[kind == 0] = -128
        values[kind == 1] = np.where(np.arange(columns) == rng.integers(0, columns), 127, -128)
        values[kind == 2] = np.where(np.arange(columns) % 2, 127, -128)
    return np.clip(np.rint(values), *LIMITS["int8"]).astype(DTYPES[spec.dtype])


OPERATOR: Operator = QNorm()
