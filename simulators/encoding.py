"""Encodes a program for the RTL: the words of each stream, where its tensors lie, how its semaphores start."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from . import boxes
from .errors import Unsupported
from .family import family
from .formats import size_bytes
from .machine import Machine
from .program import Affine, Buffer, Count, Instruction, Loop, Node, Program, Region, Stream, Tensor
from .words import COUNTS, MAX_LOOPS, OPERANDS, PC_BITS, SPACES, CountField, OperandField, Word, steps

ALIGNMENT = 64  # bytes; of a tensor
MOST_SEMAPHORES = 64


@dataclass(frozen=True, slots=True)
class Image:
    """A program as the RTL takes it. `bases` are the addresses of its tensors in memory, `memory_bytes` their end."""

    streams: tuple[tuple[Word, ...], ...]
    initial: tuple[int, ...]  # of each semaphore
    bases: dict[str, int]
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Body:
    """What a family says of an instruction: its opcode, engine, immediates, and the box of each operand."""

    opcode: int
    engine: str
    operands: tuple[boxes.Box, ...]
    immediates: tuple[int, int] = (0, 0)


def encode(program: Program, machine: Machine) -> Image:
    """The image of a legal program. Raises Unsupported for what the RTL cannot hold."""
    if program.before:
        raise Unsupported(f"{program.name} has {len(program.phases)} phases; the RTL runs one")
    if program.instances != 1:
        raise Unsupported(f"{program.name} runs on {program.instances} cores; the RTL has one")
    if len(program.semaphores) > MOST_SEMAPHORES:
        raise Unsupported(f"{program.name}: {len(program.semaphores)} semaphores; the RTL has {MOST_SEMAPHORES}")
    bases: dict[str, int] = {}
    end = 0
    for tensor in program.tensors:
        bases[tensor.name] = end
        end += -(-math.prod(tensor.shape) * size_bytes(tensor.dtype) // ALIGNMENT) * ALIGNMENT
    encoder = _Encoder(program, machine, bases)
    streams = tuple(encoder.stream(stream) for stream in program.streams)
    return Image(streams, tuple(s.initial for s in program.semaphores), bases, end)


class _Encoder:
    """Turns the tree of a stream into words."""

    def __init__(self, program: Program, machine: Machine, bases: dict[str, int]) -> None:
        self.program, self.machine, self.bases = program, machine, bases
        self.family = family(machine.family)
        self.engines = {name: i for i, name in enumerate(self.family.engines(machine))}
        self.semaphores = {s.name: i for i, s in enumerate(program.semaphores)}

    def stream(self, stream: Stream) -> tuple[Word, ...]:
        """The words of one stream."""
        words = self._nodes(stream.body, stream.unit, (), 0)
        if not words or len(words) > 1 << PC_BITS:
            raise Unsupported(f"stream {stream.name}: {len(words)} instructions; the RTL holds 1 to {1 << PC_BITS}")
        return (*words[:-1], replace(words[-1], last=1))

    def _nodes(self, nodes: tuple[Node, ...], unit: int, around: tuple[tuple[Loop, int], ...], pc: int) -> list[Word]:
        """The words of `nodes`, the first of which is number `pc`; `around` are the open loops and their starts."""
        words: list[Word] = []
        for node in nodes:
            if isinstance(node, Loop):
                here = pc + len(words)
                inside = self._nodes(node.body, unit, (*around, (node, here)), here)
                words += [*inside[:-1], replace(inside[-1], ends=inside[-1].ends + 1)]
            else:
                words.append(self._word(node, unit, around))
        return words

    def _word(self, node: Instruction, unit: int, around: tuple[tuple[Loop, int], ...]) -> Word:
        if len(around) > MAX_LOOPS:
            raise Unsupported(f"{node.op}: {len(around)} open loops; the RTL has {MAX_LOOPS}")
        variables, trips = [loop.var for loop, _ in around], [loop.trips for loop, _ in around]
        body = self.family.encode(node, unit, self.program, self.machine)
        operands = [
            self._operand(region, dims, variables, trips)
            for region, dims in zip(node.operands, body.operands, strict=True)
        ]
        accumulate = node.attribute("accumulate", 0)
        affine = accumulate if isinstance(accumulate, Affine) else Affine(int(accumulate or 0))
        idle = MAX_LOOPS - len(around)
        return Word(
            opcode=body.opcode,
            engine=self.engines[body.engine],
            depth=len(around),
            trips=(*trips, *(1,) * idle),
            start=(*(first for _, first in around), *(0,) * idle),
            waits=self._counts(node.waits, node.op),
            signals=self._counts(node.signals, node.op),
            operands=(*operands, *(OperandField(),) * (OPERANDS - len(operands))),
            accumulate=affine.base,
            accumulate_step=steps(_coefficients(affine, variables), trips),
            immediate0=body.immediates[0],
            immediate1=body.immediates[1],
        )

    def _counts(self, counts: tuple[Count, ...], where: str) -> tuple[CountField, ...]:
        if len(counts) > COUNTS:
            raise Unsupported(f"{where}: {len(counts)} waits or signals; the RTL has {COUNTS}")
        fields = [CountField(1, self.semaphores[c.semaphore], c.n) for c in counts]
        return (*fields, *(CountField(),) * (COUNTS - len(fields)))

    def _operand(self, region: Region, dims: boxes.Box, variables: list[str], trips: list[int]) -> OperandField:
        owner = self.program.buffer(region.name) or self.program.tensor(region.name)
        assert owner is not None  # legality
        dims = boxes.padded(dims, region.name)
        sizes, strides = tuple(n for n, _ in dims), tuple(s for _, s in dims)
        if isinstance(owner, Tensor):
            begin = boxes.start(region, owner) + self.bases[owner.name]
            return OperandField(
                SPACES.index("memory"), size_bytes(owner.dtype), begin.base, 0, 0, sizes, strides,
                steps(_coefficients(begin, variables), trips),
            )  # fmt: skip
        begin, tile = boxes.start(region, owner) + owner.offset, _slot_bytes(owner)
        if owner.space in ("planes", "results"):
            begin = Affine()
        ring = (region.slot or Affine()) * tile
        whole = owner.slots * tile
        ring_steps = steps(_coefficients(ring, variables), trips)
        return OperandField(
            SPACES.index(owner.space), size_bytes(owner.dtype), begin.base, ring.base % whole, whole, sizes, strides,
            steps(_coefficients(begin, variables), trips), tuple(step % whole for step in ring_steps),
        )  # fmt: skip


def _slot_bytes(buffer: Buffer) -> int:
    """From one slot to the next; register planes are counted, they have no addresses."""
    if buffer.space in ("planes", "results"):
        return 1
    return math.prod(buffer.shape) * size_bytes(buffer.dtype)


def _coefficients(affine: Affine, variables: list[str]) -> list[int]:
    terms = dict(affine.terms)
    return [terms.get(name, 0) for name in variables]
