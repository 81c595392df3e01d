"""Bench of `vector_unit`: random operations on random boxes, against the meanings in `isa.py`."""

import itertools
import math

import cocotb
import numpy as np
from tests.hw.bins import Bins
from tests.hw.signals import Engine, begin, command, lanes, noise, operand, packed, parameters, rounds

from presil.simulators.formats import size_bytes
from presil.simulators.systolic.encoding import OPCODES
from presil.simulators.systolic.isa import OPS
from presil.simulators.systolic.legality import MOST_MULTIPLIER
from presil.simulators.words import ERRORS

PARAMETERS = parameters()
LANES, LATENCY = PARAMETERS["Lanes"], PARAMETERS["Latency"]
BYTES, ELEMENTS = 4096, 512  # of the scratchpad, of the accumulator
BINARY, UNARY = ("add", "subtract", "multiply", "maximum"), ("cast", "relu")
FORMATS = ("int8", "int32")
LOW, HIGH = -(1 << 31), (1 << 31) - 1


class Memories:
    """The scratchpad as bytes, the accumulator as int32; what the unit reads and writes."""

    def __init__(self, dut, rng: np.random.Generator) -> None:
        self.dut = dut
        self.bytes = rng.integers(0, 256, BYTES).astype(np.uint8)
        self.sums = rng.integers(LOW, HIGH, ELEMENTS).astype(np.int32)
        self.sums[::5] = rng.integers(-300, 300, len(self.sums[::5]))
        self.sums[::7] = rng.choice([LOW, HIGH], len(self.sums[::7]))
        self.engine = Engine(dut, self.serve, self.watch)

    def serve(self) -> None:
        dut = self.dut
        dut.sum_data_i.value = packed([self.sums[a % ELEMENTS] for a in lanes(dut.sum_address_o, 32)], 32)
        for name in ("a", "b"):
            addresses = lanes(getattr(dut, f"{name}_address_o"), 32)
            getattr(dut, f"{name}_data_i").value = packed([self.bytes[a % BYTES] for a in addresses], 8)

    def watch(self) -> None:
        dut = self.dut
        if dut.write_o.value.to_unsigned():
            data, write = lanes(dut.write_data_o, 8), lanes(dut.write_o, 1)
            for address, value, valid in zip(lanes(dut.write_address_o, 32), data, write, strict=True):
                if valid:
                    self.bytes[address] = value

    def read(self, space: str, dtype: str, places: np.ndarray) -> np.ndarray:
        """Elements of `dtype` at byte addresses `places`."""
        if space == "accumulator":
            return self.sums[places // 4]
        raw = self.bytes[places[..., None] + np.arange(size_bytes(dtype))]
        return np.ascontiguousarray(raw).view(np.dtype(dtype))[..., 0]


def places(address: int, box: list[tuple[int, int]]) -> np.ndarray:
    """The byte address of each element of a box."""
    grids = np.meshgrid(*(np.arange(n) * stride for n, stride in box), indexing="ij")
    return address + sum(grids)


def drawn_box(rng: np.random.Generator, sizes: list[int], width: int, room: int) -> tuple[int, list[tuple[int, int]]]:
    """(address, box) with gaps between the rows, inside `room` bytes."""
    strides, stride = [], width
    for n in reversed(sizes):
        strides.append(stride)
        stride *= n
        stride += width * int(rng.integers(3))
    address = int(rng.integers((room - stride) // width)) * width
    return address, list(zip(sizes, reversed(strides), strict=True))


class Drawn:
    """One random instruction: its command, and what it means."""

    def __init__(self, rng: np.random.Generator, memories: Memories, number: int) -> None:
        self.op = str(rng.choice(["requantize", "requantize", "bias", *BINARY, *UNARY]))
        self.sizes = [int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4)))]
        epilogue = self.op in ("requantize", "bias")
        self.formats = [str(rng.choice(FORMATS)) for _ in range(3)]
        if epilogue:
            self.formats = ["int8" if self.op == "requantize" else "int32", "int32", "int32"]
        self.space = "accumulator" if self.formats[1] == "int32" and rng.integers(2) else "scratchpad"
        self.second = (self.op in BINARY) or (epilogue and bool(rng.integers(2)))
        self.relu = int(epilogue and rng.integers(2))
        self.multiplier = int(rng.choice([1, -1, MOST_MULTIPLIER, -MOST_MULTIPLIER, rng.integers(-999, 999)]))
        self.shift = int(rng.integers(1, 40))
        # What is read lies in the lower half, what is written in the upper: nothing is read that is under way.
        half = BYTES // 2
        widths = [size_bytes(f) for f in self.formats]
        address, box = drawn_box(rng, self.sizes, widths[0], half)
        self.out = places(address + half, box)
        operands = [operand("scratchpad", widths[0], address + half, *box)]
        room = 4 * ELEMENTS if self.space == "accumulator" else half
        address, box = drawn_box(rng, self.sizes, widths[1], room)
        self.sources = [memories.read(self.space, self.formats[1], places(address, box))]
        operands.append(operand(self.space, widths[1], address, *box))
        self.broadcast = "none"
        if self.second:
            shape = [1] * (len(self.sizes) - 1) + self.sizes[-1:]
            if not epilogue:
                shape = [n if rng.integers(2) else 1 for n in self.sizes]
            self.broadcast = "all" if math.prod(shape) < math.prod(self.sizes) else "whole"
            address, own = drawn_box(rng, shape, widths[2], half)
            box = [(n, stride if n == m else 0) for n, m, (_, stride) in zip(self.sizes, shape, own, strict=True)]
            value = memories.read("scratchpad", self.formats[2], places(address, own))
            self.sources.append(value.reshape(-1) if epilogue else value)
            operands.append(operand("scratchpad", widths[2], address, *box))
        fields = {}
        if epilogue:
            fields = {"immediate1": self.relu << 8}
        if self.op == "requantize":
            fields = {"immediate0": self.multiplier, "immediate1": self.shift | self.relu << 8}
        self.command = command(OPCODES[self.op], *operands, number=number, **fields)

    def apply(self, raw: np.ndarray) -> np.ndarray:
        """Write the result into the scratchpad `raw`; returns it."""
        attributes = {"multiplier": self.multiplier, "shift": self.shift, "activation": "relu" if self.relu else "none"}
        out = np.zeros(self.sizes, self.formats[0])
        with np.errstate(over="ignore"):
            found = OPS[self.op].meaning(out, self.sources, attributes)
        width = size_bytes(self.formats[0])
        raw[self.out[..., None] + np.arange(width)] = np.ascontiguousarray(found)[..., None].view(np.uint8)
        return found

    def note(self, bins: Bins, result: np.ndarray) -> None:
        """Count what this one was."""
        bins.hit(op=self.op, dims=len(self.sizes), broadcast=self.broadcast, rest=math.prod(self.sizes) % LANES)
        if self.op in (*BINARY, *UNARY):
            bins.hit(formats=(self.formats[1], self.formats[0]))
        if self.op in ("requantize", "bias"):
            bins.hit(epilogue=(self.op, self.second, self.relu))
        if self.op == "requantize":
            bins.hit(clamp=("low", self.relu) if (result == (0 if self.relu else -128)).any() else "no")
            bins.hit(clamp=("high", self.relu) if (result == 127).any() else "no")
        bins.hit(space=self.space)


