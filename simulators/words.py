"""The binary words of the RTL: one word is one instruction.

The classes `CountField`, `OperandField` and `Word` *are* the format: each field says how wide it is and what it means,
and `packages.py` writes the SystemVerilog packages from them. Loops take no words: they are fields of the instructions
that they begin and end with.

Addresses need no multiplier. An instruction keeps its running address; when it has executed, the *turning loop*, the
innermost open loop that is not in its last trip, says which `step` to add: `c[d] - sum of c[e] (trips[e] - 1)` over the
loops e inside d, where c is the coefficient of a loop's variable. Slots of a ring step likewise, modulo the ring.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import Unsupported
from .legality import MAX_COUNT

MAX_LOOPS = 10  # open at once
DIMS = 4  # of a box
OPERANDS = 3
COUNTS = 4  # waits, and signals, of one instruction
SEMAPHORE_BITS = 6
PC_BITS = 12
MOST_UNITS = MAX_COUNT  # that a semaphore can hold
STREAMS, INSTRUCTIONS, SEMAPHORES = 8, 512, 32  # of a core, as it is built
MEMORY_BYTES = 1 << 22  # of the behavioural memory

SPACES = ("none", "memory", "scratchpad", "accumulator", "weights", "planes", "results")
ERRORS = ("none", "opcode", "engine", "loop", "semaphore", "overflow", "operand")
COMMON_OPCODES = {"load": 1, "store": 2, "fill": 3, "sync": 4}
FIRST_FAMILY_OPCODE = 16


def bits(width: int, meaning: str, *, count: int = 1, signed: bool = False) -> Any:
    """A field of `width` bits, or an array of `count` of them."""
    default = 0 if count == 1 else (0,) * count
    return field(default=default, metadata={"width": width, "count": count, "signed": signed, "meaning": meaning})


def group(of: type, meaning: str, count: int) -> Any:
    """An array of `count` groups of fields."""
    return field(default=(of(),) * count, metadata={"of": of, "count": count, "meaning": meaning})


@dataclass(frozen=True, slots=True)
class CountField:
    """Units of a semaphore: taken by a wait, given by a signal."""

    valid: int = bits(1, "whether there is one")
    semaphore: int = bits(SEMAPHORE_BITS, "number of the semaphore")
    amount: int = bits(21, "units")


@dataclass(frozen=True, slots=True)
class OperandField:
    """A box of elements in one space, with its running address."""

    space: int = bits(3, "where it lies; 0: there is no operand")
    element_bytes: int = bits(3, "1 or 4")
    address: int = bits(32, "of the first element at the first execution, without the ring; planes: the slot")
    ring: int = bits(32, "offset into the ring at the first execution")
    ring_bytes: int = bits(32, "size of the ring; planes: slots; 0: none")
    size: tuple[int, ...] = bits(24, "elements along each dimension, outermost first", count=DIMS)
    stride: tuple[int, ...] = bits(32, "bytes from one to the next", count=DIMS, signed=True)
    step: tuple[int, ...] = bits(32, "added to the address when loop d turns", count=MAX_LOOPS, signed=True)
    ring_step: tuple[int, ...] = bits(32, "added to the ring offset, modulo the ring", count=MAX_LOOPS)


@dataclass(frozen=True, slots=True)
class Word:
    """One instruction."""

    opcode: int = bits(8, "what to do; 0 is illegal")
    engine: int = bits(4, "who does it")
    depth: int = bits(4, "open loops")
    ends: int = bits(4, "how many of them, from the innermost, end behind this instruction")
    last: int = bits(1, "the last instruction of its stream")
    trips: tuple[int, ...] = bits(21, "of each open loop, outermost first", count=MAX_LOOPS)
    start: tuple[int, ...] = bits(PC_BITS, "number of the first instruction of each open loop", count=MAX_LOOPS)
    waits: tuple[CountField, ...] = group(CountField, "taken in order before the start", COUNTS)
    signals: tuple[CountField, ...] = group(CountField, "given at the completion", COUNTS)
    operands: tuple[OperandField, ...] = group(OperandField, "destination first", OPERANDS)
    accumulate: int = bits(32, "add to the destination where this is not 0; running, like an address", signed=True)
    accumulate_step: tuple[int, ...] = bits(32, "added when loop d turns", count=MAX_LOOPS, signed=True)
    immediate0: int = bits(32, "multiplier, or value of a fill", signed=True)
    immediate1: int = bits(32, "shift in bits 5:0, relu in bit 8; bytes of a fill")


def width(of: type) -> int:
    """Bits of a group."""
    return sum(_width(f.metadata) for f in dataclasses.fields(of))


def _width(meta: Mapping[str, Any]) -> int:
    each = width(meta["of"]) if "of" in meta else int(meta["width"])
    return int(meta["count"]) * each


def pack(group: Any) -> int:
    """The bits of a group; its first field is the most significant, element 0 of an array the least.

    Raises Unsupported for a value that its field cannot hold.
    """
    total = 0
    for f in dataclasses.fields(group):
        value, meta = getattr(group, f.name), f.metadata
        elements = value if meta["count"] > 1 else (value,)
        each = _width(meta) // meta["count"]
        for element in reversed(elements):
            total = total << each | (pack(element) if "of" in meta else _fit(f.name, element, meta))
    return total


def unpack(of: type, value: int) -> Any:
    """The group whose bits `value` holds."""
    values: dict[str, Any] = {}
    for f in reversed(dataclasses.fields(of)):
        meta = f.metadata
        each = _width(meta) // meta["count"]
        elements = []
        for _ in range(meta["count"]):
            low = value & ((1 << each) - 1)
            value >>= each
            if "of" in meta:
                elements.append(unpack(meta["of"], low))
            else:
                elements.append(low - (1 << each) if meta["signed"] and low >> (each - 1) else low)
        values[f.name] = tuple(elements) if meta["count"] > 1 else elements[0]
    return of(**values)


def _fit(name: str, value: int, meta: Mapping[str, Any]) -> int:
    signed, size = bool(meta["signed"]), int(meta["width"])
    low, high = (-(1 << (size - 1)), (1 << (size - 1)) - 1) if signed else (0, (1 << size) - 1)
    if not low <= value <= high:
        raise Unsupported(f"{name} = {value} does not fit the RTL's word; allowed: {low} to {high}")
    return value & ((1 << size) - 1)


def steps(coefficients: Sequence[int], trips: Sequence[int]) -> tuple[int, ...]:
    """What a running value changes by when each of the open loops turns, all loops inside it going back to 0."""
    found = []
    for d, coefficient in enumerate(coefficients):
        inner = sum(c * (n - 1) for c, n in zip(coefficients[d + 1 :], trips[d + 1 :], strict=True))
        found.append(coefficient - inner)
    return (*found, *(0,) * (MAX_LOOPS - len(found)))


@dataclass(frozen=True, slots=True)
class Command:
    """What a sequencer hands to an engine: a word with its running values."""

    word: Word
    addresses: tuple[int, ...]  # of each operand, ring included
    accumulate: int


def commands(words: Sequence[Word]) -> Iterator[Command]:
    """What the sequencer issues for the words of one stream: its reference."""
    counters = [0] * MAX_LOOPS
    address = [[o.address for o in w.operands] for w in words]
    ring = [[o.ring for o in w.operands] for w in words]
    accumulate = [w.accumulate for w in words]
    pc = 0
    while True:
        word = words[pc]
        yield Command(word, tuple(a + r for a, r in zip(address[pc], ring[pc], strict=True)), accumulate[pc])
        open_loops = range(word.depth - 1, -1, -1)
        turning = next((d for d in open_loops if counters[d] < word.trips[d] - 1), None)
        if turning is not None:
            accumulate[pc] += word.accumulate_step[turning]
            for i, operand in enumerate(word.operands):
                address[pc][i] += operand.step[turning]
                ring[pc][i] += operand.ring_step[turning]
                if operand.ring_bytes and ring[pc][i] >= operand.ring_bytes:
                    ring[pc][i] -= operand.ring_bytes
        ending = range(word.depth - word.ends, word.depth)
        for d in ending:
            if turning is None or d > turning:
                counters[d] = 0
        if turning is not None and turning in ending:
            counters[turning] += 1
            pc = word.start[turning]
        elif word.last:
            return
        else:
            pc += 1
