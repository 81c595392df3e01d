"""What GPU kernels that live on memory bandwidth have in common: occupancy, and a closed-form guess of their time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from presil.simulators.gpu.cost import HALF_RATE, SPECIAL
from presil.simulators.gpu.occupancy import REGISTER_BYTES, REGISTER_UNIT, WARP, WARPGROUP
from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import Machine
from presil.simulators.program import Affine, Loop, Node


def refused(register_bytes: int, shared_bytes: int, copies: int, machine: Machine) -> str | None:
    """Why no SM holds a block of one warpgroup and `copies` warps that copy, with buffers of those bytes, or None."""
    if _registers(register_bytes, machine) > gpu(machine).occupancy.registers_per_thread:
        return "more registers than a thread has"
    return None if resident(register_bytes, shared_bytes, copies, machine) else "no SM holds a block"


def resident(register_bytes: int, shared_bytes: int, copies: int, machine: Machine) -> int:
    """Blocks that one SM holds at once."""
    limits = gpu(machine).occupancy
    registers = WARPGROUP * _registers(register_bytes, machine) + copies * WARP * limits.copy_registers
    shared = shared_bytes + limits.shared_reserved
    return min(
        limits.blocks,
        limits.threads // (WARPGROUP + copies * WARP),
        limits.registers // (registers * REGISTER_BYTES),
        limits.shared // shared if shared <= limits.shared_per_block else 0,
    )


def _registers(register_bytes: int, machine: Machine) -> int:
    """Registers of one thread, as they are given out."""
    needed = -(-register_bytes // (WARPGROUP * REGISTER_BYTES)) + gpu(machine).occupancy.register_overhead
    return -(-needed // REGISTER_UNIT) * REGISTER_UNIT


def lanes(op: str, machine: Machine) -> int:
    """Elements a cycle of one vector instruction."""
    unit = gpu(machine).vector
    return unit.special_lanes if op in SPECIAL else unit.half_lanes if op in HALF_RATE else unit.lanes


def shared_bytes_per_cycle(machine: Machine) -> int:
    """Of shared memory of one SM."""
    return gpu(machine).path.shared_bytes_per_cycle


def missed(distance: int, machine: Machine) -> float:
    """The part of bytes that comes from memory again where so many others have passed the L2 in between."""
    return min(1.0, max(0.0, 2 * distance / gpu(machine).cache.capacity - 1))


def counted(variable: str, trips: int, body: Callable[[Affine], Sequence[Node]]) -> tuple[Node, ...]:
    """A loop over `body`, or `body` itself where there is one trip."""
    if trips == 1:
        return tuple(body(Affine()))
    return (Loop(variable, trips, tuple(body(Affine.var(variable)))),)


def cycles(  # noqa: PLR0917 - the parts of one kernel
    blocks: int, held: int, read: float, written: float, vector: float, ring: tuple[int, int], machine: Machine
) -> float:
    """Blocks of `read` and `written` bytes and `vector` cycles, `held` on each SM at once.

    `ring`: tiles of a block, and how many of them are under way at once. A slot takes a new tile each time one has
    come, gone through and left. Blocks side by side fill the gaps as far as memory and lanes can. `held` 0: blocks are
    persistent, and each is asked for while the last one is worked on.
    """
    spec = gpu(machine)
    memory = machine.memories[spec.global_memory]
    part = written / (read + written)
    turned = 1 + spec.turnaround * 2 * min(part, 1 - part)
    active = min(machine.cores, blocks)
    rate = memory.bandwidth * memory.efficiency / turned / machine.clock_hz / active
    busy = max((read + written) / rate, read / spec.path.port_bytes_per_cycle, vector)
    latency = memory.latency * machine.clock_hz + spec.cache.latency + 2 * spec.barrier
    tiles, slots = ring
    pace = max(busy, tiles / slots * (latency + busy / tiles))
    alone = max(busy + latency, pace) + spec.block_start
    each = -(-blocks // machine.cores)
    apart = max(busy, alone / min(held, each)) if held else pace
    return (each - 1) * apart + alone + spec.launch * machine.clock_hz
