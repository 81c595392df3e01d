"""One call: a program on a machine, timed, and in `full` mode executed on data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .compiled import CompiledProgram, Issue, compile_program
from .engine import Engine, Observer
from .errors import ModelError, Unsupported
from .folding import Folded, fold
from .legality import check_legality
from .machine import Machine
from .memory import FunctionalMemory, check_size, require_stored
from .program import Program
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
    compiled = compile_program(program, machine)
    steps = compiled.instructions if stop_after is None else min(compiled.instructions, stop_after)
    if (mode == "full" or timeline is not None) and steps > max_instructions:
        raise Unsupported(
            f"{program.name} issues {steps:,} instructions; at most {max_instructions:,} are executed one by one"
        )
    memory = None
    observers: list[Observer] = []
    if mode == "full":
        check_size(program, machine)
        memory = FunctionalMemory(
            compiled, machine, inputs if inputs is not None else random_inputs(program), poison_seed
        )
        observers.append(memory)
    if timeline is not None:
        observers.append(_TimelineObserver(timeline, compiled))
    skip = mode == "skip" and timeline is None
    folded = fold(compiled) if skip else Folded(compiled, ())
    engine = Engine(
        folded.program,
        skip=skip,
        observers=tuple(observers),
        max_instructions=max_instructions,
        stop_after=stop_after,
    )
    ticks = engine.run()
    folded.unfold(engine)
    timing = _timing(engine, compiled, machine, ticks, mode)
    if memory is None:
        return Execution(timing=timing)
    outputs, stored = memory.outputs()
    if engine.executed == compiled.instructions:
        require_stored(stored)
    return Execution(timing=timing, outputs=outputs, stored=stored, stored_bytes=memory.stored_bytes)


def random_inputs(program: Program, seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays for every input tensor: small integers, exact in every format."""
    from .formats import DTYPES

    noise = np.random.Generator(np.random.PCG64(seed))
    return {t.name: noise.integers(-8, 8, t.shape).astype(DTYPES[t.dtype]) for t in program.tensors if t.role != "out"}


def _timing(engine: Engine, compiled: CompiledProgram, machine: Machine, ticks: int, mode: Mode) -> Timing:
    """What an engine counted, as a Timing. Every engine's busy and stall ticks add up to the whole."""
    names, issues = compiled.engine_names, [i for code in compiled.codes for i in code.steps if isinstance(i, Issue)]
    busy = [0] * (compiled.cores * len(names))
    traffic = dict.fromkeys(compiled.memories, 0)
    multiply_adds = 0
    for core in range(compiled.cores):
        for issue in issues:
            times = engine.issued[core * compiled.issues + issue.number]
            busy[core * len(names) + issue.engine] += times * issue.occupancy
            multiply_adds += times * issue.multiply_adds
            for memory, moved in issue.traffic:
                traffic[memory] += times * moved
    engines = {}
    for index, reserved in enumerate(busy):
        taken = reserved
        core, name = index // len(names), names[index % len(names)]
        stalls = {reason: t for (e, reason), t in sorted(engine.stalls.items()) if e == index}
        rest = ticks - taken - sum(stalls.values())
        if rest < 0 and engine.executed == engine.stop_after:
            taken += rest  # what it was taken for, but has not done yet
        elif rest < 0:
            raise ModelError(f"engine {name} of core {core} accounts for {-rest} ticks too many")
        if rest > 0:
            stalls["done"] = rest
        key = f"core{core}.{name}" if compiled.cores > 1 else name
        engines[key] = EngineTime(busy_ticks=taken, stall_ticks=stalls)
    return Timing(
        ticks=ticks,
        clock_hz=machine.clock_hz,
        fidelity="event",
        mode=mode,
        engines=engines,
        traffic_bytes=traffic,
        executed_instructions=engine.executed,
        issued_instructions=sum(engine.issued),
        multiply_adds=multiply_adds,
    )


class _TimelineObserver:
    """Writes what the engine does into a timeline."""

    def __init__(self, timeline: Timeline, compiled: CompiledProgram) -> None:
        self.timeline, self.compiled = timeline, compiled

    def start(self, core: int, stream: int, issue: Issue, counters: list[int], now: int) -> None:
        """Record the slice in which the engine is taken."""
        where = ", ".join(f"{v}={c}" for v, c in zip(issue.variables, counters, strict=False))
        engine = self.compiled.engine_names[issue.engine]
        self.timeline.record(
            core, engine, issue.instruction.op, now, now + issue.occupancy, self.compiled.codes[stream].name, where
        )

    def complete(self, core: int, issue: Issue, started: object) -> None:
        """Nothing: results are not shown."""
