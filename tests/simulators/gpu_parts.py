"""GPUs with other figures, and short programs for them."""

from __future__ import annotations

from typing import Any

from presil.simulators.assembly import parse
from presil.simulators.family import Cost
from presil.simulators.gpu.cost import cost
from presil.simulators.legality import check_legality
from presil.simulators.machine import Machine, load_machine
from presil.simulators.program import Instruction, Program, instructions
from presil.simulators.timing import TICKS_PER_CYCLE

A100, H100 = load_machine("a100"), load_machine("h100")


def changed(machine: Machine, part: str, **figures: Any) -> Machine:
    """`machine` with other figures in one part of its description."""
    own = getattr(machine.spec, part).model_copy(update=figures)
    spec = machine.spec.model_copy(update={part: own})
    return Machine(**{**{name: getattr(machine, name) for name in Machine.model_fields}, "spec": spec})


def program(body: str, machine: Machine = H100, grid: str = "grid b=1 dispatch") -> Program:
    """A legal program: declarations and streams, in any order. Without a stream the instructions are those of one."""
    lines = [line.strip() for line in body.strip().splitlines()]
    head = [line for line in lines if line.split(" ")[0] in ("tensor", "buffer", "semaphore")]
    rest = [line for line in lines if line not in head]
    if "stream" not in body:
        rest = ["stream s {", *rest, "}"]
    body = "\n".join([*head, *rest])
    found = parse(f'program "p" on "{machine.name}"\nworkload "w"\n{grid}\n{body}\n')
    check_legality(found, machine)
    return found


def nth(found: Program, op: str, number: int = 0) -> Instruction:
    """An instruction of the text, by op."""
    return [i for s in found.streams for i, _ in instructions(s.body) if i.op == op][number]


def price(found: Program, op: str, machine: Machine = H100, number: int = 0) -> Cost:
    """What an instruction of the text costs."""
    return cost(nth(found, op, number), 0, found, machine)


def cycles(found: Cost) -> tuple[float, float]:
    """Cycles that the engine is taken for, and to the result."""
    return found.occupancy / TICKS_PER_CYCLE, found.latency / TICKS_PER_CYCLE
