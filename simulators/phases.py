"""Programs of several phases: what one stores the next may read, and each begins when the one before has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .errors import BadInput, Undefined
from .formats import DTYPES
from .program import Program, Tensor
from .timing import EngineTime, Execution, Timing

Arrays = Mapping[str, np.ndarray]
# Runs one phase on its inputs, up to so many instructions: what came of it, and whether it ran to its end.
RunPhase = Callable[[Program, Arrays, int | None], tuple[Execution, bool]]


def check_phases(program: Program) -> None:
    """Raises BadInput where phases do not fit together."""
    tensors: dict[str, Tensor] = {}
    for number, phase in enumerate(program.phases, 1):
        where = f"phase {number} ({phase.name})"
        if (phase.machine, phase.workload) != (program.machine, program.workload):
            raise BadInput(
                f"{where} is for {phase.workload} on {phase.machine}; the last is for "
                f"{program.workload} on {program.machine}"
            )
        for tensor in phase.tensors:
            _check_again(tensor, tensors.get(tensor.name), where)
            tensors[tensor.name] = tensor


def _check_again(tensor: Tensor, earlier: Tensor | None, where: str) -> None:
    """A tensor is the same in every phase: stored in none, or first stored and then only read."""
    if earlier is None:
        return
    for what in ("dtype", "shape", "memory"):
        found, before = getattr(tensor, what), getattr(earlier, what)
        if found != before:
            raise BadInput(f"{where}: {what} of tensor {tensor.name} is {found}; in an earlier phase it is {before}")
    if (earlier.role, tensor.role) not in (("in", "in"), ("const", "const"), ("out", "out"), ("out", "in")):
        raise BadInput(f"{where}: tensor {tensor.name} is {tensor.role}; in an earlier phase it is {earlier.role}")


@dataclass(slots=True)
class _Data:
    """What has been computed so far."""

    arrays: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray] = field(default_factory=dict)
    stored: dict[str, np.ndarray] = field(default_factory=dict)
    stored_bytes: Counter[str] = field(default_factory=Counter)

    def add(self, done: Execution) -> None:
        """Phases may store parts of one output each: none of them what another has stored."""
        for name, values in done.outputs.items():
            mask, old = done.stored[name], self.outputs.get(name)
            self.outputs[name] = values if old is None else np.where(mask, values, old)
            self.stored[name] = mask | self.stored.get(name, mask)
        self.arrays.update(self.outputs)
        self.stored_bytes.update(done.stored_bytes)


def run_phases(program: Program, inputs: Arrays | None, run: RunPhase, stop_after: int | None = None) -> Execution:
    """All phases, one behind the other, and what came of them together. `inputs`: None where nothing is computed.

    Raises Undefined where a phase that ran to its end has not stored all that a later one reads, or all of them
    together not all of an output.
    """
    data, timings = _Data(dict(inputs or {})), []
    left, ended = stop_after, True
    for phase in program.phases:
        read = [t.name for t in phase.tensors if t.role != "out"]
        require_stored({name: data.stored[name] for name in read if name in data.stored})
        given = {name: data.arrays[name] for name in read if name in data.arrays}
        done, ended = run(phase, given, left)
        timings.append(done.timing)
        data.add(done)
        if left is not None:
            left -= done.timing.executed_instructions
        if not ended:
            break
    if inputs is None:
        return Execution(timing=joined(timings))
    for tensor in (t for phase in program.phases for t in phase.tensors if t.role == "out"):
        data.outputs.setdefault(tensor.name, np.zeros(tensor.shape, DTYPES[tensor.dtype]))
        data.stored.setdefault(tensor.name, np.zeros(tensor.shape, bool))
    kept = [name for name in data.outputs if name not in program.scratch]
    stored = {name: data.stored[name] for name in kept}
    if ended:
        require_stored(stored)
    return Execution(
        timing=joined(timings),
        outputs={name: data.outputs[name] for name in kept},
        stored=stored,
        stored_bytes={name: data.stored_bytes[name] for name in kept},
    )


def require_stored(stored: Mapping[str, np.ndarray]) -> None:
    """Raises Undefined for an output with an element that nothing stored."""
    for name, mask in stored.items():
        if not mask.all():
            first = np.unravel_index(int(np.argmin(mask)), mask.shape)
            detail = f"{int((~mask).sum()):,} of {mask.size:,} elements were never stored"
            raise Undefined("unstored", f"{name}{[int(i) for i in first]}", detail)


def joined(timings: Sequence[Timing]) -> Timing:
    """The time of phases that run one behind the other. Shown are the engines that all of them show."""
    first = timings[0]
    if len(timings) == 1:
        return first
    engines = {}
    for name in first.engines:
        times = [timing.engines[name] for timing in timings if name in timing.engines]
        if len(times) == len(timings):
            stalls = sum((Counter(time.stall_ticks) for time in times), Counter[str]())
            engines[name] = EngineTime(
                busy_ticks=sum(t.busy_ticks for t in times), stall_ticks=dict(sorted(stalls.items()))
            )
    slowest = [timing.kept_clock_hz for timing in timings if timing.kept_clock_hz is not None]
    return Timing(
        ticks=sum(timing.ticks for timing in timings),
        clock_hz=first.clock_hz,
        fidelity=first.fidelity,
        mode=first.mode,
        engines=engines,
        traffic_bytes={name: sum(t.traffic_bytes[name] for t in timings) for name in first.traffic_bytes},
        executed_instructions=sum(timing.executed_instructions for timing in timings),
        issued_instructions=sum(timing.issued_instructions for timing in timings),
        multiply_adds=sum(timing.multiply_adds for timing in timings),
        kept_clock_hz=min(slowest, default=None),
    )
