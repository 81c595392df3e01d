"""Sums that are split over blocks: a first pass stores parts of them, a second adds these up and goes on.

    split         blocks of one output have a part of the sum each, and store it in fp32 or int32 (split-K)
    tail          only what does not fill a whole wave of blocks is split; the rest runs before, as ever (stream-K, as a
                  wave of whole blocks and one of parts: Osama and others, Stream-K, PPoPP 2023, section 4.2)

A block of the second pass is one warpgroup, and has a tile of every part in its registers:

    load the tile of each part; acc = part 0 + part 1; acc = acc + part 2; ...; epilogue; store
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from presil.simulators.formats import size_bytes
from presil.simulators.gpu.spec import MultiplyType, gpu
from presil.simulators.machine import Machine
from presil.simulators.program import (
    Affine,
    Buffer,
    Count,
    Dim,
    Instruction,
    Loop,
    Node,
    Program,
    Region,
    Semaphore,
    Stream,
    Tensor,
)

from . import streaming
from .contraction import REGISTER_BYTES, THREADS, Epilogue

NAME = "parts"
COLUMNS = 128  # of a tile
REGISTERS = 64  # of a thread, that the parts may take


@dataclass(frozen=True, slots=True)
class Parts:
    """What the first pass stores: a tensor [split, batch, m, n] of the columns of y from `first_column` on."""

    shape: tuple[int, int, int, int]
    first_column: int

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a block of the second pass."""
        split, _, m, n = self.shape
        return min(max(1, REGISTERS * THREADS // (split * COLUMNS)), m), min(COLUMNS, n)

    @property
    def grid(self) -> tuple[tuple[str, int], ...]:
        """Blocks of the second pass."""
        (_, batch, m, n), (rows, columns) = self.shape, self.tile
        return ("g", batch), ("down", -(-m // rows)), ("across", -(-n // columns))

    @property
    def tile_bytes(self) -> int:
        """Of one part of a block."""
        return self.tile[0] * self.tile[1] * REGISTER_BYTES


def plain(kind: MultiplyType) -> Epilogue:
    """The first pass stores sums as they are."""
    return Epilogue(op="", attributes=(), out=kind.accumulator, bias=None)


def cycles(parts: Parts, epilogue: Epilogue, machine: Machine) -> float:
    """A closed-form guess of the second pass."""
    split, blocks = parts.shape[0], parts.grid[0][1] * parts.grid[1][1] * parts.grid[2][1]
    elements = parts.tile[0] * parts.tile[1]
    load = streaming.Load(
        read=split * parts.tile_bytes,
        written=elements * size_bytes(epilogue.out),
        cached=0,
        vector=split * elements / gpu(machine).vector.lanes,
        tiles=1,
        slots=1,
    )
    held = streaming.resident((split + 2) * parts.tile_bytes, 0, 0, machine)
    launches = gpu(machine).launch - gpu(machine).follow
    return streaming.cycles(load, blocks, held, machine) - launches * machine.clock_hz


def combine(
    parts: Parts, tensors: tuple[Tensor, ...], kind: MultiplyType, epilogue: Epilogue, first_pass: Program
) -> Program:
    """The second pass. `tensors`: y, and the bias if there is one."""
    memory = tensors[0].memory
    source = Tensor(NAME, kind.accumulator, parts.shape, "in", memory)
    pass_ = _SecondPass(parts, kind, epilogue)
    body = (*pass_.sums(), *pass_.outputs(biased=len(tensors) > 1))
    return replace(
        first_pass,
        name="combine",
        tensors=(source, *tensors),
        buffers=tuple(pass_.buffers),
        semaphores=tuple(map(Semaphore, pass_.semaphores)),
        streams=(Stream("tiles", body),),
        grid=parts.grid,
        place="dispatch",
        before=first_pass,
    )


class _SecondPass:
    """The one stream of a block, with what it needs."""

    def __init__(self, parts: Parts, kind: MultiplyType, epilogue: Epilogue) -> None:
        self.parts, self.kind, self.epilogue = parts, kind, epilogue
        self.buffers: list[Buffer] = []
        self.semaphores = ["loaded"]
        rows, columns = parts.tile
        self.rows = Dim(Affine.var("down", rows), rows)
        self.columns = Dim(Affine.var("across", columns), columns)
        self.acc = self._buffer("acc", kind.accumulator, (rows, columns))

    def _buffer(self, name: str, dtype: str, shape: tuple[int, ...], slots: int = 1) -> Region:
        offset = 0
        if self.buffers:
            last = self.buffers[-1]
            size = last.slots * size_bytes(last.dtype) * last.shape[0] * (last.shape[1] if len(last.shape) > 1 else 1)
            offset = last.offset + -(-size // REGISTER_BYTES) * REGISTER_BYTES
        self.buffers.append(Buffer(name, dtype, shape, slots, "registers", offset))
        return Region(name, Affine())

    def sums(self) -> list[Node]:
        """Loads the parts and adds them, in order."""
        split = self.parts.shape[0]
        self._buffer("part", self.kind.accumulator, self.parts.tile, split)
        s = Affine.var("s")
        box = (Dim(s, 1), Dim(Affine.var("g"), 1), self.rows, self.columns)
        load = Instruction("load", (Region("part", s), Region(NAME, None, box)), signals=(Count("loaded"),))
        second = Region("part", Affine(1))
        found: list[Node] = [Loop("s", split, (load,))]
        found.append(self._add(Region("part", Affine()), second, 2, last=split == 2))
        if split > 3:
            found += streaming.counted("t", split - 3, lambda t: (self._add(self.acc, Region("part", t + 2), 1),))
        if split > 2:
            found.append(self._add(self.acc, Region("part", Affine(split - 1)), 1, last=True))
        return found

    def _add(self, one: Region, other: Region, loaded: int, *, last: bool = False) -> Instruction:
        signals = (Count("summed"),) if last and not self.epilogue.op else ()  # what follows is on the same engine
        return Instruction("add", (self.acc, one, other), (), (Count("loaded", loaded),), signals)

    def outputs(self, *, biased: bool) -> list[Node]:
        """The epilogue, and the store."""
        shift = self.parts.first_column
        columns = Dim(self.columns.start + shift, self.columns.size)
        target = Region("y", None, (Dim(Affine.var("g"), 1), self.rows, columns))
        if not self.epilogue.op:
            self.semaphores.append("summed")
            return [Instruction("store", (target, self.acc), (), (Count("summed"),))]
        out = self._buffer("out", self.epilogue.out, self.parts.tile)
        operands: tuple[Region, ...] = (out, self.acc)
        waits: tuple[Count, ...] = ()
        found: list[Node] = []
        if biased:
            bias = self._buffer("biases", self.kind.accumulator, (self.parts.tile[1],))
            self.semaphores.append("biased")
            found.append(Instruction("load", (bias, Region("bias", None, (columns,))), signals=(Count("biased"),)))
            operands, waits = (*operands, bias), (Count("biased"),)
        self.semaphores.append("finished")
        finished = (Count("finished"),)
        found.append(Instruction(self.epilogue.op, operands, self.epilogue.attributes, waits, finished))
        return [*found, Instruction("store", (target, out), (), finished)]
