"""What can be said of a program without its numbers: that it is for this task, and that it did the work."""

from __future__ import annotations

from collections.abc import Iterator

from presil.simulators.bound import lower_bound_ticks
from presil.simulators.errors import BadInput
from presil.simulators.family import family
from presil.simulators.program import Program, Tensor, instructions
from presil.simulators.rendering import render_instruction
from presil.simulators.timing import Timing

from .operators.operator import Work
from .operators.registry import parse_workload
from .trials import Task
from .verdict import Reason


def declared(task: Task) -> Iterator[Reason]:
    """The tensors must be those of the workload, in name, format, shape and role. Else it answers another question."""
    program, workload = task.program, task.workload
    try:
        meant = parse_workload(program.workload)
        if meant != workload:
            yield Reason("workload", f"program {program.name}", f"is for {meant}, not for {workload}")
    except BadInput as error:
        yield Reason("workload", f"program {program.name}", error.message)
    wanted = {spec.name: spec for spec in task.operator.tensors(workload)}
    missing = set(wanted)
    for tensor in _tensors(program):
        missing.discard(tensor.name)
        spec = wanted.get(tensor.name)
        if spec is None:
            yield Reason("tensors", f"tensor {tensor.name}", f"{workload} has no such tensor")
            continue
        for what in ("dtype", "shape", "role"):
            found, right = getattr(tensor, what), getattr(spec, what)
            if found != right:
                yield Reason("tensors", f"tensor {tensor.name}", f"{what} is {found}; {workload} has {right}")
        memory = family(task.machine.family).tensor_memory(tensor.role, task.machine)
        if tensor.memory != memory:
            detail = f"lies in {tensor.memory}; {task.machine.name} keeps {tensor.role} tensors in {memory}"
            yield Reason("tensors", f"tensor {tensor.name}", detail)
    for name in sorted(missing):
        yield Reason("tensors", f"tensor {name}", f"is missing; {workload} has it")


def _tensors(program: Program) -> list[Tensor]:
    """What the program declares, each once; but for what its phases store for each other."""
    found = {(t.name, t.dtype, t.shape, t.role): t for phase in program.phases for t in phase.tensors}
    return [t for t in found.values() if t.name not in program.scratch]


def scalars(task: Task) -> Iterator[Reason]:
    """Every requantisation must scale by the number of the task, exactly; the program is legal.

    A multiplier that is off by one moves so few sums over a border of rounding that the few outputs of an edge tile may
    well not show it. What a requantisation computes depends on multiplier / 2**shift alone, so any such pair will do.
    """
    wanted = task.operator.attributes(task.workload)
    if "multiplier" not in wanted:
        return
    for stream in (stream for phase in task.program.phases for stream in phase.streams):
        for instruction, _ in instructions(stream.body):
            multiplier, shift = (instruction.attribute(name) for name in ("multiplier", "shift"))
            if not isinstance(multiplier, int) or not isinstance(shift, int):
                continue
            if multiplier << wanted["shift"] != wanted["multiplier"] << shift:
                detail = (
                    f"scales by {multiplier} / 2**{shift}; {task.workload} by {wanted['multiplier']} / "
                    f"2**{wanted['shift']}"
                )
                yield Reason("scalars", f"stream {stream.name}: {render_instruction(instruction)}", detail)


def compulsory_traffic(program: Program, work: Work) -> dict[str, int]:
    """Bytes that must cross the link of each memory: every tensor once."""
    moved: dict[str, int] = {}
    for tensor in _tensors(program):
        moved[tensor.memory] = moved.get(tensor.memory, 0) + work.tensor_bytes[tensor.name]
    return moved


def audit(task: Task, work: Work, timing: Timing, least_multiply_adds: int) -> Iterator[Reason]:
    """The whole work is done, and not in less time than it can take."""
    program, workload = task.program, task.workload
    where = f"program {program.name}"
    if timing.multiply_adds < least_multiply_adds:
        detail = f"executes {timing.multiply_adds:,} multiply-adds; {workload} needs {least_multiply_adds:,}"
        yield Reason("work", where, detail)
    traffic = compulsory_traffic(program, work)
    for memory, least in traffic.items():
        moved = timing.traffic_bytes.get(memory, 0)
        if moved < least:
            yield Reason("traffic", f"memory {memory}", f"moves {moved:,} bytes; {workload} needs {least:,}")
    dtype = str(dict(workload.parameters).get("dtype", ""))
    bound = lower_bound_ticks(least_multiply_adds, dtype, traffic, task.machine)
    if timing.ticks < bound:
        yield Reason("bound", where, f"takes {timing.ticks:,} ticks; no program can take less than {bound:,}")
