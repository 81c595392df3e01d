"""Which instructions a GPU can execute: spaces, formats, shapes. Not bounds, not order, not occupancy."""

from __future__ import annotations

import math

from ..family import POOL, TABLE
from ..lookup import whole
from ..machine import Machine
from ..meanings import vector_shapes
from ..program import Affine, Buffer, Dim, Instruction, Program, Region, Tensor
from .spec import Gpu, MultiplyType, gpu

Shape = tuple[int, ...]
MOST_ENTRIES = 32  # of one gather: the lanes of a warp read an element of the table each, at once
FLOAT_ONLY = ("exp", "reciprocal", "rsqrt", "scale", "mask", "limit")
EPILOGUES = {"requantize": (("int32", "int8"),)}


def legal(instruction: Instruction, unit: int, program: Program, machine: Machine) -> str | None:
    """Why the machine cannot execute the instruction, or None."""
    spec = gpu(machine)
    if unit:
        return f"unit {unit}: an SM has one of each engine, so it is 0"
    owners = [program.buffer(r.name) or program.tensor(r.name) for r in instruction.operands]
    if any(owner is None for owner in owners):
        return "an operand is not declared"
    shapes = [shape(r, program) for r in instruction.operands]
    if instruction.op == "gather":
        return _gather(instruction, owners, shapes)
    if instruction.op in ("copy", "load", "store"):
        return _transfer(instruction, owners, shapes) or _multicast(instruction, program, spec)
    buffers = [owner for owner in owners if isinstance(owner, Buffer)]
    if len(buffers) < len(owners):
        return "takes buffers only; a tensor must be loaded first"
    if instruction.op in ("mma", "mac"):
        return _product(instruction, buffers, shapes, spec)
    if instruction.op == "move":
        if {b.space for b in buffers} != {"registers", "shared"}:
            return "moves between registers and shared memory"
        if buffers[0].dtype != buffers[1].dtype:
            return f"formats differ: {buffers[0].dtype} and {buffers[1].dtype}"
        return None if math.prod(shapes[0]) == math.prod(shapes[1]) else _differ(shapes)
    if any(b.space != "registers" for b in buffers):
        return "works on registers; move it there first"
    return _vector(instruction.op, buffers, shapes)


def shape(region: Region, program: Program) -> Shape:
    """The shape of a region of a declared tensor or buffer."""
    if region.dims:
        return tuple(dim.size for dim in region.dims)
    owner = program.buffer(region.name) or program.tensor(region.name)
    assert owner is not None, region.name
    return owner.shape


def _transfer(instruction: Instruction, owners: list[Buffer | Tensor | None], shapes: list[Shape]) -> str | None:
    stores = instruction.op == "store"
    local, remote = (owners[1], owners[0]) if stores else owners
    if not isinstance(local, Buffer) or not isinstance(remote, Tensor):
        return "one side must be a buffer, the other a tensor"
    space = {"copy": "shared", "load": "registers"}.get(instruction.op)
    if space and local.space != space:
        return f"the destination must lie in {space}, not {local.space}"
    if remote.dtype != local.dtype:
        return f"formats differ: {local.dtype} and {remote.dtype}"
    # Elements go in row-major order of both sides.
    return None if math.prod(shapes[0]) == math.prod(shapes[1]) else _differ(shapes)


def _gather(instruction: Instruction, owners: list[Buffer | Tensor | None], shapes: list[Shape]) -> str | None:
    """The table says which entries of the pool are meant, so any may be; none may change."""
    local, pool, table = owners
    if not isinstance(local, Buffer) or not isinstance(pool, Tensor) or not isinstance(table, Tensor):
        return "goes from a tensor, by a table that is a tensor, to a buffer"
    if local.space != "shared":
        return f"the destination must lie in shared, not {local.space}"
    for tensor in (pool, table):
        if tensor.role not in ("in", "const"):
            return f"{tensor.name} is an output; a pool and its table must be inputs (in, const), which do not change"
    if table.dtype != "int32":
        return f"the table must be int32, not {table.dtype}"
    if pool.dtype != local.dtype:
        return f"formats differ: {local.dtype} and {pool.dtype}"
    first = whole(instruction.operands[POOL], pool)[0]
    if first != Dim(Affine(), pool.shape[0]):
        return f"the first dimension of {pool.name} counts its entries and must be whole: 0 +: {pool.shape[0]}"
    entries, last = math.prod(shapes[TABLE]), whole(instruction.operands[TABLE], table)[-1]
    if entries != last.size or not 1 <= entries <= MOST_ENTRIES or (last.step > 1 and last.size > 1):
        return f"{list(shapes[TABLE])} elements of {table.name}; allowed: 1 to {MOST_ENTRIES} neighbours in a row"
    moved = (entries, *shapes[POOL][1:])
    return None if math.prod(shapes[0]) == math.prod(moved) else _differ([shapes[0], moved])


