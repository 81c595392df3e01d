"""The systolic instruction set: what each instruction means in numpy, and which are legal."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from ..errors import Unsupported
from ..family import Activity, Op
from ..machine import Machine
from ..meanings import (
    ACCUMULATE,
    ACTIVATION,
    SCALE,
    accumulated,
    added,
    biased,
    binary,
    copy,
    correct,
    fill,
    multiplied,
    nothing,
    reduced,
    requantized,
    scaled,
    unary,
    written,
)
from ..program import Program, Role
from . import cost, encoding, legality
from .elaborate import elaborate
from .spec import Systolic, systolic

OPS: Mapping[str, Op] = {
    op.name: op
    for op in (
        Op("load", "copy from memory to a buffer", "load", ("buffer", "tensor"), {}, copy, written),
        Op("fill", "write one value to a buffer", "load", ("buffer",), {"value": "int"}, fill, written),
        Op("store", "copy from a buffer to memory", "store", ("tensor", "buffer"), {}, copy, written),
        Op("shift", "weights into a register plane", "weights", ("plane", "w"), {}, copy, written),
        Op("matmul", "rows of x through a plane", "matrix", ("acc", "x", "plane"), ACCUMULATE, multiplied, accumulated),
        Op("mac", "x @ w into the results", "matrix", ("result", "x", "w"), ACCUMULATE, multiplied, accumulated),
        Op("drain", "results to the accumulator", "drain", ("acc", "result"), ACCUMULATE, added, accumulated),
        Op("sync", "waits and signals, nothing else", "vector", (), {}, nothing, written),
        Op(
            "requantize",
            "int32 to int8, exactly",
            "vector",
            ("dst", "acc", "bias?"),
            {"multiplier": "int", "shift": "int", **ACTIVATION},
            requantized,
            written,
        ),
        Op("bias", "add a row, clamp", "vector", ("dst", "acc", "bias?"), ACTIVATION, biased, written),
        Op("cast", "to another format", "vector", ("dst", "a"), {}, unary(lambda a: a), written),
        Op("add", "a + b", "vector", ("dst", "a", "b"), {}, binary(np.add), written),
        Op("subtract", "a - b", "vector", ("dst", "a", "b"), {}, binary(np.subtract), written),
        Op("multiply", "a * b", "vector", ("dst", "a", "b"), {}, binary(np.multiply), written),
        Op("maximum", "the larger", "vector", ("dst", "a", "b"), {}, binary(np.maximum), written),
        Op("relu", "max(a, 0)", "vector", ("dst", "a"), {}, unary(lambda a: np.maximum(a, 0)), written),
        Op("exp", "e ** a", "vector", ("dst", "a"), {}, unary(correct(np.exp)), written),
        Op("reciprocal", "1 / a", "vector", ("dst", "a"), {}, unary(correct(lambda a: 1 / a)), written),
        Op("rsqrt", "1 / sqrt(a)", "vector", ("dst", "a"), {}, unary(correct(lambda a: 1 / np.sqrt(a))), written),
        Op("square", "a * a", "vector", ("dst", "a"), {}, unary(np.square), written),
        Op("scale", "a * factor + offset", "vector", ("dst", "a"), SCALE, scaled, written),
        Op("sum", "of the last axis", "vector", ("dst", "a"), ACCUMULATE, reduced(np.sum, np.add), accumulated),
        Op("max", "of the last axis", "vector", ("dst", "a"), ACCUMULATE, reduced(np.max, np.maximum), accumulated),
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

    def launch_ticks(self, machine: Machine) -> tuple[int, int]:
        """Programs start at once."""
        return 0, 0

    def whole(self, program: Program, machine: Machine) -> str | None:
        """Nothing is left to say."""
        return None

    def slots(self, program: Program, machine: Machine) -> int:
        """There is no dispatcher."""
        raise Unsupported(f"{machine.name} has no dispatcher: place must be static")

    def sustained_clock_hz(self, activity: Activity, machine: Machine) -> float:
        """The power of these chips is not modelled: the clock is what it is."""
        return machine.clock_hz

    legal = staticmethod(legality.legal)
    cost = staticmethod(cost.cost)
    opcodes = encoding.OPCODES
    encode = staticmethod(encoding.encode)
    elaborate = staticmethod(elaborate)


FAMILY = SystolicFamily()
_ = ml_dtypes  # registers bfloat16 with numpy
