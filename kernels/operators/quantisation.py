"""The arithmetic of quantised networks, exact in integers: what phones' runtimes compute, bit for bit.

A quantised number q stands for the real number scale * (q - zero). Rules that bring an int32 sum to few bits:

`tflite_double`, `tflite`: TensorFlow Lite, `kernels/internal/common.h`, after gemmlowp's `fixedpoint.h`. A real scale
is a multiplier, an int32 in [2**30, 2**31) that stands for [0.5, 1), and a shift, positive to the left: together
multiplier * 2**(shift - 31) (`quantised_multiplier`). `tflite_double` rounds twice: the doubled high half of the
product to nearest, halves upwards, then the right shift to nearest, halves away from zero. `tflite` rounds once,
halves upwards: builds with TFLITE_SINGLE_ROUNDING. ai-edge-litert 2.3.0 rounds twice in its reference kernels, but for
FULLY_CONNECTED, which scales in floating point there and follows none of these. Sums of int16 products do not fit
int32; both builds then scale sums of up to 48 bits by the multiplier rounded to 15 bits, and round once
(`multiply_wide_by_quantised_multiplier`).

`onnx`: ONNX's QLinearMatMul and QLinearConv, which are DequantizeLinear, the operator, QuantizeLinear. The standard
does not say in which precision. Here, as onnxruntime 1.32.0 computes on a CPU: the exact int32 sum is rounded to fp32,
multiplied by the fp32 scale x_scale * w_scale / y_scale, and rounded to a whole number, each to nearest and halves to
even; the zero point is added behind that. (The reference evaluator of the onnx package adds it before, which differs
at halves where it is odd.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from presil.simulators.errors import BadInput

RULES = ("tflite_double", "tflite", "onnx")
LIMITS: Mapping[str, tuple[int, int]] = {
    "int4": (-8, 7),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
}
LEAST_SHIFT, MOST_SHIFT = -31, 30
_MOST_WIDE_SHIFT = 7
_INT32_LOW, _INT32_HIGH = LIMITS["int32"]


def quantised_multiplier(scale: float) -> tuple[int, int]:
    """(multiplier, shift) of a real scale >= 0: multiplier * 2**(shift - 31) is nearest to it, halves away from zero.

    What is below 2**-32 becomes (0, 0), what is from 2**30 up the largest pair: TFLite's `QuantizeMultiplier`.
    Raises BadInput where `scale` is negative or not finite.
    """
    if not (math.isfinite(scale) and scale >= 0):
        raise BadInput(f"a scale is {scale}; a finite number from 0 up is needed")
    fraction, shift = math.frexp(scale)
    multiplier = math.floor(math.ldexp(fraction, 31) + 0.5)  # exact: 53 bits hold both
    if multiplier == 1 << 31:
        multiplier, shift = 1 << 30, shift + 1
    if shift < LEAST_SHIFT:
        return 0, 0
    if shift > MOST_SHIFT:
        return _INT32_HIGH, MOST_SHIFT
    return multiplier, shift


def quantised_multipliers(scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(multipliers int32, shifts int8) of real scales, in their shape: see `quantised_multiplier`."""
    pairs = [quantised_multiplier(float(scale)) for scale in scales.ravel()]
    multipliers, shifts = np.array(pairs, np.int64).reshape(-1, 2).T
    return multipliers.reshape(scales.shape).astype(np.int32), shifts.reshape(scales.shape).astype(np.int8)


def saturating_rounding_doubling_high_mul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """round(a * b / 2**31) of int32 numbers, halves upwards; -2**31 times itself saturates. int64 in shape of both.

    gemmlowp's nudge is 2**30 or 1 - 2**30 by the sign of the product, and its division truncates: both together round
    to nearest, halves of either sign upwards.
    """
    product = a.astype(np.int64) * b.astype(np.int64)
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high: np.ndarray = np.minimum(_truncated(nudged, 31), _INT32_HIGH)
    return high


