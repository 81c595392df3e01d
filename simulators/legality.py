"""What can be known of a program before it runs: names, counts, capacity, bounds, and what the machine can execute."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from .errors import BadInput, Undefined, Unsupported, nearest
from .family import Family, Op, family
from .formats import DTYPES, size_bytes
from .kinds import is_closed
from .machine import Machine
from .mesh import is_meshed
from .phases import check_phases
from .program import Affine, Buffer, Dim, Instruction, Loop, Node, Program, Region, Stream, Tensor, instructions

MAX_COUNT = 1 << 20  # of a semaphore, and of one wait or signal: no counter wraps
MAX_TRIPS = 10**9
Extents = Mapping[str, int]


def check_legality(program: Program, machine: Machine) -> None:
    """Raises BadInput (an unknown name, a wrong count), Unsupported (the machine cannot), Undefined (out of bounds)."""
    check_phases(program)
    for phase in program.phases:
        _check_phase(phase, machine)
    _check_memories(program, machine)


def _check_phase(program: Program, machine: Machine) -> None:
    members = family(machine.family)
    _check_declarations(program, machine, members)
    _check_place(program, machine, members)
    grid = dict(program.grid)
    for stream in program.streams:
        for instruction, extents in _with_extents(stream.body, grid, grid):
            _check_instruction(instruction, extents, stream, program, machine, members)
    refused = members.whole(program, machine)
    if refused:
        raise Unsupported(f"{program.name}: {refused}")


def _check_place(program: Program, machine: Machine, members: Family) -> None:
    """Instances and where they run."""
    _check_mesh(program, machine, members)
    if program.place == "static":
        if program.instances > machine.cores:
            raise Unsupported(
                f"the grid has {program.instances} instances, but {machine.name} has {machine.cores} cores"
            )
        return
    if program.place == "persistent":
        if not is_closed(program):
            raise Unsupported("instances of several kinds are dispatched, not persistent")
        names = {name for name, _ in program.grid}
        for stream in program.streams:
            for instruction, _ in instructions(stream.body):
                if names & _variables(instruction, program):
                    where = f"stream {stream.name}: {instruction.op}"
                    raise Unsupported(f"{where}: buffers of persistent instances cannot depend on the grid")
    members.slots(program, machine)


def _check_mesh(program: Program, machine: Machine, members: Family) -> None:
    """Cores of instances, ranges of streams, what buffers hold, and what reaches other instances."""
    if program.at and (len(program.at) != program.instances or len(set(program.at)) < len(program.at)):
        raise BadInput(f"{len(program.at)} cores for {program.instances} instances; allowed: one of its own for each")
    if program.at and max(program.at) >= machine.cores:
        raise BadInput(f"an instance is at core {max(program.at)}; {machine.name} has cores 0 to {machine.cores - 1}")
    grid = dict(program.grid)
    for stream in program.streams:
        for name, first, count in stream.when:
            if name not in grid or first < 0 or count < 1 or first + count > grid[name]:
                raise BadInput(f"stream {stream.name}: {name}({first} +: {count}) is no range of a grid variable")
    for buffer in program.buffers:
        if buffer.holds is not None:
            _check_held(buffer, buffer.holds, program, grid)
    if not is_meshed(program):
        return
    if not members.links(machine) or program.place != "static":
        raise Unsupported(f"{machine.name} has no links between cores: instances are alike and reach no others")
    for stream in program.streams:
        for instruction, _ in instructions(stream.body):
            where = f"stream {stream.name}: {instruction.op}"
            if any(count.core is not None for count in instruction.waits):
                raise BadInput(f"{where} waits for the semaphore of another instance; allowed: the own one")
            cores = [region.core for region in instruction.operands] + [count.core for count in instruction.signals]
            for core in cores:
                if core is not None:
                    _check_reached(core, program.instances, grid, where)


def _check_held(buffer: Buffer, held: Region, program: Program, grid: Extents) -> None:
    where, tensor = f"buffer {buffer.name}", program.tensor(held.name)
    if tensor is None or tensor.role != "const" or tensor.memory != buffer.space:
        raise BadInput(f"{where} holds {held.name}; allowed: a constant tensor that lies in {buffer.space}")
    sizes = tuple(dim.size for dim in held.dims) or tensor.shape
    if tensor.dtype != buffer.dtype or math.prod(sizes) != math.prod(buffer.shape) or buffer.slots != 1:
        raise BadInput(f"{where}: {held.name}{list(sizes)} {tensor.dtype} does not fill it; allowed: as many elements")
    for axis, (dim, extent) in enumerate(zip(held.dims, tensor.shape, strict=True)):
        low, high = _range(dim.start, grid)
        if dim.step != 1 or low < 0 or high + dim.size > extent:
            raise Undefined("bounds", where, f"holds {low} to {high + dim.size - 1} of dimension {axis} of {held.name}")


def _check_reached(core: Dim, instances: int, grid: Extents, where: str) -> None:
    if unknown := [name for name, _ in core.start.terms if name not in grid]:
        raise BadInput(f"{where}: which instance is reached depends on '{unknown[0]}', which is no grid variable")
    low, high = _range(core.start, grid)
    last = high + (core.size - 1) * core.step
    if low < 0 or last >= instances or core.size < 1 or core.step < 1:
        raise Undefined("bounds", where, f"reaches instances {low} to {last}; there are 0 to {instances - 1}")


def _variables(instruction: Instruction, program: Program) -> set[str]:
    """The variables on which the buffers and attributes of an instruction depend."""
    found = {name for _, value in instruction.attributes if isinstance(value, Affine) for name, _ in value.terms}
    for region in instruction.operands:
        if region.slot is not None:
            starts = (region.slot, *(dim.start for dim in region.dims))
            found |= {name for start in starts for name, _ in start.terms}
    return found


def buffer_bytes(buffer: Buffer) -> int:
    """Bytes of all slots."""
    return buffer.slots * math.prod(buffer.shape) * size_bytes(buffer.dtype)


def _check_declarations(program: Program, machine: Machine, members: Family) -> None:
    _unique([s.name for s in program.semaphores], "semaphore")
    _unique([s.name for s in program.streams], "stream")
    owners: tuple[Tensor | Buffer, ...] = (*program.tensors, *program.buffers)
    _unique([o.name for o in owners], "tensor or buffer")
    for owner in owners:
        if owner.dtype not in DTYPES:
            raise BadInput(f"{owner.name}: unknown format '{owner.dtype}'{nearest(owner.dtype, DTYPES)}")
        if not owner.shape or min(owner.shape) < 1:
            raise BadInput(f"{owner.name}: shape {list(owner.shape)} has a size below 1")
    for tensor in program.tensors:
        if tensor.memory not in machine.memories:
            have = ", ".join(machine.memories)
            raise BadInput(f"tensor {tensor.name}: {machine.name} has no memory '{tensor.memory}'; it has: {have}")
    spaces = members.spaces(machine)
    for buffer in program.buffers:
        _check_buffer(buffer, spaces, machine)
    for semaphore in program.semaphores:
        if not 0 <= semaphore.initial <= MAX_COUNT:
            raise BadInput(f"semaphore {semaphore.name}: starts at {semaphore.initial}; allowed: 0 to {MAX_COUNT:,}")


def _check_memories(program: Program, machine: Machine) -> None:
    tensors = {t.name: t for phase in program.phases for t in phase.tensors}
    for name, memory in machine.memories.items():
        held = [t for t in tensors.values() if t.memory == name]
        total = sum(math.prod(t.shape) * size_bytes(t.dtype) for t in held)
        if total > memory.capacity:
            detail = (
                f"{', '.join(t.name for t in held)} take {total:,} bytes, but {machine.name} has {memory.capacity:,}"
            )
            raise Undefined("capacity", f"memory {name}", detail)


def _check_buffer(buffer: Buffer, spaces: Mapping[str, int], machine: Machine) -> None:
    if buffer.space not in spaces:
        raise BadInput(
            f"buffer {buffer.name}: {machine.name} has no space '{buffer.space}'; it has: {', '.join(spaces)}"
        )
    if buffer.slots < 1 or buffer.offset < 0 or buffer.offset % size_bytes(buffer.dtype):
        raise BadInput(f"buffer {buffer.name}: slots must be 1 or more, offset a multiple of the element size from 0")
    end = buffer.offset + buffer_bytes(buffer)
    if end > spaces[buffer.space]:
        detail = f"ends at byte {end:,}, but {buffer.space} of {machine.name} has {spaces[buffer.space]:,}"
        raise Undefined("capacity", f"buffer {buffer.name}", detail)


def _unique(names: list[str], kind: str) -> None:
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise BadInput(f"{kind} '{twice[0]}' is declared twice")


def _with_extents(nodes: tuple[Node, ...], extents: Extents, grid: Extents) -> Iterator[tuple[Instruction, Extents]]:
    """Each instruction of the text with the trips of every variable around it."""
    for node in nodes:
        if isinstance(node, Loop):
            if unknown := [name for name, _ in node.terms if name not in grid]:
                hint = nearest(unknown[0], grid)
                raise BadInput(f"loop {node.var}: its trips depend on '{unknown[0]}', which is no grid variable{hint}")
            least, most = _range(Affine(node.trips, node.terms), grid)
            if least < (0 if node.terms else 1) or not 1 <= most <= MAX_TRIPS:
                raise BadInput(f"loop {node.var}: {least} to {most} trips; allowed: 1 to {MAX_TRIPS:,}")
            if node.var in extents:
                raise BadInput(f"loop {node.var}: the variable is taken by a loop or the grid around it")
            if not node.body:
                raise BadInput(f"loop {node.var} is empty; allowed: one instruction or more")
            yield from _with_extents(node.body, {**extents, node.var: most}, grid)
        else:
            yield node, extents


def _check_instruction(  # noqa: PLR0917 - all that an instruction can be checked against
    instruction: Instruction, extents: Extents, stream: Stream, program: Program, machine: Machine, members: Family
) -> None:
    where = f"stream {stream.name}: {instruction.op} {', '.join(r.name for r in instruction.operands)}"
    op = members.ops.get(instruction.op)
    if op is None:
        raise BadInput(
            f"{where}: {members.name} machines have no '{instruction.op}'{nearest(instruction.op, members.ops)}"
        )
    least = sum(not name.endswith("?") for name in op.operands)
    if not least <= len(instruction.operands) <= len(op.operands):
        raise BadInput(f"{where}: {len(instruction.operands)} operands; {op.name} takes {', '.join(op.operands)}")
    _check_attributes(instruction, op, extents, where)
    _check_counts(instruction, program, where)
    for position, region in enumerate(instruction.operands):
        clipped = op.clipped(position) and ("r" if position else "w")
        _check_region(region, extents, program, where, clipped or "")
    target = program.tensor(instruction.operands[0].name) if instruction.operands else None
    if target is not None and target.role != "out":
        raise Undefined("input-written", where, f"{target.name} is an input")
    refused = members.legal(instruction, stream.unit, program, machine)
    if refused:
        raise Unsupported(f"{where}: {refused}")


def _check_attributes(instruction: Instruction, op: Op, extents: Extents, where: str) -> None:
    allowed = {name.rstrip("?"): kind for name, kind in op.attributes.items()}
    given = dict(instruction.attributes)
    for name, value in given.items():
        if name not in allowed:
            raise BadInput(
                f"{where}: unknown attribute '{name}'{nearest(name, allowed)}; allowed: {', '.join(allowed)}"
            )
        kind = allowed[name]
        kinds: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "affine": (int, Affine)}
        good = value in kind if isinstance(kind, tuple) else isinstance(value, kinds[kind])
        if not good:
            wanted = " or ".join(kind) if isinstance(kind, tuple) else kind
            raise BadInput(f"{where}: attribute {name}={value}; allowed: {wanted}")
        if isinstance(value, Affine):
            _check_variables(value, extents, where)
    missing = [n for n in op.attributes if not n.endswith("?") and n not in given and op.attributes[n] != "affine"]
    if missing:
        raise BadInput(f"{where}: attribute {missing[0]} is missing")
    if not 1 <= int(given.get("shift", 1)) <= 62:  # type: ignore[arg-type]
        raise BadInput(f"{where}: shift={given['shift']}; allowed: 1 to 62")


def _check_counts(instruction: Instruction, program: Program, where: str) -> None:
    known = {s.name for s in program.semaphores}
    for count in (*instruction.waits, *instruction.signals):
        if count.semaphore not in known:
            raise BadInput(f"{where}: unknown semaphore '{count.semaphore}'{nearest(count.semaphore, known)}")
        if not 1 <= count.n <= MAX_COUNT:
            raise BadInput(f"{where}: {count.n} of semaphore {count.semaphore}; allowed: 1 to {MAX_COUNT:,}")


def _check_region(region: Region, extents: Extents, program: Program, where: str, clipped: str) -> None:
    """`clipped`: what lies outside of a tensor is not read (`r`), or not written (`w`: only behind its end)."""
    owner: Tensor | Buffer | None = program.tensor(region.name) or program.buffer(region.name)
    if owner is None:
        names = [t.name for t in program.tensors] + [b.name for b in program.buffers]
        raise BadInput(f"{where}: unknown tensor or buffer '{region.name}'{nearest(region.name, names)}")
    if isinstance(owner, Tensor) != (region.slot is None):
        raise BadInput(
            f"{where}: {region.name} is a {'tensor and has no' if region.slot else 'buffer and needs a'} slot"
        )
    if region.slot is not None:
        _check_variables(region.slot, extents, where)
    if region.dims and len(region.dims) != len(owner.shape):
        raise BadInput(f"{where}: {region.name} has {len(owner.shape)} dimensions, not {len(region.dims)}")
    for axis, (dim, extent) in enumerate(zip(region.dims, owner.shape, strict=False)):
        _check_variables(dim.start, extents, where)
        if dim.size < 1 or dim.step < 1:
            raise BadInput(f"{where}: {region.name} dimension {axis}: size and step must be 1 or more")
        low, high = _range(dim.start, extents)
        if clipped and isinstance(owner, Tensor):
            if clipped == "r" or low >= 0:
                continue
        else:
            high += (dim.size - 1) * dim.step
        if low < 0 or high >= extent:
            detail = f"{region.name} dimension {axis} reaches {low}..{high}, but has 0..{extent - 1}"
            raise Undefined("bounds", where, detail)


def _check_variables(expression: Affine, extents: Extents, where: str) -> None:
    for name, _ in expression.terms:
        if name not in extents:
            raise BadInput(f"{where}: unknown loop variable '{name}'{nearest(name, extents)}")


def _range(expression: Affine, extents: Extents) -> tuple[int, int]:
    """The least and the greatest value."""
    spans = [c * (extents[name] - 1) for name, c in expression.terms]
    return expression.base + sum(min(s, 0) for s in spans), expression.base + sum(max(s, 0) for s in spans)
