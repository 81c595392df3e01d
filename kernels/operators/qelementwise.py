"""Sum or product of quantised numbers, the second operand broadcast along an axis: TensorFlow Lite's ADD and MUL.

add       a = scaled((x - x_zero) << LEFT, multiplier[0], shift[0]), b likewise of z with [1],
          y = clamp(scaled(a + b, multiplier[2], shift[2]) + y_zero, low, high)
multiply  y = clamp(scaled((x - x_zero) * (z - z_zero), multiplier[0], shift[0]) + y_zero, low, high)

`scaled` is that of `rule` (`quantisation.py`), LEFT is 20, or 15 for int16 (`kernels/add.cc`). For scales s of x, z
and y, m = max(s_x, s_z): the three multipliers of a sum stand for s_x / 2m, s_z / 2m and 2m / (2**LEFT * s_y), the one
of a product for s_x * s_z / s_y. They are data, drawn from the seed. Activations: `requantisation.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from presil.simulators.errors import BadInput
from presil.simulators.formats import DTYPES

from . import requantisation
from .operator import Arrays, Operator, Parameter, TensorSpec, Work, Workload, uncropped
from .patterns import check_size, chosen, generator, whole
from .quantisation import (
    LIMITS,
    multiply_by_quantised_multiplier,
    multiply_by_quantised_multiplier_double,
    quantised_multipliers,
)

LEFT = {"int8": 20, "uint8": 20, "int16": 15}
_ZEROS = {
    "x_zero": {"int8": -5, "uint8": 123, "int16": 0},
    "z_zero": {"int8": 9, "uint8": 137, "int16": 0},
    "y_zero": {"int8": 6, "uint8": 134, "int16": 0},
}
_BROADCAST = ("none", "row", "column", "scalar")


class QElementwise:
    """x [rows, columns], z of the same shape or with 1 instead of rows, columns or both, constants multiplier and shift
    [3] or [1]; y [rows, columns].
    """

    name = "qelementwise"
    summary = "sum or product of quantised numbers, with broadcasting"
    parameters = (
        Parameter(name="kind", doc="what is computed", words=("add", "multiply")),
        Parameter(name="rows", doc="rows of the matrix", alike=64),
        Parameter(name="columns", doc="columns of the matrix", alike=64),
        Parameter(name="broadcast", doc="z has one row, one column or one element", default="none", words=_BROADCAST),
        Parameter(name="dtype", doc="of x, z and y", default="int8", words=tuple(LEFT), always=True),
        Parameter(name="rule", doc="how a sum is rescaled", default="tflite_double", words=("tflite", "tflite_double")),
        *(
            Parameter(name=name, doc=f"what stands for 0 in {name[0]}", default_of=by_dtype, low=-128, high=255)
            for name, by_dtype in _ZEROS.items()
        ),
        requantisation.ACTIVATION,
    )

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""
        dtype = workload.word("dtype")
        low, high = LIMITS[dtype] if dtype != "int16" else (0, 0)  # TFLite's int16 is symmetric
        for name in _ZEROS:
            if not low <= workload.int(name) <= high:
                raise BadInput(f"'{name}' is {workload[name]}; for dtype={dtype} from {low} to {high}")

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        rows, columns, dtype = workload.int("rows"), workload.int("columns"), workload.word("dtype")
        broadcast = workload["broadcast"]
        of_z = (1 if broadcast in ("row", "scalar") else rows, 1 if broadcast in ("column", "scalar") else columns)
        count = 3 if workload["kind"] == "add" else 1
        return (
            TensorSpec("x", dtype, (rows, columns), "in"),
            TensorSpec("z", dtype, of_z, "in"),
            TensorSpec("multiplier", "int32", (count,), "const"),
            TensorSpec("shift", "int8", (count,), "const"),
            TensorSpec("y", dtype, (rows, columns), "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """The zero points, the limits of y, and the left shift of the operands of a sum."""
        low, high = requantisation.clamps(workload, workload.word("dtype"))
        scalars = {name: workload.int(name) for name in _ZEROS} | {"low": low, "high": high}
        return scalars | ({"left": LEFT[workload.word("dtype")]} if workload["kind"] == "add" else {})

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`. `integers`: scales are powers of two, so that many results are halves."""
        x, z, *_ = specs = self.tensors(workload)
        check_size(specs)
        multiplier, shift = quantised_multipliers(_scales(workload, seed, pattern))
        operands = {spec.name: _operand(workload, spec, seed, pattern) for spec in (x, z)}
        return {**operands, "multiplier": multiplier, "shift": shift}

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        double = workload["rule"] == "tflite_double"
        scaled = multiply_by_quantised_multiplier_double if double else multiply_by_quantised_multiplier
        by = list(zip(inputs["multiplier"], inputs["shift"], strict=True))
        dtype = workload.word("dtype")
        x, z = (inputs[name].astype(np.int64) - workload.int(f"{name}_zero") for name in ("x", "z"))
        if workload["kind"] == "add":
            total = scaled(x << LEFT[dtype], *by[0]) + scaled(z << LEFT[dtype], *by[1])
        else:
            total = x * z
        y = scaled(total, *by[-1]) + workload.int("y_zero")
        return {"y": np.clip(y, *requantisation.clamps(workload, dtype))}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """Zeros: every output is exact."""
        return {"y": np.zeros(self.tensors(workload)[-1].shape)}

    crop = staticmethod(uncropped)

    def work(self, workload: Workload) -> Work:
        """Two vector operations an element: one joins, one rescales; every tensor moves once."""
        specs = self.tensors(workload)
        return Work(
            multiply_adds=0,
            vector_operations=2 * specs[-1].elements,
            tensor_bytes={spec.name: spec.size_bytes for spec in specs},
        )


