"""The instructions of a text laid out over their loops: where each execution stands in its stream and in its queue.

A *queue* is one stream on one engine. All of this is closed form: places are affine in the loop counters.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from .family import family
from .machine import Machine
from .program import Affine, Instruction, Node, Program
from .rendering import render_instruction

Array = np.ndarray


@dataclass(slots=True, eq=False)
class Line:
    """One instruction of the text with the loops around it, outermost first.

    `place` and `index` have one entry per execution, in order: how many instructions the stream issued before it, and
    its number in its queue, from 1.
    """

    stream: int
    instruction: Instruction
    engine: str
    place_base: int
    index_base: int
    loops: list[tuple[str, int]] = field(default_factory=list)
    place_strides: list[int] = field(default_factory=list)
    index_strides: list[int] = field(default_factory=list)
    queue: int = 0
    place: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    index: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def spread(self, affine: Affine, grid: dict[str, int]) -> Array:
        """The value of `affine` at each execution."""
        terms = dict(affine.terms)
        base = affine.base + sum(c * grid[name] for name, c in affine.terms if name in grid)
        return _spread(base, [terms.get(var, 0) for var, _ in self.loops], self.loops)

    def extent(self, sizes: dict[str, int], affine: Affine) -> tuple[int, int]:
        """The least and the greatest value of `affine` over a grid of `sizes`. Raises KeyError for a free variable."""
        trips = {**sizes, **dict(self.loops)}
        reaches = [coefficient * (trips[name] - 1) for name, coefficient in affine.terms]
        return affine.base + sum(min(r, 0) for r in reaches), affine.base + sum(max(r, 0) for r in reaches)

    def values(self, execution: int) -> dict[str, int]:
        """The loop variables at that execution."""
        found: dict[str, int] = {}
        for var, trips in reversed(self.loops):
            execution, found[var] = divmod(execution, trips)
        return dict(reversed(found.items()))


def _spread(base: int, strides: list[int], loops: list[tuple[str, int]]) -> Array:
    values = np.array([base], np.int64)
    for stride, (_, trips) in zip(strides, loops, strict=True):
        values = (values[:, None] + stride * np.arange(trips, dtype=np.int64)).reshape(-1)
    return values


def describe(program: Program, line: Line, execution: int | None = None, grid: dict[str, int] | None = None) -> str:
    """`stream loadx: load xb{m}, ... (m=3)`."""
    bare = Instruction(line.instruction.op, line.instruction.operands, line.instruction.attributes)
    text = f"stream {program.streams[line.stream].name}: {render_instruction(bare)}"
    values = {**(grid or {}), **({} if execution is None else line.values(execution))}
    return f"{text} ({', '.join(f'{k}={v}' for k, v in values.items())})" if values else text


def counted(parts: list[tuple[Line, int]]) -> tuple[Array, Array, Array]:
    """(place, number in the queue, running total) of all counts on one semaphore, in the order of their stream."""
    if not parts:
        return (np.zeros(0, np.int64),) * 3
    place = np.concatenate([line.place for line, _ in parts])
    index = np.concatenate([line.index for line, _ in parts])
    count = np.concatenate([np.full(len(line.place), n, np.int64) for line, n in parts])
    if len(parts) > 1:
        order = np.argsort(place, kind="stable")
        place, index, count = place[order], index[order], count[order]
    return place, index, np.cumsum(count)


def issued(nodes: tuple[Node, ...]) -> int:
    """How many instructions the nodes issue."""
    return sum(1 if isinstance(n, Instruction) else max(n.trips, 0) * issued(n.body) for n in nodes)


def read_lines(program: Program, machine: Machine) -> tuple[list[Line], list[int], list[tuple[int, str]]]:
    """(lines that are executed, instructions per stream, queues as (stream, engine)) of a legal program."""
    lines: list[Line] = []
    lengths = []
    for stream in range(len(program.streams)):
        found, total = _Reader(program, machine, stream).read(program.streams[stream].body)
        lines += found
        lengths.append(total.total())
    queues = list(dict.fromkeys((line.stream, line.engine) for line in lines))
    for line in lines:
        line.queue = queues.index((line.stream, line.engine))
        line.place = _spread(line.place_base, line.place_strides, line.loops)
        line.index = _spread(line.index_base + 1, line.index_strides, line.loops)
    return lines, lengths, queues


class _Reader:
    """Reads the tree of one stream."""

    def __init__(self, program: Program, machine: Machine, stream: int) -> None:
        self.program, self.machine, self.stream = program, machine, stream
        self.cost = family(machine.family).cost
        self.engines: dict[Instruction, str] = {}

    def engine(self, instruction: Instruction) -> str:
        if instruction not in self.engines:
            unit = self.program.streams[self.stream].unit
            self.engines[instruction] = self.cost(instruction, unit, self.program, self.machine).engine
        return self.engines[instruction]

    def read(self, nodes: tuple[Node, ...]) -> tuple[list[Line], Counter[str]]:
        """(lines, instructions issued per engine)."""
        found: list[Line] = []
        total: Counter[str] = Counter()
        for node in nodes:
            if isinstance(node, Instruction):
                engine = self.engine(node)
                found.append(Line(self.stream, node, engine, total.total(), total[engine]))
                total[engine] += 1
            elif node.trips > 0:
                inner, body = self.read(node.body)
                for line in inner:
                    line.place_base += total.total()
                    line.index_base += total[line.engine]
                    line.loops.insert(0, (node.var, node.trips))
                    line.place_strides.insert(0, body.total())
                    line.index_strides.insert(0, body[line.engine])
                found += inner
                for name, n in body.items():
                    total[name] += n * node.trips
        return found, total
