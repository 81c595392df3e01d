"""What the systolic RTL is told of an instruction: opcode, immediates, and how each operand is walked."""

from __future__ import annotations

import math

from .. import boxes
from ..encoding import Body
from ..errors import Unsupported
from ..formats import size_bytes
from ..machine import Machine
from ..program import Instruction, Program
from ..words import COMMON_OPCODES, FIRST_FAMILY_OPCODE
from . import cost
from .unbuilt import MATRIX_OPS, VECTOR_OPS, unbuilt

_OWN = (*MATRIX_OPS, *VECTOR_OPS)
OPCODES = {**COMMON_OPCODES, **{op: FIRST_FAMILY_OPCODE + i for i, op in enumerate(_OWN)}}
FORMATS = ("int8", "int32")


def encode(instruction: Instruction, unit: int, program: Program, machine: Machine) -> Body:
    """See `family.Family.encode`."""
    op = instruction.op
    owners = [owner for r in instruction.operands if (owner := program.buffer(r.name) or program.tensor(r.name))]
    for owner in owners:
        if owner.dtype not in FORMATS:
            raise Unsupported(f"{op}: {owner.dtype}; the RTL computes {' and '.join(FORMATS)}")
    if op not in OPCODES:
        raise Unsupported(f"the RTL has no {op}; it has: {', '.join(OPCODES)}")
    reason = unbuilt(instruction, owners)
    if reason:
        raise Unsupported(f"{op}: {reason}")
    dims = [boxes.box(region, owner) for region, owner in zip(instruction.operands, owners, strict=True)]
    widths = [size_bytes(owner.dtype) for owner in owners]
    engine = cost.cost(instruction, unit, program, machine).engine
    return Body(
        OPCODES[op],
        engine,
        tuple(_walked(op, dims, widths)),
        _immediates(instruction, boxes.elements(dims[0]) * widths[0] if dims else 0),
    )


def _walked(op: str, dims: list[boxes.Box], widths: list[int]) -> list[boxes.Box]:
    if op in ("load", "store", "fill"):
        return [boxes.runs(d, width) for d, width in zip(dims, widths, strict=True)]
    if op in MATRIX_OPS:
        return [boxes.rows(d) for d in dims]
    if op in ("requantize", "bias"):
        *leading, last = (n for n, _ in dims[1])
        out, total, *bias = dims
        # The bias is a row, whatever the shape it is kept in.
        rows = [boxes.broadcast(boxes.merged(b) or ((1, 0),), (math.prod(leading), last)) for b in bias]
        return [boxes.merged(d) for d in (out, total, *rows)]
    sizes = [n for n, _ in dims[0]] if dims else []
    return [boxes.merged(boxes.broadcast(d, sizes)) for d in dims]


def _immediates(instruction: Instruction, moved: int) -> tuple[int, int]:
    def whole(name: str) -> int:
        value = instruction.attribute(name, 0)
        return value if isinstance(value, int) else 0

    relu = int(instruction.attribute("activation") == "relu")
    if instruction.op == "fill":
        return whole("value"), moved
    return whole("multiplier"), whole("shift") | relu << 8
