"""What every emitted program is held to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from presil.kernels.emitters import emitter
from presil.kernels.operators import Workload, operator
from presil.kernels.space import Schedule
from presil.simulators.assembly import parse, render
from presil.simulators.legality import check_legality
from presil.simulators.machine import Machine
from presil.simulators.program import Instruction, Loop, Node, Program
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate


def prove(workload: Workload, machine: Machine, schedule: Schedule, pattern: str = "random") -> Program:
    """The program of a legal schedule, once it was found legal, free of races, right, and the same again as text."""
    program = emitter(workload.operator, machine.family).lower(workload, machine, schedule)
    assert parse(render(program)) == program
    check_legality(program, machine)
    assert sanitize(program, machine) == ()
    asked = operator(workload.operator)
    inputs = asked.inputs(workload, 7, pattern)
    run = simulate(program, machine, mode="full", inputs=inputs)
    (wanted,), (bound,) = asked.reference(workload, inputs).values(), asked.error_bound(workload, inputs).values()
    error = np.abs(run.outputs["y"].astype(np.float64) - wanted.astype(np.float64))
    assert (error <= bound).all(), np.argwhere(error > bound)[0]
    assert run.timing.multiply_adds == asked.work(workload).multiply_adds  # also those on padding: none is left out
    assert run.stored_bytes["y"] == run.outputs["y"].nbytes  # each element once
    return program


def without_one_wait(program: Program) -> Iterator[tuple[str, Program]]:
    """For each wait of the text, (what it is, the program without it)."""
    for i, stream in enumerate(program.streams):
        for what, body in _without(stream.body):
            changed = (*program.streams[:i], replace(stream, body=body), *program.streams[i + 1 :])
            yield f"{stream.name}: {what}", replace(program, streams=changed)


def _without(nodes: tuple[Node, ...]) -> Iterator[tuple[str, tuple[Node, ...]]]:
    for i, node in enumerate(nodes):
        for what, changed in _changed(node):
            yield what, (*nodes[:i], changed, *nodes[i + 1 :])


def _changed(node: Node) -> Iterator[tuple[str, Node]]:
    if isinstance(node, Loop):
        for what, body in _without(node.body):
            yield what, replace(node, body=body)
        return
    for j, wait in enumerate(node.waits):
        yield f"{node.op} wait({wait.semaphore})", replace(node, waits=node.waits[:j] + node.waits[j + 1 :])


def loaded(program: Program, tensor: str) -> list[Instruction]:
    """The instructions of the text that load from `tensor`."""
    found: list[Instruction] = []

    def look(nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            if isinstance(node, Loop):
                look(node.body)
            elif node.op == "load" and node.operands[1].name == tensor:
                found.append(node)

    for stream in program.streams:
        look(stream.body)
    return found