def bins_of_all() -> Bins:
    """What a run must meet."""
    return Bins(
        op=("requantize", "bias", *BINARY, *UNARY),
        dims=(1, 2, 3),
        broadcast=("none", "whole", "all"),
        rest=range(LANES),
        formats=itertools.product(FORMATS, FORMATS),
        epilogue=itertools.product(("requantize", "bias"), (False, True), (0, 1)),
        clamp=itertools.product(("low", "high"), (0, 1)),
        space=("scratchpad", "accumulator"),
    )


@cocotb.test()
async def random_operations_mean_what_numpy_says(dut):
    await begin(dut)
    rng = noise()
    memories, bins = Memories(dut, rng), bins_of_all()
    some = [Drawn(rng, memories, number) for number in range(4 * rounds())]
    wanted = memories.bytes.copy()
    for one in some:
        one.note(bins, one.apply(wanted))
    gaps = [int(rng.integers(4)) * int(rng.integers(2)) for _ in some]
    await memories.engine.run([one.command for one in some], gaps)
    assert np.array_equal(memories.bytes, wanted)
    bins.check()


@cocotb.test()
async def cycles_of_operations(dut):
    """Taken for ceil(elements / lanes) cycles; signalled Latency and 2 behind the last. `sync` is taken for one."""
    await begin(dut)
    engine = Memories(dut, noise()).engine
    elements = [1, LANES, LANES + 1, 3 * LANES - 1]

    def relu(n: int, number: int):
        box = (n, 1)
        a, b = operand("scratchpad", 1, BYTES // 2, box), operand("scratchpad", 1, 0, box)
        return command(OPCODES["relu"], a, b, number=number)

    await engine.run([*(relu(n, i) for i, n in enumerate(elements)), command(OPCODES["sync"], number=9), relu(1, 8)])
    work = [-(-n // LANES) for n in elements] + [1, 1]
    assert [t - engine.accepted[0] for t in engine.accepted] == [0, *itertools.accumulate(work[:-1])]
    lasted = [d - a for a, d in zip(engine.accepted, engine.done, strict=True)]
    assert lasted == [n + LATENCY + 2 for n in work]


@cocotb.test()
async def an_operation_sees_what_those_before_it_wrote(dut):
    """Nothing lies between them, no gap and no semaphore; each may read any of four buffers, the last written too.

    Few at a time, on new numbers: a long chain of differences would end in zeros, whatever was read.
    """
    await begin(dut)
    rng = noise(2)
    memories = Memories(dut, rng)
    bins = Bins(through=("a", "b", "neither"), cycles=range(1, LATENCY + 4), place=("in place", "elsewhere"))
    for _ in range(rounds()):
        memories.bytes[:1024] = rng.integers(-30, 30, 1024).astype(np.int8).view(np.uint8)
        wanted, last, commands = memories.bytes.view(np.int8).astype(int), -1, []
        for number in range(4):
            cycles = int(rng.integers(1, LATENCY + 4))
            n = int(rng.integers(LANES * (cycles - 1) + 1, LANES * cycles + 1))
            b, out, other = (256 * int(k) for k in rng.permutation(4)[:3])
            a = out if rng.integers(3) == 0 else other
            boxes = [operand("scratchpad", 1, at, (n, 1)) for at in (out, a, b)]
            commands.append(command(OPCODES["subtract"], *boxes, number=number))
            wanted[out : out + n] = np.clip(wanted[a : a + n] - wanted[b : b + n], -128, 127)
            bins.hit(through="a" if a == last else "b" if b == last else "neither", cycles=cycles)
            bins.hit(place="in place" if out == a else "elsewhere")
            last = out
        await memories.engine.run(commands)
        assert np.array_equal(memories.bytes.view(np.int8), wanted)
    bins.check()


@cocotb.test()
async def one_that_depends_stands_until_the_other_is_written(dut):
    """Latency 4, one element each: the first is accepted in cycle 0, read in 1, signalled and written in 7.

    The second is accepted in 1, reads in 8 instead of 2, and is signalled in 14. What depends on none does not stand.
    """
    await begin(dut)
    engine = Memories(dut, noise()).engine

    def relu(out: int, source: int, number: int):
        return command(
            OPCODES["relu"], *(operand("scratchpad", 1, at, (1, 1)) for at in (out, source)), number=number
        )  # fmt: skip

    await engine.run([relu(8, 0, 1), relu(16, 8, 2)])
    first = engine.accepted[0]
    assert [t - first for t in engine.accepted] == [0, 1]
    assert [t - first for t in engine.done] == [LATENCY + 3, 2 * (LATENCY + 3)]
    await engine.run([relu(8, 0, 1), relu(16, 7, 2)])
    assert engine.done[3] - engine.done[2] == 1


@cocotb.test()
async def what_it_cannot_compute_is_an_error(dut):
    await begin(dut)
    engine = Memories(dut, noise()).engine
    here, there = operand("scratchpad", 1, 0, (1, 1)), operand("accumulator", 4, 0, (1, 4))
    assert await engine.error(command(OPCODES["mac"])) == ERRORS.index("opcode")
    assert await engine.error(command(OPCODES["relu"], there, here)) == ERRORS.index("operand")
    assert await engine.error(command(OPCODES["add"], here, here, there)) == ERRORS.index("operand")
    assert await engine.error(command(OPCODES["add"], here, there, here)) == ERRORS.index("none")
