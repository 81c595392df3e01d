"""Does every instruction, on any operands, leave the same bits on the chip as in the event model?

Programs of one stream, drawn at random: each instruction waits for the one before it. Buffers are filled first; at the
end all of them are stored.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.simulators.program import (
    Affine,
    Buffer,
    Count,
    Dim,
    Instruction,
    Program,
    Region,
    Semaphore,
    Stream,
    Tensor,
)
from presil.simulators.rtl.run import run_rtl
from presil.simulators.simulate import simulate
from presil.simulators.systolic.unbuilt import unbuilt

from .kernels import library, machine

ARRAY = 4  # rows and columns
BYTES = Buffer("sb", "int8", (6, 9), 2, "scratchpad", 3)
WORDS = Buffer("wb", "int32", (6, 7), 2, "scratchpad", 200)
SUMS = Buffer("acc", "int32", (6, 5), 2, "accumulator", 8)
COPY = Buffer("copy", "int32", (6, 5), 1, "scratchpad", 1000)
PLANES = Buffer("plane", "int8", (4, 4), 2, "planes", 0)
RESULTS = Buffer("result", "int32", (4, 4), 2, "results", 0)
IN = (Tensor("a", "int8", (11, 17), "in", "dram"), Tensor("b", "int32", (9, 13), "in", "dram"))
OUT = tuple(Tensor(f"o{b.name}", b.dtype, (2, *b.shape), "out", "dram") for b in (BYTES, WORDS, SUMS))
OWNERS = {o.name: o for o in (BYTES, WORDS, SUMS, COPY, PLANES, RESULTS, *IN, *OUT)}
SOURCES = {"sb": "a", "wb": "b"}
EXTREMES = {"int8": [-128, -1, 0, 1, 127], "int32": [-(1 << 31), -(1 << 30), -129, 127, (1 << 31) - 1]}


@dataclass
class Draw:
    """What has been drawn, and how large the tiles in planes and results are: beyond them the chip holds zeros."""

    draw: object
    body: list[Instruction] = field(default_factory=list)
    tiles: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def put(self, op, *operands, **attributes):
        made = Instruction(op, operands, tuple(sorted(attributes.items())), (Count("turn"),), (Count("turn"),))
        if unbuilt(made, [OWNERS[r.name] for r in operands]) is None:
            self.body.append(made)

    def number(self, low, high):
        return self.draw(st.integers(low, high))

    def one(self, *choices):
        return self.draw(st.sampled_from(choices))

    def part(self, name, sizes, *, rows=False):
        """A box of those sizes somewhere in a tensor or slot; `rows` keeps rows whole."""
        owner, dims = OWNERS[name], []
        for axis, (extent, size) in enumerate(zip(owner.shape, sizes, strict=True)):
            widest = 1 if rows and axis == 1 else (extent - 1) // max(1, size - 1)
            step = self.number(1, min(3, widest))
            dims.append(Dim(Affine(self.number(0, extent - 1 - (size - 1) * step)), size, step))
        slot = Affine(self.number(0, 5)) if isinstance(owner, Buffer) else None
        return Region(name, slot, tuple(dims))

    def corner(self, name, slot, sizes):
        return Region(name, Affine(slot), tuple(Dim(Affine(), size) for size in sizes))

    def sizes(self, *names):
        return [self.number(1, n) for n in np.min([OWNERS[name].shape for name in names], axis=0).tolist()]


def transfer(d):
    to = d.one("sb", "wb")
    sizes = d.sizes(to)
    if d.number(0, 2) == 0:
        d.put("fill", d.part(to, sizes), value=d.one(*EXTREMES[OWNERS[to].dtype], 77))
    else:
        d.put("load", d.part(to, sizes), d.part(SOURCES[to], sizes))


def stationary(d):
    slot, (k, n) = d.number(0, 1), (d.number(1, ARRAY), d.number(1, ARRAY))
    d.put("shift", d.corner("plane", slot, (k, n)), d.part("sb", (k, n), rows=True))
    d.tiles["plane", slot] = k, n


def multiplied(d):
    slot = d.number(0, 1)
    k, n = (d.number(1, most) for most in d.tiles["plane", slot])
    m = d.number(1, 6)
    x, acc = d.part("sb", (m, k), rows=True), d.part("acc", (m, n), rows=True)
    d.put("matmul", acc, x, d.corner("plane", slot, (k, n)), accumulate=d.number(0, 1))


def gathered(d):
    slot, accumulate, k = d.number(0, 1), d.number(0, 1), d.number(1, 6)
    m, n = (d.number(1, most) for most in (d.tiles["result", slot] if accumulate else (ARRAY, ARRAY)))
    x, w = d.part("sb", (m, k), rows=True), d.part("sb", (k, n), rows=True)
    d.put("mac", d.corner("result", slot, (m, n)), x, w, accumulate=accumulate)
    if not accumulate:
        d.tiles["result", slot] = m, n


def drained(d):
    slot = d.number(0, 1)
    m, n = (d.number(1, most) for most in d.tiles["result", slot])
    acc = d.part("acc", (m, n), rows=True)
    d.put("drain", acc, d.corner("result", slot, (m, n)), accumulate=d.number(0, 1))


def epilogue(d):
    op, source = d.one("requantize", "bias"), d.one("acc", "wb")
    to = "sb" if op == "requantize" else "wb"
    sizes = d.sizes(to, source)
    bias = (d.part("wb", (1, sizes[1])),) if d.number(0, 1) else ()
    scale = {"multiplier": d.one(1, -3, 12345, 1 << 29, -(1 << 29)), "shift": d.one(1, 7, 31, 32, 62)}
    relu = {"activation": "relu"} if d.number(0, 1) else {}
    d.put(op, d.part(to, sizes), d.part(source, sizes), *bias, **(scale if op == "requantize" else {}), **relu)


def vector(d):
    op, to, a, b = d.one("cast", "relu", "add", "subtract", "multiply", "maximum"), *(d.one("sb", "wb") for _ in "123")
    sizes = d.sizes(to, a, b)
    small = [d.one(1, size) for size in sizes]  # broadcast along any of them
    more = (d.part(b, small),) if op not in {"cast", "relu"} else ()
    d.put(op, d.part(to, sizes), d.part(a, sizes), *more)


def whole(name, slot):
    return Region(name, Affine(slot))


def prologue(d):
    for slot in (0, 1):
        d.put("load", whole("sb", slot), d.part("a", BYTES.shape))
        d.put("load", whole("wb", slot), d.part("b", WORDS.shape))
    for slot in (0, 1):
        d.put("shift", d.corner("plane", slot, (ARRAY, ARRAY)), d.part("sb", (ARRAY, ARRAY), rows=True))
        d.tiles["plane", slot] = d.tiles["result", slot] = ARRAY, ARRAY
        for half in (Dim(Affine(), 4), Dim(Affine(4), 1)):
            acc = Region("acc", Affine(slot), (Dim(Affine(), 6), half))
            plane = d.corner("plane", slot, (ARRAY, half.size))
            d.put("matmul", acc, d.part("sb", (6, ARRAY), rows=True), plane, accumulate=0)
        x, w = (d.part("sb", (ARRAY, 4), rows=True) for _ in "xw")
        d.put("mac", d.corner("result", slot, (ARRAY, ARRAY)), x, w, accumulate=0)


def stores(d):
    for buffer in (BYTES, WORDS, SUMS):
        for slot in (0, 1):
            to = Region(f"o{buffer.name}", None, (Dim(Affine(slot), 1), *(Dim(Affine(), n) for n in buffer.shape)))
            source = whole(buffer.name, slot)
            if buffer is SUMS:  # the DMA has no way to the accumulator
                d.put("bias", whole("copy", 0), source)
                source = whole("copy", 0)
            d.put("store", to, source)


@st.composite
def programs(draw):
    d = Draw(draw)
    prologue(d)
    for made in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=12)):
        made(d)
    stores(d)
    buffers = (BYTES, WORDS, SUMS, COPY, PLANES, RESULTS)
    return Program("p", "systolic-4", "", (*IN, *OUT), buffers, (Semaphore("turn", 1),), (Stream("s", tuple(d.body)),))


STEPS = (transfer, stationary, multiplied, gathered, drained, epilogue, vector)


def inputs(seed):
    """Every second element an extreme, so that sums wrap and saturate."""
    noise = np.random.default_rng(seed)
    found = {}
    for tensor in IN:
        info = np.iinfo(tensor.dtype)
        values = noise.integers(info.min, info.max, tensor.shape, endpoint=True)
        extreme = noise.choice(EXTREMES[tensor.dtype], tensor.shape)
        found[tensor.name] = np.where(noise.random(tensor.shape) < 0.5, values, extreme).astype(tensor.dtype)
    return found


@given(programs(), st.integers(0, 1 << 30))
@settings(max_examples=150)
def test_the_chip_leaves_what_the_event_model_leaves(program, seed):
    given_arrays = inputs(seed)
    event = simulate(program, machine(4), mode="full", inputs=given_arrays)
    rtl = run_rtl(program, machine(4), inputs=given_arrays, library=library(4))
    for name, wanted in event.outputs.items():
        assert rtl.outputs[name].tolist() == wanted.tolist(), name
    assert rtl.timing.traffic_bytes == event.timing.traffic_bytes
    assert sum(math.prod(w.shape) for w in event.outputs.values()) == 2 * (54 + 42 + 30)
