"""One call: a program on a machine, timed, and in `full` mode executed on data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .chip import ChipRun, Part, chip_ticks, counted, run_chip, runner, settled, stretched
from .compiled import INSTANCE, CompiledProgram, Issue, compile_program
from .engine import Engine, Observer, StreamState
from .errors import ModelError, Unsupported
from .family import family
from .legality import check_legality
from .lookup import tables
from .machine import Machine
from .memory import FunctionalMemory, check_size, check_tensors
from .phases import run_phases
from .program import Program
from .tally import tally
from .timeline import Timeline
from .timing import EngineTime, Execution, Mode, Timing

MAX_INSTRUCTIONS = 50_000_000


def simulate(
    program: Program,
    machine: Machine,
    *,
    mode: Mode = "skip",
    inputs: Mapping[str, np.ndarray] | None = None,
    poison_seed: int = 0,
    timeline: Timeline | None = None,
    max_instructions: int = MAX_INSTRUCTIONS,
    stop_after: int | None = None,
) -> Execution:
    """Run `program` on `machine` with the event model.

    `skip` times it, jumping over steady state; `full` executes every instruction on `inputs` (drawn at random where
    None). Both give the same ticks. A `timeline` records every instruction, so nothing is jumped over.
    `stop_after` ends a run of a long program when that many instructions have started; its timing is of that part.
    Raises BadInput, Unsupported or Undefined as `check_legality` does, Undefined for a deadlock, a read of what was not
    written, or more than `max_instructions` stepped through, and Unsupported before it starts where a run of every
    instruction would be as long as that, or its data too large to hold.
    """
    check_legality(program, machine)
    if mode == "full" and inputs is None:
        for phase in program.phases:
            check_tensors(phase)
        inputs = random_inputs(program, machine=machine)

    def run(phase: Program, given: Mapping[str, np.ndarray], left: int | None) -> tuple[Execution, bool]:
        options = _Options(mode, given, poison_seed, timeline, max_instructions, left)
        return _run_phase(phase, machine, options)

    return run_phases(program, inputs if mode == "full" else None, run, stop_after)


@dataclass(frozen=True, slots=True)
class _Options:
    """What `simulate` was asked for, of one phase."""

    mode: Mode
    inputs: Mapping[str, np.ndarray]
    poison_seed: int
    timeline: Timeline | None
    max_instructions: int
    stop_after: int | None


def _run_phase(program: Program, machine: Machine, options: _Options) -> tuple[Execution, bool]:
    """What came of it, and whether it ran to its end."""
    mode, timeline, stop_after = options.mode, options.timeline, options.stop_after
    run = runner(options.max_instructions)
    compiled = compile_program(program, machine)
    kept, slower = compiled, machine
    if program.place != "static":  # the clock depends on how long the whole takes
        kept, slower = settled(compiled, machine, chip_ticks(compiled, run))
    if mode == "skip" and timeline is None and stop_after is None:
        return Execution(timing=_timing(kept, run_chip(kept, run), slower, machine, mode)), True
    compiled = kept
    steps = compiled.instructions if stop_after is None else min(compiled.instructions, stop_after)
    if (mode == "full" or timeline is not None) and steps > options.max_instructions:
        most = options.max_instructions
        raise Unsupported(f"{program.name} issues {steps:,} instructions; at most {most:,} are executed one by one")
    memory = None
    observers: list[Observer] = []
    if mode == "full":
        check_size(compiled)
        memory = FunctionalMemory(compiled, machine, options.inputs, options.poison_seed)
        observers.append(memory)
    if timeline is not None:
        observers.append(_TimelineObserver(timeline, compiled))
    engine = Engine(
        compiled,
        skip=mode == "skip" and timeline is None,
        observers=tuple(observers),
        max_instructions=options.max_instructions,
        stop_after=stop_after,
    )
    engine.run()
    whole = ChipRun(engine.ticks, (Part(compiled, tally(engine), 1, 0),))
    timing = _timing(compiled, whole, slower, machine, mode)
    if timeline is not None:
        timeline.begins_at += engine.ticks
    ended = engine.executed == compiled.instructions
    if memory is None:
        return Execution(timing=timing), ended
    outputs, stored = memory.outputs()
    return Execution(timing=timing, outputs=outputs, stored=stored, stored_bytes=memory.stored_bytes), ended


def random_inputs(program: Program, seed: int = 0, machine: Machine | None = None) -> dict[str, np.ndarray]:
    """Arrays for every input tensor: small integers, exact in every format; on a `machine`, tables name entries."""
    from .formats import DTYPES

    noise = np.random.Generator(np.random.PCG64(seed))
    wanted = {t.name: t for phase in program.phases for t in phase.tensors if t.role != "out"}
    drawn = {
        t.name: noise.integers(-8, 8, t.shape).astype(DTYPES[t.dtype])
        for t in wanted.values()
        if t.name not in program.scratch
    }
    entries = tables(program, family(machine.family).ops) if machine else {}
    return {name: array % entries[name] if name in entries else array for name, array in drawn.items()}


def _timing(compiled: CompiledProgram, run: ChipRun, slower: Machine, machine: Machine, mode: Mode) -> Timing:
    """What was counted on `slower`, the machine at its kept clock. Busy and stall ticks of an engine add up to all.

    Cores that do the same are shown once, under the number of the first; where kinds of instances were timed apart,
    `core0` stands for the mean of all.
    """
    issued = counted(run)
    traffic = dict.fromkeys(compiled.memories, 0)
    multiply_adds = 0
    for issue in compiled.every_issue:
        times = issued[issue.number]
        multiply_adds += times * issue.multiply_adds
        for memory, moved in issue.traffic:
            traffic[memory] += times * moved
    engines = _engines(compiled, run) if run.whole else _mean_engines(compiled, run)
    ticks = stretched(run.ticks, slower, machine)
    return Timing(
        ticks=ticks,
        clock_hz=machine.clock_hz,
        fidelity="event",
        mode=mode,
        engines={name: _stretched(time, ticks / run.ticks, ticks) for name, time in engines.items()},
        traffic_bytes=traffic,
        executed_instructions=sum(part.tally.executed for part in run.parts),
        issued_instructions=issued.total(),
        multiply_adds=multiply_adds,
        kept_clock_hz=slower.clock_hz if slower is not machine else None,
    )


def _engines(compiled: CompiledProgram, run: ChipRun) -> dict[str, EngineTime]:
    """The engines of every core that was simulated."""
    engines = {}
    for part in run.parts:
        names = part.program.engine_names
        for index, reserved in enumerate(_busy(part)):
            taken = reserved
            core, name = index // len(names), names[index % len(names)]
            stalls = {reason: t for (e, reason), t in sorted(part.tally.stalls.items()) if e == index}
            rest = run.ticks - taken - sum(stalls.values())
            if rest < 0 and part.tally.ended:
                taken += rest  # what it was taken for, but has not done yet
            elif rest < 0:
                raise ModelError(f"engine {name} of core {core} accounts for {-rest} ticks too many")
            if rest > 0:
                stalls["done"] = rest
            several = compiled.cores > 1
            key = f"core{part.first + core}.{name}" if several else name
            engines[key] = EngineTime(busy_ticks=taken, stall_ticks=stalls)
    return engines


def _mean_engines(compiled: CompiledProgram, run: ChipRun) -> dict[str, EngineTime]:
    """The engines of a mean core: all instances of all kinds, over the cores."""
    names, cores = compiled.engine_names, compiled.cores
    engines = {}
    for index, name in enumerate(names):
        busy = sum(part.times * _busy(part)[index] for part in run.parts) // cores
        stalls: Counter[str] = Counter()
        for part in run.parts:
            for (e, reason), ticks in part.tally.stalls.items():
                if e == index:
                    stalls[reason] += part.times * ticks
        stalls["dispatch"] += (compiled.instances - cores) * compiled.between
        shared = {reason: ticks // cores for reason, ticks in sorted(stalls.items())}
        shared["launch"] = compiled.launch
        rest = run.ticks - busy - sum(shared.values())
        engines[f"core0.{name}"] = EngineTime(busy_ticks=busy, stall_ticks={**shared, "done": rest})
    return engines


def _busy(part: Part) -> list[int]:
    """Ticks for which each engine of each core was taken."""
    program, issued = part.program, part.tally.issued
    names = len(program.engine_names)
    busy = [0] * (program.cores * names)
    for core in range(program.cores):
        for issue in program.every_issue:
            busy[core * names + issue.engine] += issued[core * program.issues + issue.number] * issue.occupancy
    return busy


def _stretched(time: EngineTime, ratio: float, whole: int) -> EngineTime:
    """In ticks of the full clock, `whole` in all; what rounding leaves goes to `done`."""
    if ratio == 1:
        return time
    busy = int(time.busy_ticks * ratio)
    stalls = {reason: int(ticks * ratio) for reason, ticks in time.stall_ticks.items()}
    rest = whole - busy - sum(stalls.values())
    return EngineTime(busy_ticks=busy, stall_ticks={**stalls, "done": stalls.get("done", 0) + rest})


class _TimelineObserver:
    """Writes what the engine does into a timeline."""

    def __init__(self, timeline: Timeline, compiled: CompiledProgram) -> None:
        self.timeline, self.compiled = timeline, compiled

    def begin(self, slot: int, instance: int, fresh: bool) -> None:
        """Nothing: instances are told apart by their instructions."""

    def start(self, stream: StreamState, issue: Issue, now: int) -> None:
        """Record the slice in which the engine is taken."""
        counters = zip(issue.variables, stream.counters, strict=False)
        where = ", ".join(f"{v}={c}" for v, c in counters if v != INSTANCE)
        engine = self.compiled.engine_names[issue.engine]
        self.timeline.record(
            stream.core, engine, issue.instruction.op, now, now + issue.occupancy, stream.text.name, where
        )

    def complete(self, core: int, issue: Issue, started: object) -> None:
        """Nothing: results are not shown."""
