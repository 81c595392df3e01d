"""What qmatmul and qconv2d share: sums of products of quantised numbers, and the way of each sum back to few bits.

    acc = sum of (x - x_zero) * (w - w_zero[channel]) + bias[channel]          exact
    y = clamp(rescaled(acc) + y_zero, low, high)                               rescaled: `quantisation.py`, by `rule`

x is int8, uint8 or int16, w int8 or int4, y of the format of x, or int32: acc itself, as ONNX's MatMulInteger and
ConvInteger. Padding is x_zero. The zero points of x and y are parameters of the workload. All else that a runtime
computes from scales is data, one number a channel: multiplier and shift for TFLite's rules, an fp32 scale for ONNX's,
zero points of the weights. int4 weights lie packed, two neighbours along the input channel in a byte, the even one in
the low nibble. `relu` clamps at y_zero, `relu6` also at y_zero + SIX, where 6 lies on the scale of the output.

Depths are limited so that |acc| <= 2**30 without a bias, or 2**46 for int16, which TFLite sums in 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from presil.simulators.errors import BadInput

from .operator import Arrays, Parameter, TensorSpec, Workload
from .quantisation import (
    LIMITS,
    RULES,
    multiply_by_quantised_multiplier,
    multiply_by_quantised_multiplier_double,
    multiply_wide_by_quantised_multiplier,
    scaled_by_fp32,
    unpack_int4,
)

SIX = {"int8": 80, "uint8": 80, "int16": 20480}  # the number 6 in steps of the output
_MOST_SUM = {"int8": 1 << 30, "uint8": 1 << 30, "int16": 1 << 46}

ACTIVATION = Parameter(name="activation", doc="what follows", default="none", words=("none", "relu", "relu6"))
PARAMETERS = (
    Parameter(name="dtype", doc="of x", default="int8", words=("int8", "uint8", "int16"), always=True),
    Parameter(name="weights", doc="format of w", default="int8", words=("int8", "int4")),
    Parameter(
        name="out",
        doc="dtype of the output; int32: the sums themselves",
        default_of={dtype: dtype for dtype in SIX},
        words=(*SIX, "int32"),
    ),
    Parameter(
        name="rule",
        doc="how a sum is rescaled",
        default_of={"int8": "tflite_double", "uint8": "tflite_double", "int16": "tflite"},
        words=RULES,
    ),
    Parameter(
        name="x_zero",
        doc="what stands for 0 in x; padding",
        default_of={"int8": -5, "uint8": 123, "int16": 0},
        low=-128,
        high=255,
    ),
    Parameter(
        name="y_zero",
        doc="what stands for 0 in y",
        default_of={"int8": 6, "uint8": 134, "int16": 0},
        low=-128,
        high=255,
    ),
    Parameter(name="w_zero", doc="a zero point for each channel of w", default="no", words=("no", "yes")),
    Parameter(name="bias", doc="adds an int32 bias to each channel", default="no", words=("no", "yes")),
    ACTIVATION,
)


def validate(workload: Workload, depth: int, inner: int) -> None:
    """Raises BadInput where parameters contradict each other or sums overflow. `inner`: input channels of a filter."""
    dtype, out = workload.word("dtype"), workload.word("out")
    allowed = (dtype,) if dtype == "int16" else (dtype, "int32")
    if out not in allowed:
        raise BadInput(f"'out' is '{out}'; for dtype={dtype} one of: {', '.join(allowed)}")
    rules = {parameter.name: parameter for parameter in PARAMETERS}
    for name in ("rule", "y_zero", "activation") if out == "int32" else ():
        default = rules[name].default_for(dtype)
        if workload[name] != default:
            raise BadInput(f"'{name}' is {workload[name]}; out=int32 is not rescaled: leave it at {default}")
    low, high = LIMITS[dtype] if dtype != "int16" else (0, 0)  # TFLite's int16 is symmetric
    for name in ("x_zero", "y_zero"):
        if not low <= workload.int(name) <= high:
            raise BadInput(f"'{name}' is {workload[name]}; for dtype={dtype} from {low} to {high}")
    if dtype == "int16" and workload["rule"] != "tflite":
        raise BadInput(f"'rule' is '{workload['rule']}'; dtype=int16 has one: tflite, which scales sums of 48 bits")
    if workload["weights"] == "int4" and inner % 2:
        raise BadInput(f"int4 weights are packed in pairs along {inner} input channels; an even number is needed")
    most = _MOST_SUM[dtype] // math.prod(max(-least, greatest) for least, greatest in centred_limits(workload))
    if depth > most:
        raise BadInput(f"sums of {depth} products can overflow the accumulator; at most {most}")


def constant_specs(workload: Workload, channels: int) -> tuple[TensorSpec, ...]:
    """The constants of each channel behind w: w_zero, bias, multiplier and shift, or an fp32 scale."""
    formats = {}
    if workload["w_zero"] == "yes":
        formats["w_zero"] = "int8"
    if workload["bias"] == "yes":
        formats["bias"] = "int32"
    if workload["out"] != "int32":
        formats |= {"scale": "fp32"} if workload["rule"] == "onnx" else {"multiplier": "int32", "shift": "int8"}
    return tuple(TensorSpec(name, dtype, (channels,), "const") for name, dtype in formats.items())


def weight_spec(workload: Workload, shape: tuple[int, ...]) -> TensorSpec:
    """The weights [.., input channels, channels]; int4: uint8 [.., input channels / 2, channels]."""
    if workload["weights"] == "int8":
        return TensorSpec("w", "int8", shape, "const")
    return TensorSpec("w", "uint8", (*shape[:-2], shape[-2] // 2, shape[-1]), "const")


def attributes(workload: Workload) -> Mapping[str, int]:
    """The zero point of x; where the output is rescaled that of y, and the limits that it is clamped to."""
    if workload["out"] == "int32":
        return {"x_zero": workload.int("x_zero")}
    low, high = clamps(workload, workload.word("out"))
    return {"x_zero": workload.int("x_zero"), "y_zero": workload.int("y_zero"), "low": low, "high": high}


def clamps(workload: Workload, dtype: str) -> tuple[int, int]:
    """The least and the greatest output: of its format, or of the activation where that is narrower."""
    zero, activation = workload.int("y_zero"), workload["activation"]
    low, high = LIMITS[dtype]
    return (
        low if activation == "none" else max(low, zero),
        min(high, zero + SIX[dtype]) if activation == "relu6" else high,
    )


def centred(workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
    """Operands less their zero points, int32; w as [.., input channels, channels]."""
    w = inputs["w"] if workload["weights"] == "int8" else unpack_int4(inputs["w"], -2)
    w = w.astype(np.int32)
    if workload["w_zero"] == "yes":
        w -= inputs["w_zero"].astype(np.int32)
    return {"x": inputs["x"].astype(np.int32) - workload.int("x_zero"), "w": w}


def finish(workload: Workload, total: np.ndarray, inputs: Arrays) -> np.ndarray:
    """The outputs from the sums of products [.., channels], int64."""
    total = total.astype(np.int64)
    if workload["bias"] == "yes":
        total = total + inputs["bias"]
    if workload["out"] == "int32":
        return total
    low, high = clamps(workload, workload.word("out"))
    outputs: np.ndarray = np.clip(_rescaled(workload, total, inputs) + workload.int("y_zero"), low, high)
    return outputs


def _rescaled(workload: Workload, total: np.ndarray, inputs: Arrays) -> np.ndarray:
    if workload["rule"] == "onnx":
        return scaled_by_fp32(total, inputs["scale"])
    by = inputs["multiplier"], inputs["shift"]
    if workload["dtype"] == "int16":
        return multiply_wide_by_quantised_multiplier(total, *by)
    if workload["rule"] == "tflite_double":
        return multiply_by_quantised_multiplier_double(total, *by)
    return multiply_by_quantised_multiplier(total, *by)


def centred_limits(workload: Workload) -> tuple[tuple[int, int], tuple[int, int]]:
    """The least and the greatest of x - x_zero and of w - w_zero."""
    (x_low, x_high), (w_low, w_high) = LIMITS[workload.word("dtype")], LIMITS[workload.word("weights")]
    zero = workload.int("x_zero")
    of_w = (w_low - w_high, w_high - w_low) if workload["w_zero"] == "yes" else (w_low, w_high)
    return (x_low - zero, x_high - zero), of_w


def vector_operations(workload: Workload, outputs: int) -> int:
    """One for each output that is rescaled. A bias alone is none: sums can start from it."""
    return 0 if workload["out"] == "int32" else outputs
