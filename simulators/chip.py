"""Times a program on the whole chip at the cost of a few cores.

Where a grid is dispatched and nothing but the dispatcher joins the cores, cores that take as many instances are alike:
of n alike instances on c cores, n mod c cores take one more than the others, and all instances of one round start at
the same tick. So one core of each sort is simulated. Instances of several kinds that have a core to themselves take
their time whatever runs beside them: each kind is simulated once, and the dispatcher's choices follow from the times.
Everything else is simulated whole.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from .compiled import CompiledProgram, Issue, compile_program
from .engine import Engine
from .family import family
from .folding import fold
from .machine import Machine

Watch = Callable[[Engine], None]


@dataclass(frozen=True, slots=True)
class Part:
    """A simulation of `program` that stands for `times` like it: cores, or instances of a kind.

    `first` is the first core it shows.
    """

    program: CompiledProgram
    engine: Engine
    times: int
    first: int


@dataclass(frozen=True, slots=True)
class ChipRun:
    """Ticks of the whole program, and the simulations they come from. `whole`: the parts show cores from end to end."""

    ticks: int
    parts: tuple[Part, ...]
    whole: bool = True


def run_chip(compiled: CompiledProgram, *, max_instructions: int, watch: Watch | None = None) -> ChipRun:
    """Time `compiled` with jumps over steady state. `watch` is shown each engine before it runs, and may end it.

    Raises Undefined as `Engine.run` does.
    """

    def run(program: CompiledProgram) -> tuple[Engine, int]:
        folded = fold(program) if program.place == "static" else None
        engine = Engine(folded.program if folded else program, skip=True, max_instructions=max_instructions)
        if watch is not None:
            watch(engine)
        ticks = engine.run()
        if folded is not None:
            folded.unfold(engine)
        return engine, ticks

    if compiled.place == "static":
        engine, ticks = run(compiled)
        return ChipRun(ticks, (Part(compiled, engine, 1, 0),))
    if len(compiled.kinds) == 1:
        return _alike(compiled, run)
    if compiled.place == "dispatch" and compiled.slots == 1:
        return _apart(compiled, run)
    engine, ticks = run(compiled)
    return ChipRun(ticks, (Part(compiled, engine, 1, 0),))


Run = Callable[[CompiledProgram], tuple[Engine, int]]


def _alike(compiled: CompiledProgram, run: Run) -> ChipRun:
    """All instances are alike: a core that takes one more than the others, and one of the others."""
    each, more = divmod(compiled.instances, compiled.cores)
    parts, longest = [], 0
    for instances, cores, first in ((each + 1, more, 0), (each, compiled.cores - more, more)):
        if cores and instances:
            one = replace(compiled, cores=1, instances=instances)
            engine, ticks = run(one)
            longest = max(longest, ticks)
            parts.append(Part(one, engine, cores, first))
    return ChipRun(longest, tuple(parts))


def _apart(compiled: CompiledProgram, run: Run) -> ChipRun:
    """One instance a core at a time: each kind takes its own time."""
    counts = Counter(compiled.kind_of)
    parts, lasts = [], {}
    for kind in sorted(counts):
        alone = replace(compiled, cores=1, instances=1, kinds=(compiled.kinds[kind],), kind_of=())
        engine, ticks = run(alone)
        parts.append(Part(alone, engine, counts[kind], 0))
        lasts[kind] = ticks - compiled.launch
    free = [(compiled.launch - compiled.between, core) for core in range(compiled.cores)]
    finished = 0
    for kind in compiled.kind_of:
        at, core = heapq.heappop(free)
        end = at + compiled.between + lasts[kind]
        finished = max(finished, end)
        heapq.heappush(free, (end, core))
    return ChipRun(finished, tuple(parts), whole=False)


def counted(run: ChipRun) -> Counter[int]:
    """How often each instruction of the text was issued, by all cores."""
    found: Counter[int] = Counter()
    for part in run.parts:
        for index, times in enumerate(part.engine.issued):
            if times:
                found[index % part.program.issues] += times * part.times
    return found


def settled(
    compiled: CompiledProgram, machine: Machine, *, max_instructions: int, watch: Watch | None = None
) -> Settled:
    """Time a program, compiled for `machine`, at the clock that the chip's power allows it. Raises as the engine."""
    program = compiled.program
    found = run_chip(compiled, max_instructions=max_instructions, watch=watch)
    if compiled.place == "static":
        return Settled(compiled, found, machine)
    multiply_adds: Counter[str] = Counter()
    memory_bytes = 0
    issued = counted(found)
    for issue in issues(compiled):
        times = issued[issue.number]
        memory_bytes += times * sum(moved for _, moved in issue.traffic)
        if issue.multiply_adds:
            factors = (program.buffer(region.name) for region in issue.instruction.operands[-1:])
            multiply_adds.update({b.dtype: times * issue.multiply_adds for b in factors if b})
    seconds = machine.seconds(found.ticks)
    clock_hz = family(machine.family).sustained_clock_hz(seconds, multiply_adds, memory_bytes, machine)
    if clock_hz >= machine.clock_hz:
        return Settled(compiled, found, machine)
    slower = machine.at_clock(clock_hz)
    compiled = compile_program(program, slower)
    return Settled(compiled, run_chip(compiled, max_instructions=max_instructions, watch=watch), slower)


@dataclass(frozen=True, slots=True)
class Settled:
    """A run at the clock that was kept: `machine` is the chip at that clock."""

    compiled: CompiledProgram
    run: ChipRun
    machine: Machine

    def ticks(self, machine: Machine) -> int:
        """The time in ticks of the full clock of `machine`, rounded up."""
        return stretched(self.run.ticks, self.machine, machine)


def stretched(ticks: int, slower: Machine, machine: Machine) -> int:
    """Ticks at the clock of `slower` as ticks at that of `machine`, rounded up."""
    if slower.clock_hz == machine.clock_hz:
        return ticks
    return -(-ticks * round(machine.clock_hz) // round(slower.clock_hz))


def issues(compiled: CompiledProgram) -> list[Issue]:
    """Every instruction of the text, of all kinds."""
    return [step for code in compiled.all_codes for step in code.steps if isinstance(step, Issue)]
