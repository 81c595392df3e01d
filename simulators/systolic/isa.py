"""The systolic instruction set: what each instruction means in numpy, and which are legal.

Every fidelity is tested against the meanings here. Integer arithmetic is exact; an int32 accumulator wraps like the
hardware's. The inner products of one bf16 instruction are summed in float64 and rounded to fp32 once, so that the bits
do not depend on the order in which a library adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..family import Access, Op
from ..machine import Machine
from ..program import Role
from . import cost, encoding, legality
from .elaborate import elaborate
from .spec import Systolic, systolic

Attributes = Mapping[str, Any]
Arrays = Sequence[np.ndarray]

INT8_LOW, INT8_HIGH = -128, 127
EXACT_FLOAT32 = 1 << 24  # integers up to here are exact in float32


def _copy(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    return sources[0].reshape(out.shape)


def _fill(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    return np.full(out.shape, attributes["value"]).astype(out.dtype)


def _nothing(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
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


def _multiply(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    x, w = sources
    product = inner_product(x.reshape(-1, x.shape[-1]), w.reshape(w.shape[-2:]), out.dtype).reshape(out.shape)
    return out + product if attributes["accumulate"] else product


def _drain(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    value = sources[0].reshape(out.shape)
    return out + value if attributes["accumulate"] else value


def requantize(total: np.ndarray, multiplier: int, shift: int, relu: bool) -> np.ndarray:
    """int8 from int64 sums: `clamp((total * multiplier + 2**(shift-1)) >> shift)`; halves round up (towards +inf)."""
    scaled = (total * multiplier + (1 << (shift - 1))) >> shift
    narrow: np.ndarray = np.clip(scaled, 0 if relu else INT8_LOW, INT8_HIGH).astype(np.int8)
    return narrow


def _requantize(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    total = sources[0].astype(np.int64)
    if len(sources) > 1:
        total = total + sources[1]
    relu = attributes.get("activation") == "relu"
    return requantize(total, attributes["multiplier"], attributes["shift"], relu).reshape(out.shape)


def _bias(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    total = sources[0] + sources[1] if len(sources) > 1 else sources[0]
    return (np.maximum(total, 0) if attributes.get("activation") == "relu" else total).reshape(out.shape)


def _wide(array: np.ndarray) -> np.ndarray:
    """Arithmetic of the vector unit: int32 for integers, fp32 for floats."""
    return array.astype(np.int32 if array.dtype.kind == "i" else np.float32)


def _narrow(value: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Back to `dtype`; int8 saturates."""
    if dtype == np.int8:
        value = np.clip(value, INT8_LOW, INT8_HIGH)
    return value.astype(dtype)