def _multicast(instruction: Instruction, program: Program, spec: Gpu) -> str | None:
    """A copy for several blocks of a cluster must be of the same part of the tensor for all of them."""
    blocks = instruction.attribute("multicast", 1)
    if blocks == 1 or instruction.op != "copy":
        return None
    if not isinstance(blocks, int) or not 1 <= blocks <= spec.copy_unit.most_multicast:
        return f"multicast={blocks}; allowed: 1 to {spec.copy_unit.most_multicast}"
    if not program.grid or program.grid[-1][1] % blocks:
        return f"multicast={blocks}: the innermost grid variable must be a multiple of it"
    name = program.grid[-1][0]
    if any(variable == name for dim in instruction.operands[1].dims for variable, _ in dim.start.terms):
        return f"multicast={blocks}: what is copied depends on {name}, so blocks side by side need other parts"
    return None


def _product(instruction: Instruction, buffers: list[Buffer], shapes: list[Shape], spec: Gpu) -> str | None:
    acc, a, b = buffers
    kind = spec.multiply_type(a.dtype)
    if kind is None or b.dtype != a.dtype or acc.dtype != kind.accumulator:
        have = ", ".join(f"{t.input} x {t.input} -> {t.accumulator}" for t in spec.tensor_cores.types)
        return f"there is no {a.dtype} x {b.dtype} -> {acc.dtype}; there is: {have}"
    if instruction.op == "mma":
        reason = _tensor(kind, a, b, shapes, spec)
        if reason:
            return reason
    elif a.space != "shared" or b.space != "shared":  # threads cannot read each other's registers
        return f"takes both operands from shared memory, not {a.space} and {b.space}"
    if acc.space != "registers":
        return f"the sum lies in registers, not {acc.space}"
    k, n = shapes[2][-2:] if instruction.attribute("transpose", "no") == "no" else reversed(shapes[2][-2:])
    flat = math.prod(shapes[2][:-2]) == 1
    if not flat or shapes[1][-1] != k or shapes[0][-1] != n or math.prod(shapes[0][:-1]) != math.prod(shapes[1][:-1]):
        return f"shapes do not match: {list(shapes[0])} = {list(shapes[1])} @ {list(shapes[2])}"
    return None


def _tensor(kind: MultiplyType, a: Buffer, b: Buffer, shapes: list[Shape], spec: Gpu) -> str | None:
    if kind.engine != "tensor":
        return f"the tensor cores do not multiply {a.dtype}; mac does"
    if b.space != "shared" or a.space not in ("shared", "registers"):
        return f"takes a from shared memory or registers and b from shared memory, not {a.space} and {b.space}"
    step = spec.tensor_cores.column_step
    return None if not shapes[0][-1] % step else f"{shapes[0][-1]} columns; a multiple of {step} is needed"


def _vector(op: str, buffers: list[Buffer], shapes: list[Shape]) -> str | None:
    formats = [b.dtype for b in buffers]
    if op in ("sync", "fill"):
        return None
    if op in ("requantize", "bias"):
        if op == "requantize" and (formats[1], formats[0]) not in EPILOGUES[op]:
            return f"no {op} from {formats[1]} to {formats[0]}"
        whole = formats[1] == "int32"
        if op == "bias" and (formats[1] not in ("fp32", "int32") or formats[0].startswith("int") != whole):
            return f"no {op} from {formats[1]} to {formats[0]}"
        if len(formats) > 2 and (formats[2] != formats[1] or math.prod(shapes[2]) != shapes[1][-1]):
            return f"the bias must be {shapes[1][-1]} elements of {formats[1]}"
        same = shapes[0][-1] == shapes[1][-1] and math.prod(shapes[0]) == math.prod(shapes[1])
        return None if same else _differ(shapes)
    if op in FLOAT_ONLY and any(f.startswith(("int", "uint")) for f in formats):
        return f"{op} works on floats, not {', '.join(formats)}"
    if len({f.startswith(("int", "uint")) for f in formats}) > 1:
        return f"integers and floats do not mix: {', '.join(formats)}"
    return None if vector_shapes(op, shapes) else _differ(shapes)


def _differ(shapes: list[Shape]) -> str:
    return f"shapes do not match: {', '.join(str(list(s)) for s in shapes)}"
