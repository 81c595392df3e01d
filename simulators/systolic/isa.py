"""The systolic instruction set: what each instruction means in numpy, and which are legal."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes

from ..errors import Unsupported
from ..family import Activity, Op
from ..machine import Machine
from ..meanings import ACCUMULATE, VECTOR, accumulated, added, copy, fill, multiplied, written
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
        *VECTOR.values(),
    )
}  # fmt: skip

VECTOR_OPS = tuple(VECTOR)


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

    def launch_ticks(self, program: Program, machine: Machine) -> tuple[int, int]:
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
