"""What GPU kernels that live on memory bandwidth have in common: occupancy, and a closed-form guess of their time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from presil.simulators.gpu.cost import HALF_RATE, SPECIAL
from presil.simulators.gpu.occupancy import REGISTER_BYTES, REGISTER_UNIT, WARP, WARPGROUP
from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import Machine
from presil.simulators.program import Affine, Loop, Node

FILLING = 2.0  # fitted: n blocks on an SM leave FILLING / n**2 of each other's gaps


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


def copy_latency(machine: Machine) -> float:
    """Cycles until a small copy from the L2 has come, and its slot is known to be full and then free."""
    spec = gpu(machine)
    return spec.copy_unit.setup + spec.cache.latency + spec.copy_unit.extra_latency + 2.0 * spec.barrier


def store_latency(machine: Machine) -> float:
    """Cycles until a small store has gone, and what it stores from is known to be free."""
    return gpu(machine).cache.latency + 2.0 * gpu(machine).barrier


def missed(distance: int, machine: Machine) -> float:
    """The part of bytes that comes from memory again where so many others have passed the L2 in between."""
    return min(1.0, max(0.0, 2 * distance / gpu(machine).cache.capacity - 1))


def counted(variable: str, trips: int, body: Callable[[Affine], Sequence[Node]]) -> tuple[Node, ...]:
    """A loop over `body`, or `body` itself where there is one trip."""
    if trips == 1:
        return tuple(body(Affine()))
    return (Loop(variable, trips, tuple(body(Affine.var(variable)))),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one block does: bytes that memory moves, bytes that the L2 gives besides, cycles of the vector lanes.

    `tiles` come one behind the other, `slots` of them at once; other rings take `rings` cycles at least.
    """

    read: float
    written: float
    cached: float
    vector: float
    tiles: int
    slots: int
    rings: float = 0.0


def cycles(load: Load, blocks: int, held: int, machine: Machine) -> float:
    """Of `blocks` alike, `held` on each SM at once. `held` 0: persistent, each asked for while the last is worked on.

    A slot of the ring takes a new tile each time one has come, gone through and left. Blocks side by side fill most of
    each other's gaps.
    """
    spec = gpu(machine)
    memory = machine.memories[spec.global_memory]
    moved = load.read + load.written
    part = load.written / moved
    turned = 1 + spec.turnaround * 2 * min(part, 1 - part)
    active = min(machine.cores, blocks)
    rate = memory.bandwidth * memory.efficiency / turned / machine.clock_hz / active
    cache = min(spec.cache.bytes_per_cycle / active, spec.path.port_bytes_per_cycle)
    busy = max(moved / rate, (load.read + load.cached) / cache, load.written / cache, load.vector)
    latency = memory.latency * machine.clock_hz + store_latency(machine)
    # What the L2 gives again leaves the memory idle, unless another block uses it.
    one = busy + load.cached / cache
    pace = max(one, load.tiles / load.slots * (latency + busy / load.tiles), load.rings)
    alone = max(one + latency + load.rings, pace) + spec.block_start
    each = -(-blocks // machine.cores)
    side_by_side = min(held, each)
    left = min(1.0, FILLING / side_by_side**2) if held else 0.0
    apart = max(busy + (alone - busy) * left, alone / side_by_side) if held else pace
    return (each - 1) * apart + alone + spec.launch * machine.clock_hz