def _scales(workload: Workload, seed: int, pattern: str) -> np.ndarray:
    """The real numbers that the multipliers stand for, float64."""
    rng = generator(seed, pattern, "scales")
    exact = pattern == "integers"
    s_x, s_z = np.exp2(rng.integers(-3, 0, 2, endpoint=True)) if exact else rng.uniform(0.2, 1, 2)
    # Sums of two full ranges fill the output; of products a sixth of the largest does, so that few saturate.
    _, high = LIMITS["int16" if workload["dtype"] == "int16" else "int8"]
    s_y = (s_x + s_z if workload["kind"] == "add" else s_x * s_z * high / 3) * rng.uniform(1, 1.25)
    if exact:
        s_y = np.exp2(np.ceil(np.log2(s_y)))
    if workload["kind"] == "multiply":
        return np.array([s_x * s_z / s_y])
    twice = 2 * max(s_x, s_z)
    return np.array([s_x / twice, s_z / twice, twice / (s_y * 2 ** LEFT[workload.word("dtype")])])


def _operand(workload: Workload, spec: TensorSpec, seed: int, pattern: str) -> np.ndarray:
    rng = generator(seed, pattern, spec.name)
    low, high = LIMITS[spec.dtype]
    if pattern == "extremes":
        zero = workload.int(f"{spec.name}_zero")
        return chosen(rng, (low, low + 1, zero, high), spec)
    if pattern != "marker":
        return whole(rng, low, high, spec)
    # Neighbours along each axis differ in x, and z never hides it: it is far from its zero point.
    rows, columns = np.indices(spec.shape, sparse=True)
    code = (7 * rows + 3 * columns + seed) % 29 - 14
    if spec.name == "z":  # above its zero point, so that an activation hides few sums
        near = high if high - workload.int("z_zero") >= (high - low) // 4 else low + 1
        return (near - code % 2).astype(DTYPES[spec.dtype])
    step = (high - low) // 32
    return (low + step * (code + 15)).astype(DTYPES[spec.dtype])


OPERATOR: Operator = QElementwise()
