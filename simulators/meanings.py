"""What instructions mean in numpy, as far as families share it: copies, products, vector arithmetic, reductions.

Every fidelity is tested against the meanings here. Integer arithmetic is exact; an int32 accumulator wraps like the
hardware's. The inner products of one floating-point instruction are summed in float64 and rounded to fp32 once, so that
the bits do not depend on the order in which a library adds. Vector units compute in fp32 or int32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .family import Access, Op

Attributes = Mapping[str, Any]
Arrays = Sequence[np.ndarray]
Kinds = Mapping[str, str | tuple[str, ...]]  # of attributes

INT8_LOW, INT8_HIGH = -128, 127
EXACT_FLOAT32 = 1 << 24  # integers up to here are exact in float32


def copy(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    """`a`, in the shape of the destination."""
    return sources[0].reshape(out.shape)


def fill(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    """One value everywhere."""
    return np.full(out.shape, attributes["value"]).astype(out.dtype)


def nothing(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    """What was there."""
    return out


def inner_product(x: np.ndarray, w: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`x @ w` for x [M, K] and w [K, N], in the accumulator `dtype`.

    int8 through float32 is exact while K * 2**14 <= 2**24 (every partial sum is an integer below 2**24, in any order).
    """
    if x.dtype == np.int8:
        wide = np.float32 if x.shape[1] << 14 <= EXACT_FLOAT32 else np.float64
        whole: np.ndarray = (x.astype(wide) @ w.astype(wide)).astype(np.int64).astype(dtype)
        return whole
    rounded: np.ndarray = (x.astype(np.float64) @ w.astype(np.float64)).astype(dtype)
    return rounded


