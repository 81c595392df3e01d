"""How long a candidate takes: legality, a lower bound, and only if that leaves hope, the event simulation."""

from __future__ import annotations

import math

from presil.simulators.compiled import CompiledProgram, Issue, compile_program
from presil.simulators.engine import Engine
from presil.simulators.legality import check_legality
from presil.simulators.machine import Machine
from presil.simulators.program import Program

from ..emitters import emitter
from ..operators.operator import Workload
from .candidates import Evaluator, Measured

MAX_INSTRUCTIONS = 2_000_000  # stepped through; a good schedule takes hundreds, since steady state is jumped over


def measure(program: Program, machine: Machine, ceiling: int | None = None) -> Measured:
    """Ticks of a program, as `simulate` in its `skip` mode gives them, without its statistics.

    Pruned if its own engines or links alone keep it busy for more than `ceiling` ticks.
    Raises BadInput, Unsupported or Undefined for a program that is not legal or does not end.
    """
    check_legality(program, machine)
    compiled = compile_program(program, machine)
    if ceiling is not None and (bound := busy_ticks(compiled)) > ceiling:
        return Measured(bound, pruned=True)
    return Measured(Engine(compiled, skip=True, max_instructions=MAX_INSTRUCTIONS).run())


def busy_ticks(compiled: CompiledProgram) -> int:
    """A lower bound: what the busiest engine of a core, or the busiest link of all cores, must do in all."""
    engines: dict[int, int] = {}
    links: dict[int, int] = {}
    for code in compiled.codes:
        for step, trips in zip(code.steps, code.open_trips, strict=False):
            if isinstance(step, Issue):
                times = math.prod(trips)
                engines[step.engine] = engines.get(step.engine, 0) + times * step.occupancy
                for link, ticks in step.links:
                    links[link] = links.get(link, 0) + times * ticks * compiled.cores
    return max([*engines.values(), *links.values()], default=0)


def evaluator_for(workload: Workload, machine: Machine) -> Evaluator:
    """What evaluates schedules of `workload` on `machine`. Raises Unsupported where no emitter is built for them."""
    found = emitter(workload.operator, machine.family)
    return Evaluator(found, workload, machine, found.space(workload, machine), measure)
