"""A program with every name resolved for one machine: integers in the hot loop, errors before it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from .errors import Unsupported
from .family import family
from .machine import Machine
from .program import Count, Instruction, Loop, Node, Program, instructions

ENTER, BACK = 1, 2
LoopStep = tuple[int, ...]  # (ENTER, depth) or (BACK, depth, trips, pc of the first step of the body, instructions)


@dataclass(frozen=True, slots=True, eq=False)
class Issue:
    """One instruction of the text with its price; `engine`, `waits`, `signals` and `links` are indices."""

    number: int  # its place among all instructions of the text
    instruction: Instruction
    text: str
    variables: tuple[str, ...]  # loop variables around it, outermost first
    engine: int
    occupancy: int
    latency: int
    issue: int
    waits: tuple[tuple[int, int], ...]
    signals: tuple[tuple[int, int], ...]
    links: tuple[tuple[int, int], ...]
    traffic: tuple[tuple[str, int], ...]
    multiply_adds: int


@dataclass(frozen=True, slots=True)
class Code:
    """The flat code of one stream. `depth_at[pc]` loops are open at step `pc`; `trips[d]` per step is in the steps."""

    name: str
    steps: tuple[Issue | LoopStep, ...]
    depth_at: tuple[int, ...]
    open_trips: tuple[tuple[int, ...], ...]  # at each pc: trips of the open loops, outermost first
    depth: int
    executed: int  # instructions one core issues from it

    @property
    def signalled(self) -> tuple[tuple[int, ...], ...]:
        """Semaphores signalled by each instruction."""
        return tuple(tuple(s for s, _ in step.signals) for step in self.steps if isinstance(step, Issue))


@dataclass(frozen=True)
class CompiledProgram:
    """What the engine runs: `cores` instances of `codes`."""

    name: str
    program: Program
    cores: int
    codes: tuple[Code, ...]
    issues: int  # instructions in the text
    engine_names: tuple[str, ...]
    semaphore_names: tuple[str, ...]
    initial: tuple[int, ...]
    memories: tuple[str, ...]

    @functools.cached_property
    def shared(self) -> frozenset[int]:
        """Engines that several streams use."""
        users = [{step.engine for step in code.steps if isinstance(step, Issue)} for code in self.codes]
        return frozenset(engine for used in users for engine in used if sum(engine in other for other in users) > 1)

    @functools.cached_property
    def linked(self) -> frozenset[int]:
        """Engines that use links."""
        steps = (step for code in self.codes for step in code.steps if isinstance(step, Issue))
        return frozenset(step.engine for step in steps if step.links)

    @property
    def instructions(self) -> int:
        """Instructions that all cores issue."""
        return self.cores * sum(code.executed for code in self.codes)


def compile_program(program: Program, machine: Machine) -> CompiledProgram:
    """Resolve a legal program. Raises Unsupported for more instances than cores."""
    if program.place != "static":
        raise Unsupported(f"{machine.name} has no dispatcher: place must be static")
    if program.instances > machine.cores:
        raise Unsupported(f"the grid has {program.instances} instances, but {machine.name} has {machine.cores} cores")
    members = family(machine.family)
    engines = tuple(members.engines(machine))
    names = tuple(s.name for s in program.semaphores)
    index = _Index({n: i for i, n in enumerate(engines)}, {n: i for i, n in enumerate(names)}, tuple(machine.memories))
    codes: list[Code] = []
    issues = 0
    for stream in program.streams:
        flattener = _Flattener(program, machine, index, stream.unit, issues)
        codes.append(flattener.flatten(stream.name, stream.body))
        issues = flattener.next_number
    initial = tuple(s.initial for s in program.semaphores)
    return CompiledProgram(
        program.name, program, program.instances, tuple(codes), issues, engines, names, initial, tuple(machine.memories)
    )


@dataclass(frozen=True, slots=True)
class _Index:
    engines: dict[str, int]
    semaphores: dict[str, int]
    memories: tuple[str, ...]

    def counts(self, counts: tuple[Count, ...]) -> tuple[tuple[int, int], ...]:
        if any(c.core is not None for c in counts):
            raise Unsupported("signals to other cores are not built for this family")
        return tuple((self.semaphores[c.semaphore], c.n) for c in counts)


class _Flattener:
    """Turns the tree of one stream into steps."""

    def __init__(self, program: Program, machine: Machine, index: _Index, unit: int, first: int) -> None:
        self.next_number = first
        self.program, self.machine, self.index, self.unit = program, machine, index, unit
        self.price = family(machine.family).cost
        self.steps: list[Issue | LoopStep] = []
        self.open: list[tuple[int, ...]] = []
        self.variables: list[str] = []
        self.trips: list[int] = []
        self.deepest = 0

    def flatten(self, name: str, body: tuple[Node, ...]) -> Code:
        self._nodes(body)
        total = sum(times for _, times in instructions(body))
        depth_at = (*(len(t) for t in self.open), 0)
        return Code(name, tuple(self.steps), depth_at, (*self.open, ()), self.deepest, total)

    def _add(self, step: Issue | LoopStep) -> None:
        self.steps.append(step)
        self.open.append(tuple(self.trips))

    def _nodes(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            if isinstance(node, Instruction):
                self._add(self._issue(node))
                continue
            self._add((ENTER, len(self.trips)))
            self._loop(node)

    def _loop(self, loop: Loop) -> None:
        depth, target = len(self.trips), len(self.steps)
        self.trips.append(loop.trips)
        self.variables.append(loop.var)
        self.deepest = max(self.deepest, len(self.trips))
        self._nodes(loop.body)
        executed = loop.trips * sum(times for _, times in instructions(loop.body))
        self._add((BACK, depth, loop.trips, target, executed))
        self.trips.pop()
        self.variables.pop()

    def _issue(self, node: Instruction) -> Issue:
        cost = self.price(node, self.unit, self.program, self.machine)
        self.next_number += 1
        return Issue(
            self.next_number - 1,
            node,
            f"{node.op} {', '.join(r.name for r in node.operands)}".rstrip(),
            tuple(self.variables),
            self.index.engines[cost.engine],
            cost.occupancy,
            cost.latency,
            cost.issue,
            self.index.counts(node.waits),
            self.index.counts(node.signals),
            tuple((self.index.memories.index(m), ticks) for m, ticks in cost.links),
            cost.traffic,
            cost.multiply_adds,
        )