def multiplied(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    """`x @ w`, or the old value and that."""
    x, w = sources
    product = inner_product(x.reshape(-1, x.shape[-1]), w.reshape(w.shape[-2:]), out.dtype).reshape(out.shape)
    return out + product if attributes["accumulate"] else product


def added(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    """`a`, or the old value and that."""
    value = sources[0].reshape(out.shape)
    return out + value if attributes["accumulate"] else value


def requantize(total: np.ndarray, multiplier: int, shift: int, relu: bool) -> np.ndarray:
    """int8 from int64 sums: `clamp((total * multiplier + 2**(shift-1)) >> shift)`; halves round up (towards +inf)."""
    scaled = (total * multiplier + (1 << (shift - 1))) >> shift
    narrow: np.ndarray = np.clip(scaled, 0 if relu else INT8_LOW, INT8_HIGH).astype(np.int8)
    return narrow


def requantized(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    """See `requantize`; a bias may be added first."""
    total = sources[0].astype(np.int64)
    if len(sources) > 1:
        total = total + sources[1]
    relu = attributes.get("activation") == "relu"
    return requantize(total, attributes["multiplier"], attributes["shift"], relu).reshape(out.shape)


def biased(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    """`a`, perhaps plus a row, perhaps clamped at 0."""
    total = sources[0] + sources[1] if len(sources) > 1 else sources[0]
    return (np.maximum(total, 0) if attributes.get("activation") == "relu" else total).reshape(out.shape)


def wide(array: np.ndarray) -> np.ndarray:
    """Arithmetic of the vector unit: int32 for integers, fp32 for floats."""
    return array.astype(np.int32 if array.dtype.kind in "iu" else np.float32)


def narrow(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Back to `dtype`; integers of fewer bits than int32 saturate."""
    if dtype.kind in "iu" and dtype.itemsize < 4:
        limits = np.iinfo(dtype)
        value = np.clip(value, limits.min, limits.max)
    return value.astype(dtype)


def binary(function: Any) -> Any:
    """The meaning of `function` of two operands, in fp32 or int32."""

    def meaning(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
        with np.errstate(all="ignore"):  # the unit gives inf and NaN, it does not trap
            return narrow(function(wide(sources[0]), wide(sources[1])), out.dtype)

    return meaning


def unary(function: Any) -> Any:
    """The meaning of `function` of one operand, in fp32 or int32."""

    def meaning(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
        with np.errstate(all="ignore"):
            return narrow(function(wide(sources[0])), out.dtype).reshape(out.shape)

    return meaning


def correct(function: Any) -> Any:
    """`function` of fp32, rounded correctly but for rare double rounding: numpy's own fp32 differs by machine."""
    return lambda a: function(a.astype(np.float64)).astype(np.float32)


def scaled(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    """`a * factor + offset`."""
    factor, offset = np.float32(attributes["factor"]), np.float32(attributes.get("offset", 0.0))
    return narrow(wide(sources[0]) * factor + offset, out.dtype).reshape(out.shape)


def reduced(function: Any, join: Any) -> Any:
    """The meaning of a reduction over the last axis; `join` brings in the old value where it accumulates."""

    def meaning(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
        value = function(wide(sources[0]), axis=-1, keepdims=True)
        return narrow(join(wide(out), value) if attributes["accumulate"] else value, out.dtype)

    return meaning


def written(attributes: Attributes) -> Access:
    """The destination is overwritten."""
    return "w"


def accumulated(attributes: Attributes) -> Access:
    """The destination is added to where the instruction accumulates."""
    return "rw" if attributes["accumulate"] else "w"


ACCUMULATE: Kinds = {"accumulate": "affine"}
ACTIVATION: Kinds = {"activation?": ("none", "relu")}
SCALE: Kinds = {"factor": "float", "offset?": "float"}


REQUANTIZE: Kinds = {"multiplier": "int", "shift": "int", **ACTIVATION}
EPILOGUE = ("dst", "acc", "bias?")
ONE, TWO = ("dst", "a"), ("dst", "a", "b")

# What a vector unit can do; a machine may have fewer.
VECTOR: Mapping[str, Op] = {
    op.name: op
    for op in (
        Op("sync", "waits and signals, nothing else", "vector", (), {}, nothing, written),
        Op("requantize", "int32 to int8, exactly", "vector", EPILOGUE, REQUANTIZE, requantized, written),
        Op("bias", "add a row, clamp", "vector", EPILOGUE, ACTIVATION, biased, written),
        Op("cast", "to another format", "vector", ONE, {}, unary(lambda a: a), written),
        Op("add", "a + b", "vector", TWO, {}, binary(np.add), written),
        Op("subtract", "a - b", "vector", TWO, {}, binary(np.subtract), written),
        Op("multiply", "a * b", "vector", TWO, {}, binary(np.multiply), written),
        Op("maximum", "the larger", "vector", TWO, {}, binary(np.maximum), written),
        Op("relu", "max(a, 0)", "vector", ONE, {}, unary(lambda a: np.maximum(a, 0)), written),
        Op("exp", "e ** a", "vector", ONE, {}, unary(correct(np.exp)), written),
        Op("reciprocal", "1 / a", "vector", ONE, {}, unary(correct(lambda a: 1 / a)), written),
        Op("rsqrt", "1 / sqrt(a)", "vector", ONE, {}, unary(correct(lambda a: 1 / np.sqrt(a))), written),
        Op("square", "a * a", "vector", ONE, {}, unary(np.square), written),
        Op("scale", "a * factor + offset", "vector", ONE, SCALE, scaled, written),
        Op("sum", "of the last axis", "vector", ONE, ACCUMULATE, reduced(np.sum, np.add), accumulated),
        Op("max", "of the last axis", "vector", ONE, ACCUMULATE, reduced(np.max, np.maximum), accumulated),
    )
}


def vector_shapes(op: str, shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether the operands of a vector instruction fit: maps elementwise, reductions along the last axis."""
    if op in ("sum", "max"):
        return shapes[0] == (*shapes[1][:-1], 1)
    if len(shapes) > 2:
        return shapes[0] == shapes[1] and _broadcasts(shapes[2], shapes[1])
    return shapes[0] == shapes[1]


def _broadcasts(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    if len(small) > len(large):
        return False
    return all(a in (1, b) for a, b in zip(reversed(small), reversed(large), strict=False))
