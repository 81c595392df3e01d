"""The program form: what a kernel engineer would write by hand for one machine.

A program is a set of streams (sequencers of one core that run side by side) over tensors in off-chip
memories and buffers in on-chip spaces. Order across streams comes from counting semaphores alone.
Everything here is frozen data: it prints, compares and hashes. `assembly.py` gives its text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

Role = Literal["in", "out", "const"]
Place = Literal["static", "dispatch", "persistent"]


@dataclass(frozen=True, slots=True)
class Affine:
    """`base + sum(coefficient * variable)` over loop and grid variables.

    `terms` is sorted by variable and holds no zero coefficient, so that equal expressions compare equal.
    """

    base: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def var(name: str, coefficient: int = 1) -> Affine:
        """`coefficient * name`."""
        return Affine(0, ((name, coefficient),) if coefficient else ())

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.base + other, self.terms) if other else self
        if not other.terms:
            return self + other.base
        if not self.terms:
            return other + self.base
        sums = dict(self.terms)
        for name, coefficient in other.terms:
            sums[name] = sums.get(name, 0) + coefficient
        return Affine(self.base + other.base, tuple(sorted((n, c) for n, c in sums.items() if c)))

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return Affine()
        if factor == 1:
            return self
        return Affine(self.base * factor, tuple((name, c * factor) for name, c in self.terms))

    def at(self, values: Mapping[str, int]) -> int:
        """The value where each variable has the value `values` gives it. Raises KeyError for an unbound one."""
        return self.base + sum(c * values[name] for name, c in self.terms)


@dataclass(frozen=True, slots=True)
class Dim:
    """One dimension of a region: `size` indices from `start`, `step` apart."""

    start: Affine
    size: int
    step: int = 1


@dataclass(frozen=True, slots=True)
class Region:
    """A strided box of a tensor, or of one slot of a buffer.

    `slot` is None for a tensor; for a buffer it counts tiles, and the ring slot is `slot mod slots`.
    Empty `dims` means the whole tensor or the whole tile.
    """

    name: str
    slot: Affine | None = None
    dims: tuple[Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """`n` units of a semaphore: taken by a wait, given by a signal.

    `core` names the core whose semaphore is meant (None: the own one), for families whose cores signal each other.
    """

    semaphore: str
    n: int = 1
    core: Affine | None = None


Attribute = int | float | str | Affine


@dataclass(frozen=True, slots=True)
class Instruction:
    """`op` on `operands` (destination first). Waits are taken before it starts, signals given when it completes.

    Attributes are sorted by name. One that holds no variable is a plain int, never an Affine without terms.
    """

    op: str
    operands: tuple[Region, ...] = ()
    attributes: tuple[tuple[str, Attribute], ...] = ()
    waits: tuple[Count, ...] = ()
    signals: tuple[Count, ...] = ()

    def attribute(self, name: str, default: Attribute | None = None) -> Attribute | None:
        """The attribute `name`, or `default`."""
        return dict(self.attributes).get(name, default)


@dataclass(frozen=True, slots=True)
class Loop:
    """`trips` times `body`, with `var` counting from 0. A nest never names one variable twice.

    `terms` are (grid variable, coefficient): an instance makes as many trips more, and where that is none, none.
    """

    var: str
    trips: int
    body: tuple[Node, ...]
    terms: tuple[tuple[str, int], ...] = ()


Node = Instruction | Loop


@dataclass(frozen=True, slots=True)
class Stream:
    """One in-order sequencer. `unit` picks the engine where a core has several of a kind (arrays, DMA channels)."""

    name: str
    body: tuple[Node, ...]
    unit: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """A row-major array in the off-chip memory `memory`. `const` is an input that does not change between runs."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: Role
    memory: str


@dataclass(frozen=True, slots=True)
class Buffer:
    """`slots` row-major tiles of `shape`, one behind the other, from byte `offset` of the on-chip `space` of a core."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    slots: int
    space: str
    offset: int


@dataclass(frozen=True, slots=True)
class Semaphore:
    """A counter per core that starts at `initial`."""

    name: str
    initial: int = 0


@dataclass(frozen=True, slots=True)
class Program:
    """A whole program. `grid` lists (variable, size); each point is an instance of all streams.

    `place` says that instance i (row-major) runs on core i (`static`); that cores take instances as they fall free,
    into as many slots as fit on one (`dispatch`); or that core c of n runs instances c, c + n, c + 2n, ..., each stream
    going on to its next without waiting for the others (`persistent`).

    The program `before`, with what is before that, runs first and to its end. They share tensors by name: what one
    stores as `out`, a later one may read as `in`.
    """

    name: str
    machine: str
    workload: str
    tensors: tuple[Tensor, ...]
    buffers: tuple[Buffer, ...]
    semaphores: tuple[Semaphore, ...]
    streams: tuple[Stream, ...]
    grid: tuple[tuple[str, int], ...] = ()
    place: Place = "static"
    before: Program | None = None

    @property
    def phases(self) -> tuple[Program, ...]:
        """All that runs, in order; the last is the program itself."""
        return (*(self.before.phases if self.before else ()), self)

    @property
    def scratch(self) -> frozenset[str]:
        """The tensors that one phase stores for a later one."""
        tensors = [t for phase in self.phases for t in phase.tensors]
        stored = {t.name for t in tensors if t.role == "out"}
        return frozenset(t.name for t in tensors if t.role == "in" and t.name in stored)

    def tensor(self, name: str) -> Tensor | None:
        """The tensor of that name, or None."""
        return next((t for t in self.tensors if t.name == name), None)

    def buffer(self, name: str) -> Buffer | None:
        """The buffer of that name, or None."""
        return next((b for b in self.buffers if b.name == name), None)

    @property
    def instances(self) -> int:
        """How many times the streams are instantiated."""
        return math.prod(size for _, size in self.grid)


def instructions(nodes: tuple[Node, ...]) -> Iterator[tuple[Instruction, int]]:
    """Every instruction of the text below `nodes`, in order, with how often it is executed."""
    for node in nodes:
        if isinstance(node, Loop):
            for instruction, times in instructions(node.body):
                yield instruction, times * node.trips
        else:
            yield node, 1


def executed(nodes: tuple[Node, ...], values: dict[str, int]) -> Iterator[tuple[Instruction, dict[str, int]]]:
    """Every executed instruction below `nodes`, in program order, with the values of the variables around it.

    `values` is updated in place and yielded again: copy it to keep it.
    """
    for node in nodes:
        if isinstance(node, Loop):
            for i in range(node.trips):
                values[node.var] = i
                yield from executed(node.body, values)
            values.pop(node.var, None)
        else:
            yield node, values
