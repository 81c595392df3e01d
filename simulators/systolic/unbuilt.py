"""What is legal on a systolic machine but is not built in the RTL: refused before it could compute something else.

One thing cannot be seen from an instruction alone: on the RTL a tile replaces a whole plane of weights, or of results
where it does not accumulate, and the rest of the plane becomes zero. In the event model the rest stays. No emitted
program reads it.
"""

from __future__ import annotations

import math

from .. import boxes
from ..formats import size_bytes
from ..program import Affine, Buffer, Dim, Instruction, Region, Tensor

ACCUMULATOR_BYTES = 4  # of a word
MATRIX_OPS = ("shift", "matmul", "mac", "drain")
VECTOR_OPS = ("requantize", "bias", "cast", "add", "subtract", "multiply", "maximum", "relu")
# Operands that the RTL has no way to but the scratchpad's, by their number.
ONLY_SCRATCHPAD = {"load": (0,), "fill": (0,), "store": (1,), **dict.fromkeys(VECTOR_OPS, (0, 2))}


def unbuilt(instruction: Instruction, owners: list[Tensor | Buffer]) -> str | None:
    """Why the RTL cannot execute a legal instruction, or None. `owners` are those of its operands."""
    for number, (region, owner) in enumerate(zip(instruction.operands, owners, strict=True)):
        if isinstance(owner, Buffer):
            reason = _unreachable(instruction.op, number, region, owner)
            if reason:
                return f"{region.name} {reason}"
    if instruction.op in VECTOR_OPS:
        out, to = instruction.operands[0], owners[0]
        for source, owner in zip(instruction.operands[1:], owners[1:], strict=True):
            if isinstance(to, Buffer) and isinstance(owner, Buffer) and _overwritten(out, to, source, owner):
                return f"{source.name} may lie where results are written before it is read; the RTL samples no operand"
    return None


def _unreachable(op: str, number: int, region: Region, buffer: Buffer) -> str | None:
    width = size_bytes(buffer.dtype)
    if buffer.space in ("planes", "results"):
        # A slot is a plane, and a tile begins in its corner.
        corner = all(d.start == Affine() and d.step == 1 for d in region.dims)
        return None if corner and buffer.offset == 0 else "does not begin in the corner of the first plane"
    if buffer.space == "accumulator":
        if number in ONLY_SCRATCHPAD.get(op, ()):
            return "lies in the accumulator; the RTL has a way to the scratchpad only"
        if width != ACCUMULATOR_BYTES:
            return f"holds {buffer.dtype}; the RTL's accumulator holds words of {ACCUMULATOR_BYTES} bytes"
    size, stride = boxes.box(region, buffer)[-1]
    if op in MATRIX_OPS and size > 1 and stride != width:
        return "has gaps in its rows; the RTL reads and writes whole rows there"
    return None


def _overwritten(out: Region, to: Buffer, source: Region, of: Buffer) -> bool:
    """Whether an element of a source may be written before it is read. In place is fine: it is read first."""
    if to.space != of.space:
        return False
    if to != of:
        first, second = sorted((b.offset, b.offset + _bytes(b)) for b in (to, of))
        return second[0] < first[1]
    slots = _distance(out.slot or Affine(), source.slot or Affine())
    if slots is None:
        return True
    if slots % to.slots:
        return False
    dims, others = out.dims or _whole(to), source.dims or _whole(of)
    return dims != others and not any(_apart(a, b) for a, b in zip(dims, others, strict=True))


def _apart(a: Dim, b: Dim) -> bool:
    """Whether two dimensions have no index in common, whatever the loops."""
    between = _distance(a.start, b.start)
    if between is None:
        return False
    return between > (a.size - 1) * a.step or -between > (b.size - 1) * b.step


def _distance(a: Affine, b: Affine) -> int | None:
    """`b - a` where it is the same for all values of the loops."""
    between = b + a * -1
    return None if between.terms else between.base


def _whole(buffer: Buffer) -> tuple[Dim, ...]:
    return tuple(Dim(Affine(), size) for size in buffer.shape)


def _bytes(buffer: Buffer) -> int:
    return buffer.slots * math.prod(buffer.shape) * size_bytes(buffer.dtype)
