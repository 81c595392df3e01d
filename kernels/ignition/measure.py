"""How long a candidate takes: legality, a lower bound, and only if that leaves hope, the event simulation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from presil.simulators.chip import runner, settled_ticks
from presil.simulators.compiled import NO_LIMIT, Code, CompiledProgram, Issue, compile_program
from presil.simulators.engine import Engine, StreamState
from presil.simulators.errors import Unsupported
from presil.simulators.family import family
from presil.simulators.legality import check_legality
from presil.simulators.machine import Machine
from presil.simulators.program import Program
from presil.simulators.steady import SteadyState

from ..emitters import emitter
from ..operators import operator
from ..operators.operator import Workload
from .candidates import Evaluator, Measured

MAX_INSTRUCTIONS = 2_000_000  # stepped through; a good schedule takes hundreds, since steady state is jumped over
_LOOK = 8  # back edges between two looks at the ceiling


def measure(program: Program, machine: Machine, ceiling: int | None = None) -> Measured:
    """Ticks of a program, as `simulate` in its `skip` mode gives them, without its statistics.

    Given up as soon as it is sure to take more than `ceiling` ticks.
    Raises BadInput, Unsupported or Undefined for a program that is not legal or does not end.
    """
    check_legality(program, machine)
    phases = [compile_program(phase, machine) for phase in program.phases]
    bounds = [busy_ticks(phase) for phase in phases]
    if ceiling is not None and sum(bounds) > ceiling:
        return Measured(sum(bounds), "pruned")
    ticks = 0
    for number, phase in enumerate(phases):
        others = ticks + sum(bounds[number + 1 :])
        try:
            ticks += _measure_phase(phase, machine, None if ceiling is None else ceiling - others)
        except _TooSlow as slow:
            return Measured(slow.bound + others, "stopped")
    return Measured(ticks)


def _measure_phase(compiled: CompiledProgram, machine: Machine, ceiling: int | None) -> int:
    """Its ticks. Raises _TooSlow."""

    def watch(engine: Engine) -> None:
        if ceiling is not None and engine.steady is not None:
            engine.steady = _Watch(engine, engine.steady, ceiling)

    return settled_ticks(compiled, machine, runner(MAX_INSTRUCTIONS, watch))


class _TooSlow(Exception):  # no error: it ends a simulation
    """The simulation will take at least `bound` ticks."""

    def __init__(self, bound: int) -> None:
        super().__init__(bound)
        self.bound = bound


class _Watch(SteadyState):
    """Looks, at back edges, whether the busiest engine can still be done in time: what it has to do is known."""

    def __init__(self, engine: Engine, steady: SteadyState, ceiling: int) -> None:
        self.__dict__.update(steady.__dict__)
        self._ceiling, self._visits = ceiling, 0
        prices: dict[int, list[tuple[int, int, int]]] = {}
        program = engine.program
        each = -(-program.instances // program.cores)  # one kind, or one instance
        for step, times in ((step, each * times) for step, times in _issues(program.codes)):
            prices.setdefault(step.engine, []).append((step.number, step.occupancy, times))
        self._watched = max(prices, key=lambda e: sum(ticks * times for _, ticks, times in prices[e]))
        self._total = sum(ticks * times for _, ticks, times in prices[self._watched])
        self._prices = [(number, ticks) for number, ticks, _ in prices[self._watched]]

    def visit(self, stream: StreamState) -> None:
        """As the steady state does. Raises _TooSlow where the ceiling cannot be kept."""
        super().visit(stream)
        self._visits += 1
        if self._visits % _LOOK == 0:
            bound = self._bound()
            if bound > self._ceiling:
                raise _TooSlow(bound)

    def _bound(self) -> int:
        """The watched engine can begin what it has not begun when it is free, and not before now."""
        engine = self.engine
        left = self._total - sum([engine.issued[number] * ticks for number, ticks in self._prices])
        free = engine.engine_free[self._watched]
        for stream in engine.streams:  # reserved, but not begun: it is in `free` and in `left`
            if stream.resume_at >= 0 and stream.blocked_on == -1 and stream.core == 0:
                step = stream.text.steps[stream.pc]
                if isinstance(step, Issue) and step.engine == self._watched:
                    free -= step.occupancy
        return max(free, int(engine.env.now) if left else 0) + engine.skipped_ticks + left


def busy_ticks(compiled: CompiledProgram) -> int:
    """A lower bound: what the busiest engine of a core, or the busiest link of all cores, must do in all."""
    engines: dict[int, int] = {}
    links: dict[int, int] = {}
    for codes, count in zip(compiled.kinds, _counts(compiled), strict=True):
        for step, times in _issues(codes):
            engines[step.engine] = engines.get(step.engine, 0) + count * times * step.occupancy
            for link, ticks in step.links:
                links[link] = links.get(link, 0) + count * times * ticks
    # Of alike instances one core takes the rounded number; of others none knows which takes what.
    share = compiled.instances if len(compiled.kinds) > 1 else -(-compiled.instances // compiled.cores)
    cores = compiled.cores if len(compiled.kinds) > 1 else 1
    parts, whole = list(engines.values()), list(links.values())
    if compiled.place != "static":  # each core has its share of the links
        parts, whole = parts + whole, []
    return max([*(ticks * share // compiled.instances // cores for ticks in parts), *whole], default=0)


def _counts(compiled: CompiledProgram) -> list[int]:
    """Instances of each kind."""
    if not compiled.kind_of:
        return [compiled.instances]
    return [compiled.kind_of.count(kind) for kind in range(len(compiled.kinds))]


def _issues(codes: Sequence[Code]) -> Iterator[tuple[Issue, int]]:
    """Every instruction of the text, and how often an instance executes it."""
    for code in codes:
        for step, trips in zip(code.steps, code.open_trips, strict=False):
            if isinstance(step, Issue):
                yield step, math.prod(n for n in trips if n != NO_LIMIT)


def evaluator_for(workload: Workload, machine: Machine) -> Evaluator:
    """What evaluates schedules of `workload` on `machine`.

    Raises Unsupported where no emitter is built for them, or where the tensors do not fit the machine's memories.
    """
    found = emitter(workload.operator, machine.family)
    _check_room(workload, machine)
    return Evaluator(found, workload, machine, found.space(workload, machine), measure)


def _check_room(workload: Workload, machine: Machine) -> None:
    """No schedule helps where the tensors are larger than the memory they lie in."""
    place = family(machine.family).tensor_memory
    taken: dict[str, int] = {}
    for tensor in operator(workload.operator).tensors(workload):
        memory = place(tensor.role, machine)
        taken[memory] = taken.get(memory, 0) + tensor.size_bytes
    for memory, size in taken.items():
        if size > machine.memories[memory].capacity:
            room = machine.memories[memory].capacity
            raise Unsupported(f"{workload}: {size:,} bytes of tensors in {memory}; {machine.name} has {room:,}")
