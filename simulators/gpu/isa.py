"""The instruction set of a GPU block: what each instruction means in numpy.

A stream is a warpgroup: four warps, one on each sub-core of the SM, that work on one tile together; a stream that only
issues copies is one warp. Instructions are of tiles: `mma` is a run of wgmma or mma.sync over one step of K, `exp` one
special-function instruction for each register. Register buffers belong to one stream; all streams of a block share its
shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..errors import Unsupported
from ..family import Op
from ..machine import Machine
from ..meanings import (
    ACCUMULATE,
    VECTOR,
    Arrays,
    Attributes,
    Kinds,
    accumulated,
    copy,
    correct,
    fill,
    inner_product,
    written,
)
from ..program import Instruction, Program, Role
from ..timing import TICKS_PER_CYCLE
from . import cost, legality, occupancy
from .power import sustained_clock_hz
from .spec import Gpu, gpu

TO_SHARED, LOOKUP, PRODUCT = ("shared", "tensor"), ("shared", "pool", "table"), ("acc", "a", "b")
MULTICAST = {"multicast?": "int"}
PRODUCT_ATTRIBUTES: Kinds = {**ACCUMULATE, "transpose?": ("no", "b")}
LIMIT = {"column": "affine", "most": "int"}
MASK = {"row": "affine", "column": "affine"}
LOWEST = np.float32(-3.0e38)  # below every score; finite, so that a row of nothing else gives no NaN


def _multiply(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    """`a @ b`, or `a @ b.T`; added to the old value where it accumulates."""
    a, b = sources[0], sources[1].reshape(sources[1].shape[-2:])
    if attributes.get("transpose") == "b":
        b = b.T
    product = inner_product(a.reshape(-1, a.shape[-1]), b, out.dtype).reshape(out.shape)
    return out + product if attributes["accumulate"] else product


def _mask(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    """Element (i, j) as it is where `column + j <= row + i`, else the lowest score."""
    rows, columns = np.arange(sources[0].shape[-2])[:, None], np.arange(sources[0].shape[-1])
    seen = attributes["column"] + columns <= attributes["row"] + rows
    return np.where(seen, sources[0], LOWEST).astype(out.dtype).reshape(out.shape)


def _limit(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    """Element (i, j) as it is where `column + j < most`, else the lowest score."""
    columns = np.arange(sources[0].shape[-1])
    seen = attributes["column"] + columns < attributes["most"]
    return np.where(seen, sources[0], LOWEST).astype(out.dtype).reshape(out.shape)


def _exp(out: np.ndarray, sources: Arrays, attributes: Attributes) -> np.ndarray:
    """`e ** (a * factor - b)`: the product and the difference rounded to fp32 each, then the power."""
    power = sources[0].astype(np.float32) * np.float32(attributes.get("factor", 1.0))
    if len(sources) > 1:
        power = power - sources[1].astype(np.float32)
    found: np.ndarray = correct(np.exp)(power).astype(out.dtype).reshape(out.shape)
    return found


OPS: Mapping[str, Op] = {
    op.name: op
    for op in (
        Op("copy", "asynchronous copy to shared memory", "copy", TO_SHARED, MULTICAST, copy, written, clips=True),
        Op("gather", "entries that a table names", "copy", LOOKUP, {}, copy, written, clips=True, lookup=True),
        Op("load", "from memory to registers", "load", ("registers", "tensor"), {}, copy, written, clips=True),
        Op("store", "from registers or shared memory", "store", ("tensor", "buffer"), {}, copy, written, clips=True),
        Op("mma", "a @ b on the tensor cores", "tensor", PRODUCT, PRODUCT_ATTRIBUTES, _multiply, accumulated),
        Op("mac", "a @ b on the fp32 lanes", "vector", PRODUCT, PRODUCT_ATTRIBUTES, _multiply, accumulated),
        Op("move", "between registers and shared memory", "vector", ("dst", "a"), {}, copy, written),
        Op("fill", "one value everywhere", "vector", ("dst",), {"value": "float"}, fill, written),
        Op("mask", "hides what lies behind the row", "vector", ("dst", "a"), MASK, _mask, written),
        Op("limit", "hides columns from `most` on", "vector", ("dst", "a"), LIMIT, _limit, written),
        *VECTOR.values(),
        Op("exp", "e ** (a * factor - b)", "vector", ("dst", "a", "b?"), {"factor?": "float"}, _exp, written),
    )
}  # fmt: skip


class GpuFamily:
    """The GPU family, as the engine sees it (see `family.Family`)."""

    name = "gpu"
    spec_model = Gpu
    ops = OPS

    def spaces(self, machine: Machine) -> Mapping[str, int]:
        """Bytes of each on-chip space of one block."""
        spec = gpu(machine).occupancy
        return {"shared": spec.shared_per_block - spec.shared_reserved, "registers": spec.registers}

    def links(self, machine: Machine) -> tuple[str, ...]:
        """None."""
        return ()

    def tensor_memory(self, role: Role, machine: Machine) -> str:
        """All tensors lie in global memory."""
        return gpu(machine).global_memory

    def engines(self, machine: Machine) -> tuple[str, ...]:
        """Engine names of one SM, in order of completion within a tick."""
        return cost.ENGINES

    def launch_ticks(self, program: Program, machine: Machine) -> tuple[int, int]:
        """See `family.Family`."""
        spec = gpu(machine)
        launch = round((spec.follow if program.before else spec.launch) * machine.clock_hz * TICKS_PER_CYCLE)
        return launch + spec.block_start * TICKS_PER_CYCLE, spec.block_start * TICKS_PER_CYCLE

    legal = staticmethod(legality.legal)
    whole = staticmethod(occupancy.whole)
    slots = staticmethod(occupancy.slots)
    cost = staticmethod(cost.cost)
    sustained_clock_hz = staticmethod(sustained_clock_hz)
    opcodes: Mapping[str, int] = {}

    def encode(self, instruction: Instruction, unit: int, program: Program, machine: Machine) -> object:
        """No RTL is built yet."""
        raise Unsupported("the RTL of the gpu family is not built")

    def elaborate(self, machine: Machine) -> Mapping[str, int]:
        """No RTL is built yet."""
        raise Unsupported("the RTL of the gpu family is not built")


FAMILY = GpuFamily()
