"""What the systolic RTL is told of an instruction: opcode, immediates, and how each operand is walked."""

from __future__ import annotations

import math

from .. import boxes
from ..encoding import Body
from ..errors import Unsupported
from ..formats import size_bytes
from ..machine import Machine
from ..program import Buffer, Instruction, Program, Region
from ..words import COMMON_OPCODES, FIRST_FAMILY_OPCODE
from . import cost

_OWN = (
    "shift",
    "matmul",
    "mac",
    "drain",
    "requantize",
    "bias",
    "cast",
    "add",
    "subtract",
    "multiply",
    "maximum",
    "relu",
)
OPCODES = {**COMMON_OPCODES, **{op: FIRST_FAMILY_OPCODE + i for i, op in enumerate(_OWN)}}
FORMATS = ("int8", "int32")
ACCUMULATOR_BYTES = 4  # of a word
MATRIX_OPS = ("shift", "matmul", "mac", "drain")
# Operands that the RTL has no way to but the scratchpad's, by their number.
ONLY_SCRATCHPAD = {"load": (0,), "fill": (0,), "store": (1,), **dict.fromkeys(_OWN[_OWN.index("requantize") :], (0, 2))}


def encode(instruction: Instruction, unit: int, program: Program, machine: Machine) -> Body:
    """See `family.Family.encode`."""
    op = instruction.op
    owners = [program.buffer(r.name) or program.tensor(r.name) for r in instruction.operands]
    for owner in owners:
        if owner is None or owner.dtype not in FORMATS:
            raise Unsupported(f"{op}: {owner.dtype if owner else '?'}; the RTL computes {' and '.join(FORMATS)}")
    if op not in OPCODES:
        raise Unsupported(f"the RTL has no {op}; it has: {', '.join(OPCODES)}")
    dims = [boxes.box(r, o) for r, o in zip(instruction.operands, owners, strict=True) if o is not None]
    widths = [size_bytes(o.dtype) for o in owners if o is not None]
    for number, (region, owner) in enumerate(zip(instruction.operands, owners, strict=True)):
        if isinstance(owner, Buffer):
            reason = _unbuilt(op, number, region, owner, dims[number])
            if reason:
                raise Unsupported(f"{op}: {region.name} {reason}")
    engine = cost.cost(instruction, unit, program, machine).engine
    return Body(
        OPCODES[op],
        engine,
        tuple(_walked(op, dims, widths)),
        _immediates(instruction, boxes.elements(dims[0]) * widths[0] if dims else 0),
    )


def _unbuilt(op: str, number: int, region: Region, buffer: Buffer, dims: boxes.Box) -> str | None:
    """Why the RTL cannot reach an operand that is legal, or None."""
    width = size_bytes(buffer.dtype)
    if buffer.space in ("planes", "results"):
        # A slot is a plane, and a tile begins in its corner.
        corner = all(not d.start.terms and d.start.base == 0 and d.step == 1 for d in region.dims)
        return None if corner and buffer.offset == 0 else "does not begin in the corner of the first plane"
    if buffer.space == "accumulator":
        if number in ONLY_SCRATCHPAD.get(op, ()):
            return "lies in the accumulator; the RTL has a way to the scratchpad only"
        if width != ACCUMULATOR_BYTES:
            return f"holds {buffer.dtype}; the RTL's accumulator holds words of {ACCUMULATOR_BYTES} bytes"
    if op in MATRIX_OPS and dims[-1][0] > 1 and dims[-1][1] != width:
        return "has gaps in its rows; the RTL reads and writes whole rows there"
    return None


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