def rounding_divide_by_pot(x: np.ndarray, exponent: np.ndarray | int) -> np.ndarray:
    """round(x / 2**exponent), halves away from zero, for exponents 0 to 31. int64."""
    x = x.astype(np.int64)
    mask = (np.int64(1) << np.asarray(exponent, np.int64)) - 1
    threshold = (mask >> 1) + (x < 0)
    quotient: np.ndarray = (x >> np.asarray(exponent, np.int64)) + ((x & mask) > threshold)
    return quotient


def multiply_by_quantised_multiplier_double(x: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The product x * multiplier * 2**(shift - 31) in two roundings: rule `tflite_double`. int64.

    A left shift comes before the product and wraps in int32, as the C++ does on every machine.
    """
    shift = shift.astype(np.int64)
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    shifted = (x.astype(np.int64) << left).astype(np.int32)
    return rounding_divide_by_pot(saturating_rounding_doubling_high_mul(shifted, multiplier), right)


def multiply_by_quantised_multiplier(x: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """The product x * multiplier * 2**(shift - 31) of int32 x, rounded once, halves upwards: rule `tflite`. int64."""
    right = 31 - shift.astype(np.int64)
    scaled: np.ndarray = (x.astype(np.int64) * multiplier.astype(np.int64) + (np.int64(1) << (right - 1))) >> right
    return scaled


def multiply_wide_by_quantised_multiplier(x: np.ndarray, multiplier: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """As `multiply_by_quantised_multiplier` for x of up to 48 bits: by the multiplier rounded to 15 bits. int64."""
    multiplier = multiplier.astype(np.int64)
    reduced = np.where(multiplier < 0x7FFF0000, (multiplier + (1 << 15)) >> 16, 0x7FFF)
    right = 15 - shift.astype(np.int64)
    scaled: np.ndarray = (x.astype(np.int64) * reduced + (np.int64(1) << (right - 1))) >> right
    return scaled


def scaled_by_fp32(total: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """An int32 sum times an fp32 scale, rounded to fp32 twice and to a whole number, halves to even: `onnx`. int64."""
    real = total.astype(np.int32).astype(np.float32) * scale.astype(np.float32)
    limit = np.float32(1 << 40)  # far beyond every format: keeps the conversion below defined
    whole: np.ndarray = np.rint(np.clip(real, -limit, limit)).astype(np.int64)
    return whole


def saturated(values: np.ndarray, dtype: str) -> np.ndarray:
    """int64 `values` within the limits of `dtype`."""
    low, high = LIMITS[dtype]
    inside: np.ndarray = np.clip(values, low, high)
    return inside


def pack_int4(values: np.ndarray, axis: int) -> np.ndarray:
    """Two's complement int4 [.., 2k, ..] as uint8 [.., k, ..]: of neighbours along `axis` the first is the low nibble.

    Raises BadInput where the length is odd or a value is none of int4.
    """
    low, high = LIMITS["int4"]
    if values.shape[axis] % 2:
        raise BadInput(f"{values.shape[axis]} int4 numbers along axis {axis}; an even number is needed")
    if values.size and not low <= values.min() <= values.max() <= high:
        raise BadInput(f"int4 numbers lie between {values.min()} and {values.max()}; allowed: {low} to {high}")
    nibbles = np.moveaxis(values.astype(np.int8).view(np.uint8) & 15, axis, 0)
    return np.ascontiguousarray(np.moveaxis(nibbles[::2] | nibbles[1::2] << 4, 0, axis))


def unpack_int4(packed: np.ndarray, axis: int) -> np.ndarray:
    """The int8 [.., 2k, ..] that `pack_int4` packed."""
    halves = np.moveaxis(packed, axis, 0)
    values = np.stack((halves << 4, halves & 0xF0), axis=1).view(np.int8) >> 4  # the shift keeps the sign
    flat = values.reshape(2 * halves.shape[0], *halves.shape[1:])
    return np.ascontiguousarray(np.moveaxis(flat, 0, axis))


def _truncated(x: np.ndarray, bits: int) -> np.ndarray:
    """The quotient x / 2**bits, towards zero: the division of C++."""
    quotient: np.ndarray = np.where(x >= 0, x >> bits, -(-x >> bits))
    return quotient