def _binary(function: Any) -> Any:
    def meaning(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
        with np.errstate(all="ignore"):  # the unit gives inf and NaN, it does not trap
            return _narrow(function(_wide(sources[0]), _wide(sources[1])), out.dtype)

    return meaning


def _unary(function: Any) -> Any:
    def meaning(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
        with np.errstate(all="ignore"):
            return _narrow(function(_wide(sources[0])), out.dtype).reshape(out.shape)

    return meaning


def _correct(function: Any) -> Any:
    """`function` of fp32, rounded correctly but for rare double rounding: numpy's own fp32 differs by machine."""
    return lambda a: function(a.astype(np.float64)).astype(np.float32)


def _scale(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    factor, offset = np.float32(attributes["factor"]), np.float32(attributes.get("offset", 0.0))
    return _narrow(_wide(sources[0]) * factor + offset, out.dtype).reshape(out.shape)


def _reduce(function: Any, join: Any) -> Any:
    def meaning(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
        value = function(_wide(sources[0]), axis=-1, keepdims=True)
        return _narrow(join(_wide(out), value) if attributes["accumulate"] else value, out.dtype)

    return meaning


def _written(attributes: Attributes) -> Access:
    return "w"


def _accumulated(attributes: Attributes) -> Access:
    return "rw" if attributes["accumulate"] else "w"


ACCUMULATE = {"accumulate": "affine"}
ACTIVATION = {"activation?": ("none", "relu")}
SCALE = {"factor": "float", "offset?": "float"}

OPS: Mapping[str, Op] = {
    op.name: op
    for op in (
        Op("load", "copy from memory to a buffer", "load", ("buffer", "tensor"), {}, _copy, _written),
        Op("fill", "write one value to a buffer", "load", ("buffer",), {"value": "int"}, _fill, _written),
        Op("store", "copy from a buffer to memory", "store", ("tensor", "buffer"), {}, _copy, _written),
        Op("shift", "weights into a register plane", "weights", ("plane", "w"), {}, _copy, _written),
        Op("matmul", "rows of x through a plane", "matrix", ("acc", "x", "plane"), ACCUMULATE, _multiply, _accumulated),
        Op("mac", "x @ w into the results", "matrix", ("result", "x", "w"), ACCUMULATE, _multiply, _accumulated),
        Op("drain", "results to the accumulator", "drain", ("acc", "result"), ACCUMULATE, _drain, _accumulated),
        Op("sync", "waits and signals, nothing else", "vector", (), {}, _nothing, _written),
        Op(
            "requantize",
            "int32 to int8, exactly",
            "vector",
            ("dst", "acc", "bias?"),
            {"multiplier": "int", "shift": "int", **ACTIVATION},
            _requantize,
            _written,
        ),
        Op("bias", "add a row, clamp", "vector", ("dst", "acc", "bias?"), ACTIVATION, _bias, _written),
        Op("cast", "to another format", "vector", ("dst", "a"), {}, _unary(lambda a: a), _written),
        Op("add", "a + b", "vector", ("dst", "a", "b"), {}, _binary(np.add), _written),
        Op("subtract", "a - b", "vector", ("dst", "a", "b"), {}, _binary(np.subtract), _written),
        Op("multiply", "a * b", "vector", ("dst", "a", "b"), {}, _binary(np.multiply), _written),
        Op("maximum", "the larger", "vector", ("dst", "a", "b"), {}, _binary(np.maximum), _written),
        Op("relu", "max(a, 0)", "vector", ("dst", "a"), {}, _unary(lambda a: np.maximum(a, 0)), _written),
        Op("exp", "e ** a", "vector", ("dst", "a"), {}, _unary(_correct(np.exp)), _written),
        Op("reciprocal", "1 / a", "vector", ("dst", "a"), {}, _unary(_correct(lambda a: 1 / a)), _written),
        Op("rsqrt", "1 / sqrt(a)", "vector", ("dst", "a"), {}, _unary(_correct(lambda a: 1 / np.sqrt(a))), _written),
        Op("square", "a * a", "vector", ("dst", "a"), {}, _unary(np.square), _written),
        Op("scale", "a * factor + offset", "vector", ("dst", "a"), SCALE, _scale, _written),
        Op("sum", "of the last axis", "vector", ("dst", "a"), ACCUMULATE, _reduce(np.sum, np.add), _accumulated),
        Op("max", "of the last axis", "vector", ("dst", "a"), ACCUMULATE, _reduce(np.max, np.maximum), _accumulated),
    )
}  # fmt: skip

VECTOR_OPS = tuple(op.name for op in OPS.values() if op.engine == "vector")


class SystolicFamily:
    """The systolic family, as the engine sees it (see `family.Family`)."""

    name = "systolic"
    spec_model = Systolic
    ops = OPS

    def spaces(self, machine: Machine) -> Mapping[str, int]:
        """Bytes of each on-chip space of one core."""
        return legality.spaces(systolic(machine))

    def tensor_memory(self, role: Role, machine: Machine) -> str:
        """Constants lie in weight memory, all else in activation memory."""
        spec = systolic(machine)
        return spec.weight_memory if role == "const" else spec.activation_memory

    def engines(self, machine: Machine) -> tuple[str, ...]:
        """Engine names of one core, in order of completion within a tick."""
        return cost.engines(systolic(machine))

    legal = staticmethod(legality.legal)
    cost = staticmethod(cost.cost)
    opcodes = encoding.OPCODES
    encode = staticmethod(encoding.encode)
    elaborate = staticmethod(elaborate)


FAMILY = SystolicFamily()
_ = ml_dtypes  # registers bfloat16 with numpy
