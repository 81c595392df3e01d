"""Times a program on the whole chip at the cost of a few cores.

Where a grid is dispatched and nothing but the dispatcher joins the cores, cores that take as many instances are alike:
of n alike instances on c cores, n mod c cores take one more than the others, and all instances of one round start at
the same tick. So one core of each sort is simulated. Instances of several kinds that have a core to themselves take
their time whatever runs beside them (`apart.py`), and the dispatcher's choices follow from the times. Everything else
is simulated whole.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from .apart import kind_tallies
from .compiled import CompiledProgram, compile_program
from .engine import Engine
from .family import Activity, family
from .folding import fold
from .machine import Machine
from .tally import Tally, tally

Watch = Callable[[Engine], None]
Run = Callable[[CompiledProgram], Engine]


@dataclass(frozen=True, slots=True)
class Part:
    """What was counted in a simulation of `program` that stands for `times` like it: cores, or instances of a kind.

    `first` is the first core it shows.
    """

    program: CompiledProgram
    tally: Tally
    times: int
    first: int


@dataclass(frozen=True, slots=True)
class ChipRun:
    """Ticks of the whole program, and the simulations they come from. `whole`: the parts show cores from end to end."""

    ticks: int
    parts: tuple[Part, ...]
    whole: bool = True


def runner(max_instructions: int, watch: Watch | None = None) -> Run:
    """What simulates a program with jumps over steady state. `watch` is shown each engine first, and may end it."""

    def run(program: CompiledProgram) -> Engine:
        folded = fold(program) if program.place == "static" else None
        engine = Engine(folded.program if folded else program, skip=True, max_instructions=max_instructions)
        if watch is not None:
            watch(engine)
        engine.run()
        if folded is not None:
            folded.unfold(engine)
        return engine

    return run


def run_chip(compiled: CompiledProgram, run: Run) -> ChipRun:
    """Time `compiled`, with all that its cores did. Raises Undefined as `Engine.run` does."""
    if compiled.place != "static" and len(compiled.kinds) == 1:
        parts = []
        for instances, cores, first in _shares(compiled):
            one = replace(compiled, cores=1, instances=instances)
            parts.append(Part(one, tally(run(one)), cores, first))
        return ChipRun(max(part.tally.ticks for part in parts), tuple(parts))
    if _are_apart(compiled):
        tallies = kind_tallies(compiled, run)
        counts = Counter(compiled.kind_of)
        alone = [replace(compiled, kinds=(codes,), kind_of=(), cores=1, instances=1) for codes in compiled.kinds]
        apart = tuple(Part(alone[kind], found, counts[kind], 0) for kind, found in tallies.items())
        return ChipRun(_dispatched(compiled, tallies), apart, whole=False)
    found = tally(run(compiled))
    return ChipRun(found.ticks, (Part(compiled, found, 1, 0),))


def chip_ticks(compiled: CompiledProgram, run: Run) -> int:
    """The ticks that `run_chip` gives, for less: of alike cores only those that take longest."""
    if compiled.place != "static" and len(compiled.kinds) == 1:
        instances, _, _ = _shares(compiled)[0]
        return run(replace(compiled, cores=1, instances=instances)).ticks
    if _are_apart(compiled):
        return _dispatched(compiled, kind_tallies(compiled, run))
    return run(compiled).ticks


def _shares(compiled: CompiledProgram) -> Sequence[tuple[int, int, int]]:
    """(instances, cores that take so many, the first of them): those that take most come first."""
    each, more = divmod(compiled.instances, compiled.cores)
    return [s for s in ((each + 1, more, 0), (each, compiled.cores - more, more)) if s[0] and s[1]]


def _are_apart(compiled: CompiledProgram) -> bool:
    """Whether instances of several kinds have a core to themselves, and leave nothing to the next."""
    links = ((ticks, issue.latency) for issue in compiled.every_issue for _, ticks in issue.links)
    return (
        len(compiled.kinds) > 1
        and compiled.place == "dispatch"
        and compiled.slots == 1
        and all(ticks <= latency for ticks, latency in links)
    )


def _dispatched(compiled: CompiledProgram, tallies: Mapping[int, Tally]) -> int:
    """The end of the last instance, where each core takes the next when it is free."""
    free = [(compiled.launch - compiled.between, core) for core in range(compiled.cores)]
    finished = 0
    for kind in compiled.kind_of:
        at, core = heapq.heappop(free)
        end = at + compiled.between + tallies[kind].ticks
        finished = max(finished, end)
        heapq.heappush(free, (end, core))
    return finished


def counted(run: ChipRun) -> Counter[int]:
    """How often each instruction of the text was issued, by all cores."""
    found: Counter[int] = Counter()
    for part in run.parts:
        for index, times in enumerate(part.tally.issued):
            if times:
                found[index % part.program.issues] += times * part.times
    return found


def settled(compiled: CompiledProgram, machine: Machine, ticks: int) -> tuple[CompiledProgram, Machine]:
    """The program and the chip at the clock that its power allows, if the program takes `ticks` at the full clock."""
    if compiled.place == "static":
        return compiled, machine
    program = compiled.program
    multiply_adds: Counter[str] = Counter()
    memory_bytes = operations = 0
    for issue in compiled.every_issue:
        times = compiled.counts[issue.number]
        memory_bytes += times * sum(moved for _, moved in issue.traffic)
        operations += times * issue.operations
        if issue.multiply_adds:
            factors = (program.buffer(region.name) for region in issue.instruction.operands[-1:])
            multiply_adds.update({b.dtype: times * issue.multiply_adds for b in factors if b})
    activity = Activity(machine.seconds(ticks), multiply_adds, operations, memory_bytes)
    clock_hz = family(machine.family).sustained_clock_hz(activity, machine)
    if clock_hz >= machine.clock_hz:
        return compiled, machine
    slower = machine.at_clock(clock_hz)
    return compile_program(program, slower), slower


def settled_ticks(compiled: CompiledProgram, machine: Machine, run: Run) -> int:
    """Ticks of a program, compiled for `machine`, in ticks of its full clock, at the clock that its power allows."""
    ticks = chip_ticks(compiled, run)
    kept, slower = settled(compiled, machine, ticks)
    return ticks if slower is machine else stretched(chip_ticks(kept, run), slower, machine)


def stretched(ticks: int, slower: Machine, machine: Machine) -> int:
    """Ticks at the clock of `slower` as ticks at that of `machine`, rounded up."""
    if slower.clock_hz == machine.clock_hz:
        return ticks
    return -(-ticks * round(machine.clock_hz) // round(slower.clock_hz))
