"""Which instructions a systolic machine can execute: spaces, formats, shapes. Not bounds, not order."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..formats import size_bytes
from ..machine import Machine
from ..meanings import vector_shapes
from ..program import Buffer, Instruction, Program, Tensor
from .cost import shape
from .spec import Systolic, systolic

ON_CHIP = ("scratchpad", "accumulator", "weights")
MOST_MULTIPLIER = 1 << 29  # (sum + bias) * multiplier + half stays below 2**63
Shape = tuple[int, ...]


def spaces(spec: Systolic) -> Mapping[str, int]:
    """Bytes of each on-chip space of one core. Register planes are a space for each array."""
    array = spec.array
    element = max(size_bytes(t.input) for t in array.types)
    found = {"scratchpad": spec.scratchpad, "accumulator": spec.accumulator}
    if spec.weight_buffer:
        found["weights"] = spec.weight_buffer
    for unit in range(array.count):
        if "ws" in array.dataflows:
            found[plane_space("planes", unit, array.count)] = array.weight_planes * array.rows * array.columns * element
        if "os" in array.dataflows:
            found[plane_space("results", unit, array.count)] = array.result_planes * array.rows * array.columns * 4
    return found


def plane_space(kind: str, unit: int, count: int) -> str:
    """`planes`, or `planes2` where a core has several arrays."""
    return kind if count == 1 else f"{kind}{unit}"


def legal(instruction: Instruction, unit: int, program: Program, machine: Machine) -> str | None:
    """Why the machine cannot execute the instruction, or None."""
    spec = systolic(machine)
    owners = [program.buffer(r.name) or program.tensor(r.name) for r in instruction.operands]
    if any(owner is None for owner in owners):
        return "an operand is not declared"
    shapes = [shape(r, program) for r in instruction.operands]
    if instruction.op in ("load", "store", "fill"):
        channels = spec.dma.store_channels if instruction.op == "store" else spec.dma.load_channels
        if unit >= channels:
            return f"unit {unit}: there are {channels} channels"
        if instruction.op == "fill":
            return _fill(instruction, owners[0])
        return _transfer(instruction.op, owners, shapes)
    if any(not isinstance(owner, Buffer) for owner in owners):
        return "takes buffers only; a tensor must be loaded first"
    buffers = [owner for owner in owners if isinstance(owner, Buffer)]
    if instruction.op in ("shift", "matmul", "mac", "drain"):
        if unit >= spec.array.count:
            return f"unit {unit}: there are {spec.array.count} arrays"
        dataflow = "ws" if instruction.op in ("shift", "matmul") else "os"
        if dataflow not in spec.array.dataflows:
            return f"the array is not {'weight' if dataflow == 'ws' else 'output'}-stationary"
        check = {"shift": _shift, "matmul": _matmul, "mac": _mac, "drain": _drain}[instruction.op]
        return check(buffers, shapes, spec, unit)
    if instruction.op == "sync":
        return None
    if instruction.op not in spec.vector.operations:
        return f"the vector unit has no {instruction.op}; it has: {', '.join(spec.vector.operations)}"
    multiplier = instruction.attribute("multiplier", 1)
    if not isinstance(multiplier, int) or abs(multiplier) > MOST_MULTIPLIER:
        return f"multiplier={multiplier}; allowed: {-MOST_MULTIPLIER} to {MOST_MULTIPLIER}"
    return _vector(instruction.op, buffers, shapes)


def _fill(instruction: Instruction, owner: Buffer | Tensor | None) -> str | None:
    if not isinstance(owner, Buffer) or owner.space not in ON_CHIP:
        return f"writes a buffer in {', '.join(ON_CHIP)}"
    value = instruction.attribute("value")
    bits = 8 * size_bytes(owner.dtype)
    # Of floats, the integers that are held exactly: 8 significant bits of bf16, 24 of fp32.
    most = {"bf16": 1 << 8, "fp32": 1 << 24, "uint8": 255}.get(owner.dtype, (1 << (bits - 1)) - 1)
    least = 0 if owner.dtype == "uint8" else -most - owner.dtype.startswith("int")
    if not isinstance(value, int) or not least <= value <= most:
        return f"value={value} does not fit {owner.dtype}; allowed: {least} to {most}"
    return None


def _transfer(op: str, owners: list[Buffer | Tensor | None], shapes: list[Shape]) -> str | None:
    local = owners[1] if op == "store" else owners[0]
    if not isinstance(local, Buffer) or local.space not in (*ON_CHIP,):
        return f"the on-chip side must be a buffer in {', '.join(ON_CHIP)}"
    remote = owners[0] if op == "store" else owners[1]
    if not isinstance(remote, Tensor):
        return "the memory side must be a tensor"
    if remote.dtype != local.dtype:
        return f"formats differ: {local.dtype} and {remote.dtype}"
    same = math.prod(shapes[0]) == math.prod(shapes[1])  # elements go in row-major order of both sides
    return None if same else f"sizes differ: {list(shapes[0])} and {list(shapes[1])}"


def _shift(buffers: list[Buffer], shapes: list[Shape], spec: Systolic, unit: int) -> str | None:
    plane, weights = buffers
    space = plane_space("planes", unit, spec.array.count)
    if plane.space != space:
        return f"the destination must lie in {space}, not {plane.space}"
    if weights.space != ("weights" if spec.weight_buffer else "scratchpad"):
        return f"weights come from {'weights' if spec.weight_buffer else 'scratchpad'}, not {weights.space}"
    if plane.dtype != weights.dtype:
        return f"formats differ: {plane.dtype} and {weights.dtype}"
    tile = shapes[1][-2:] if len(shapes[1]) > 2 and math.prod(shapes[1][:-2]) == 1 else shapes[1]
    if shapes[0] != tile:
        return f"shapes differ: {list(shapes[0])} and {list(shapes[1])}"
    if plane.slots > spec.array.weight_planes:
        return f"{plane.slots} slots, but the array has {spec.array.weight_planes} weight planes"
    return _fits(shapes[0], spec)


def _fits(tile: Shape, spec: Systolic) -> str | None:
    array = spec.array
    if len(tile) != 2 or tile[0] > array.rows or tile[1] > array.columns:
        return f"a tile of {list(tile)} does not fit the array of {array.rows} rows and {array.columns} columns"
    return None


def _typed(x: Buffer, w: Buffer, out: Buffer, spec: Systolic) -> str | None:
    if not any((t.input, t.input, t.accumulator) == (x.dtype, w.dtype, out.dtype) for t in spec.array.types):
        have = ", ".join(f"{t.input} x {t.input} -> {t.accumulator}" for t in spec.array.types)
        return f"the array has no {x.dtype} x {w.dtype} -> {out.dtype}; it has: {have}"
    return None


def _matmul(buffers: list[Buffer], shapes: list[Shape], spec: Systolic, unit: int) -> str | None:
    acc, x, plane = buffers
    space = plane_space("planes", unit, spec.array.count)
    if (acc.space, x.space, plane.space) != ("accumulator", "scratchpad", space):
        return f"takes accumulator, scratchpad, {space}, not {acc.space}, {x.space}, {plane.space}"
    (k, n), rows = shapes[2][-2:], math.prod(shapes[1][:-1])
    if shapes[1][-1] != k or shapes[0][-1] != n or math.prod(shapes[0][:-1]) != rows:
        return f"shapes do not match: {list(shapes[0])} = {list(shapes[1])} @ {list(shapes[2])}"
    return _typed(x, plane, acc, spec) or _fits(shapes[2], spec)


def _mac(buffers: list[Buffer], shapes: list[Shape], spec: Systolic, unit: int) -> str | None:
    result, x, w = buffers
    space = plane_space("results", unit, spec.array.count)
    weights = "weights" if spec.weight_buffer else "scratchpad"
    if (result.space, x.space, w.space) != (space, "scratchpad", weights):
        return f"takes {space}, scratchpad, {weights}, not {result.space}, {x.space}, {w.space}"
    if result.slots > spec.array.result_planes:
        return f"{result.slots} slots, but the array has {spec.array.result_planes} result planes"
    rows = math.prod(shapes[1][:-1])
    flat = math.prod(shapes[2][:-2]) == 1
    if not flat or shapes[1][-1] != shapes[2][-2] or shapes[0] != (rows, shapes[2][-1]):
        return f"shapes do not match: {list(shapes[0])} = {list(shapes[1])} @ {list(shapes[2])}"
    return _typed(x, w, result, spec) or _fits(shapes[0], spec)


def _drain(buffers: list[Buffer], shapes: list[Shape], spec: Systolic, unit: int) -> str | None:
    acc, result = buffers
    space = plane_space("results", unit, spec.array.count)
    if (acc.space, result.space) != ("accumulator", space) or acc.dtype != result.dtype:
        return f"takes accumulator and {space} of one format"
    same = shapes[0][-1] == shapes[1][-1] and math.prod(shapes[0]) == math.prod(shapes[1])
    return None if same else f"shapes differ: {list(shapes[0])} and {list(shapes[1])}"


EPILOGUES = {
    "requantize": (("int32", "int8"),),
    "bias": (("int32", "int32"), ("fp32", "fp32"), ("fp32", "bf16")),
}
FLOAT_ONLY = ("exp", "reciprocal", "rsqrt", "scale")


def _vector(op: str, buffers: list[Buffer], shapes: list[Shape]) -> str | None:
    formats = [b.dtype for b in buffers]
    if any(b.space not in ("scratchpad", "accumulator") for b in buffers):
        return "takes buffers in scratchpad and accumulator only"
    if op in ("requantize", "bias"):
        if (formats[1], formats[0]) not in EPILOGUES[op]:
            return f"no {op} from {formats[1]} to {formats[0]}"
        if len(formats) > 2 and (formats[2] != formats[1] or math.prod(shapes[2]) != shapes[1][-1]):
            return f"the bias must be {shapes[1][-1]} elements of {formats[1]}"
        same = shapes[0][-1] == shapes[1][-1] and math.prod(shapes[0]) == math.prod(shapes[1])
        return None if same else f"shapes differ: {list(shapes[0])} and {list(shapes[1])}"
    if op in FLOAT_ONLY and any(f.startswith(("int", "uint")) for f in formats):
        return f"{op} works on bf16 and fp32, not {', '.join(formats)}"
    if len({f.startswith(("int", "uint")) for f in formats}) > 1:
        return f"integers and floats do not mix: {', '.join(formats)}"
    return None if vector_shapes(op, shapes) else f"shapes do not match: {', '.join(str(list(s)) for s in shapes)}"
