"""How many blocks of a program live on one SM at once: threads, registers, shared memory, block slots.

A stream that issues nothing but copies is one warp of few registers; any other is a warpgroup, and holds the register
buffers that it names: each thread a share of each.
"""

from __future__ import annotations

import math

from ..errors import Unsupported
from ..formats import size_bytes
from ..machine import Machine
from ..program import Buffer, Program, Stream, instructions
from .spec import Gpu, gpu

WARP, WARPGROUP = 32, 128  # threads
REGISTER_BYTES = 4
REGISTER_UNIT = 8  # registers per thread are given out in eights (CUDA programming guide)


def threads(stream: Stream) -> int:
    """Of one stream."""
    return WARP if all(i.op in ("copy", "gather") for i, _ in instructions(stream.body)) else WARPGROUP


def register_buffers(program: Program) -> dict[str, set[str]]:
    """The register buffers that each stream names."""
    inside = {b.name for b in program.buffers if b.space == "registers"}
    return {
        stream.name: {r.name for i, _ in instructions(stream.body) for r in i.operands} & inside
        for stream in program.streams
    }


def registers_per_thread(stream: Stream, held: list[Buffer], spec: Gpu) -> int:
    """Of one stream, rounded up as they are given out. Buffers that share bytes share registers."""
    if threads(stream) == WARP:
        return spec.occupancy.copy_registers
    bytes_per_thread = _covered(held) / WARPGROUP
    needed = math.ceil(bytes_per_thread / REGISTER_BYTES) + spec.occupancy.register_overhead
    return -(-needed // REGISTER_UNIT) * REGISTER_UNIT


def whole(program: Program, machine: Machine) -> str | None:
    """What only the whole program shows: registers that are private, and how many a thread can have."""
    spec = gpu(machine)
    used = register_buffers(program)
    users: dict[str, str] = {}
    for user, names in used.items():
        for name in sorted(names):
            if users.setdefault(name, user) != user:
                return f"registers are private: {name} is named by streams {users[name]} and {user}"
    if program.place == "static":
        return f"{machine.name} runs grids of blocks: place must be dispatch or persistent"
    for stream in program.streams:
        count = registers_per_thread(stream, [b for b in program.buffers if b.name in used[stream.name]], spec)
        if count > spec.occupancy.registers_per_thread:
            most = spec.occupancy.registers_per_thread
            return f"stream {stream.name} takes {count} registers per thread; {machine.name} has {most}"
    try:
        slots(program, machine)
    except Unsupported as error:
        return str(error)
    return None


def slots(program: Program, machine: Machine) -> int:
    """Blocks that live on one SM at once. Raises Unsupported where not one fits. A persistent block is alone."""
    spec = gpu(machine)
    limits = spec.occupancy
    used = register_buffers(program)
    block_threads = sum(map(threads, program.streams))
    registers = sum(
        threads(s) * registers_per_thread(s, [b for b in program.buffers if b.name in used[s.name]], spec)
        for s in program.streams
    )
    shared = max((_end(b) for b in program.buffers if b.space == "shared"), default=0) + limits.shared_reserved
    fit = {
        "blocks": limits.blocks,
        "threads": limits.threads // block_threads,
        "registers": limits.registers // (registers * REGISTER_BYTES),
        "shared memory": limits.shared // shared,
    }
    least = min(fit, key=lambda name: fit[name])
    if not fit[least]:
        raise Unsupported(f"not one block fits on an SM of {machine.name}: {least}")
    return 1 if program.place == "persistent" else fit[least]


def _end(buffer: Buffer) -> int:
    return buffer.offset + buffer.slots * math.prod(buffer.shape) * size_bytes(buffer.dtype)


def _covered(buffers: list[Buffer]) -> int:
    """Bytes that at least one of the buffers takes."""
    total = reach = 0
    for buffer in sorted(buffers, key=lambda b: b.offset):
        begin, end = max(buffer.offset, reach), _end(buffer)
        total += max(end - begin, 0)
        reach = max(reach, end)
    return total
