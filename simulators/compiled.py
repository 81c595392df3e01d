"""A program with every name resolved for one machine: integers in the hot loop, errors before it."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .errors import Unsupported
from .family import family
from .kinds import is_closed, kinds
from .machine import Machine
from .program import Count, Instruction, Loop, Node, Place, Program, instructions

ENTER, BACK, NEXT = 1, 2, 3
# (ENTER, depth), (BACK, depth, trips, pc of the first step of the body, instructions), or (NEXT,): an instance ends
LoopStep = tuple[int, ...]
# What a stream sleeps for beside a semaphore: those ahead of it at its engine; the engine itself; the next instance.
IN_LINE, FIRST_IN_LINE, PARKED = -2, -3, -4
INSTANCE = "#"  # the variable of the loop over instances that goes around the code of one that is dispatched
NO_LIMIT = 1 << 62


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
    operations: int


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
    """What the engine runs: `instances` of `kinds` of codes on `cores`.

    `kind_of` names the kind of each instance (row-major); empty where there is one kind. Times are in ticks: `launch`
    until the first instance starts, `between` from a free slot to its next instance.
    """

    name: str
    program: Program
    cores: int
    kinds: tuple[tuple[Code, ...], ...]
    issues: int  # instructions in the text, of all kinds
    engine_names: tuple[str, ...]
    semaphore_names: tuple[str, ...]
    initial: tuple[int, ...]
    memories: tuple[str, ...]
    place: Place = "static"
    instances: int = 1
    slots: int = 1  # of each core
    kind_of: tuple[int, ...] = ()
    launch: int = 0
    between: int = 0

    @property
    def codes(self) -> tuple[Code, ...]:
        """The codes of the first kind; of all instances, where they are alike."""
        return self.kinds[0]

    def kind(self, instance: int) -> int:
        """The kind of an instance."""
        return self.kind_of[instance] if self.kind_of else 0

    @property
    def all_codes(self) -> Sequence[Code]:
        """The codes of all kinds."""
        return [code for codes in self.kinds for code in codes]

    @functools.cached_property
    def every_issue(self) -> tuple[Issue, ...]:
        """Every instruction of the text once, by number."""
        steps = (step for code in self.all_codes for step in code.steps)
        return tuple({step.number: step for step in steps if isinstance(step, Issue)}.values())

    @functools.cached_property
    def counts(self) -> Counter[int]:
        """How often all instances together issue each instruction, by number."""
        found: Counter[int] = Counter()
        of_kind = Counter(self.kind_of) or Counter({0: self.instances})
        for kind, codes in enumerate(self.kinds):
            for code in codes:
                for step, trips in zip(code.steps, code.open_trips, strict=False):
                    if isinstance(step, Issue):
                        found[step.number] += of_kind[kind] * math.prod(n for n in trips if n != NO_LIMIT)
        return found

    @functools.cached_property
    def shared(self) -> frozenset[int]:
        """Engines that several streams use."""
        if self.slots > 1:
            return frozenset(range(len(self.engine_names)))
        users = [{step.engine for step in code.steps if isinstance(step, Issue)} for code in self.codes]
        return frozenset(engine for used in users for engine in used if sum(engine in other for other in users) > 1)

    @functools.cached_property
    def linked(self) -> frozenset[int]:
        """Engines that use links."""
        steps = (step for code in self.all_codes for step in code.steps if isinstance(step, Issue))
        return frozenset(step.engine for step in steps if step.links)

    @property
    def instructions(self) -> int:
        """Instructions that all instances issue."""
        each = [sum(code.executed for code in codes) for codes in self.kinds]
        return sum(each[kind] for kind in self.kind_of) if self.kind_of else self.instances * each[0]


def compile_program(program: Program, machine: Machine) -> CompiledProgram:
    """Resolve a legal program. Raises Unsupported where it asks for a dispatcher that the machine does not have."""
    members = family(machine.family)
    static = program.place == "static"
    if static and program.instances > machine.cores:
        raise Unsupported(f"the grid has {program.instances} instances, but {machine.name} has {machine.cores} cores")
    slots = 1 if static else members.slots(program, machine)
    launch, between = (0, 0) if static else members.launch_ticks(program, machine)
    engines = tuple(members.engines(machine))
    names = tuple(s.name for s in program.semaphores)
    index = _Index({n: i for i, n in enumerate(engines)}, {n: i for i, n in enumerate(names)}, tuple(machine.memories))
    several = not is_closed(program)
    if several:
        program = _own_instructions(program)
    alike = kinds(program)
    made = _Made(program, machine, index, several)
    found = tuple(
        tuple(_Flattener(made, stream.unit).flatten(stream.name, stream.body) for stream in kind.program.streams)
        for kind in alike
    )
    kind_of = [0] * program.instances if len(alike) > 1 else []
    for number, kind in enumerate(alike if kind_of else ()):
        for instance in kind.instances:
            kind_of[instance] = number
    return CompiledProgram(
        name=program.name,
        program=program,
        cores=program.instances if static else min(program.instances, machine.cores),
        kinds=found,
        issues=made.count,
        engine_names=engines,
        semaphore_names=names,
        initial=tuple(s.initial for s in program.semaphores),
        memories=tuple(machine.memories),
        place=program.place,
        instances=program.instances,
        slots=slots,
        kind_of=tuple(kind_of),
        launch=launch,
        between=between,
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


def _own_instructions(program: Program) -> Program:
    """The same program, in which no instruction object stands in two places."""

    def own(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(replace(n, body=own(n.body)) if isinstance(n, Loop) else replace(n) for n in nodes)

    return replace(program, streams=tuple(replace(s, body=own(s.body)) for s in program.streams))


class _Made:
    """The issues of a program. Those of several kinds are the same, with the same numbers and prices."""

    def __init__(self, program: Program, machine: Machine, index: _Index, several: bool) -> None:
        self.program, self.machine, self.index, self.several = program, machine, index, several
        self.price = family(machine.family).cost
        self.known: dict[int, Issue] = {}  # by the identity of the instruction
        self.count = 0

    def issue(self, node: Instruction, unit: int, variables: tuple[str, ...]) -> Issue:
        """The issue of an instruction inside loops over `variables`."""
        if self.several and id(node) in self.known:
            return self.known[id(node)]
        cost = self.price(node, unit, self.program, self.machine)
        self.count += 1
        made = Issue(
            self.count - 1,
            node,
            f"{node.op} {', '.join(r.name for r in node.operands)}".rstrip(),
            variables,
            self.index.engines[cost.engine],
            cost.occupancy,
            cost.latency,
            cost.issue,
            self.index.counts(node.waits),
            self.index.counts(node.signals),
            tuple((self.index.memories.index(m), ticks) for m, ticks in cost.links),
            cost.traffic,
            cost.multiply_adds,
            cost.operations,
        )
        self.known[id(node)] = made
        return made


class _Flattener:
    """Turns the tree of one stream into steps."""

    def __init__(self, made: _Made, unit: int) -> None:
        self.made, self.unit = made, unit
        self.steps: list[Issue | LoopStep] = []
        self.open: list[tuple[int, ...]] = []
        self.variables: list[str] = []
        self.trips: list[int] = []
        self.deepest = 0

    def flatten(self, name: str, body: tuple[Node, ...]) -> Code:
        if self.made.program.place == "static":
            self._nodes(body)
        else:
            self.trips.append(NO_LIMIT)
            self.variables.append(INSTANCE)
            self.deepest = 1
            self._nodes(body)
            self._add((NEXT,))
            self.trips.pop()
        total = sum(times for _, times in instructions(body))
        depth_at = (*(len(t) for t in self.open), 0)
        return Code(name, tuple(self.steps), depth_at, (*self.open, ()), self.deepest, total)

    def _add(self, step: Issue | LoopStep) -> None:
        self.steps.append(step)
        self.open.append(tuple(self.trips))

    def _nodes(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            if isinstance(node, Instruction):
                self._add(self.made.issue(node, self.unit, tuple(self.variables)))
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
