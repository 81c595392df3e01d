"""A closed-form guess of the time of a GPU contraction, and whether its block fits on an SM."""

from __future__ import annotations

from presil.simulators.formats import size_bytes
from presil.simulators.gpu.occupancy import REGISTER_BYTES, REGISTER_UNIT, WARP, WARPGROUP
from presil.simulators.gpu.spec import MultiplyType, gpu
from presil.simulators.machine import Machine

from .contraction import Epilogue, Tile, registers_per_thread, shared_bytes


def legal(tile: Tile, kind: MultiplyType, epilogue: Epilogue, machine: Machine) -> str | None:
    """Why no SM holds a block of it, or None."""
    limits = gpu(machine).occupancy
    if _registers(tile, kind, epilogue, machine) > limits.registers_per_thread:
        return "more registers than a thread has"
    return None if resident(tile, kind, epilogue, machine) else "no SM holds a block"


def resident(tile: Tile, kind: MultiplyType, epilogue: Epilogue, machine: Machine) -> int:
    """Blocks that one SM holds at once."""
    limits = gpu(machine).occupancy
    threads = WARP + tile.consumers * WARPGROUP
    registers = WARP * limits.copy_registers
    registers += tile.consumers * WARPGROUP * _registers(tile, kind, epilogue, machine)
    shared = shared_bytes(tile, kind.input) + limits.shared_reserved
    return min(
        limits.blocks,
        limits.threads // threads,
        limits.registers // (registers * REGISTER_BYTES),
        limits.shared // shared if shared <= limits.shared_per_block else 0,
    )


def _registers(tile: Tile, kind: MultiplyType, epilogue: Epilogue, machine: Machine) -> int:
    needed = registers_per_thread(tile, kind, epilogue) + gpu(machine).occupancy.register_overhead
    return -(-needed // REGISTER_UNIT) * REGISTER_UNIT


def cycles(  # noqa: PLR0917 - the parts of one kernel
    tile: Tile, kind: MultiplyType, epilogue: Epilogue, blocks: int, place: str, machine: Machine
) -> float:
    """Waves of blocks, each: steps at the pace of the slowest of multiplication and copies, and what is not hidden."""
    spec = gpu(machine)
    memory = machine.memories[spec.global_memory]
    size = size_bytes(kind.input)
    held = 1 if place == "persistent" else resident(tile, kind, epilogue, machine)
    active = min(machine.cores, blocks)
    held = min(held, -(-blocks // machine.cores))
    rows = -(-tile.rows // spec.tensor_cores.rows) * spec.tensor_cores.rows
    multiply = rows * tile.columns * tile.inner / kind.multiply_adds_per_cycle
    x, w = tile.rows * tile.inner * size, tile.columns * tile.inner * size
    cached = (x / tile.multicast[0] + w / tile.multicast[1]) * active / spec.cache.bytes_per_cycle
    port = (x + w) / spec.path.port_bytes_per_cycle
    step = max(multiply, cached, port, 2 * spec.copy_unit.setup)
    latency = memory.latency * machine.clock_hz + spec.copy_unit.extra_latency + step
    sums = tile.rows * tile.columns
    out = sums * size_bytes(epilogue.out) / spec.path.port_bytes_per_cycle
    after = sums / spec.vector.half_lanes + out + spec.cache.latency
    rounds = -(-blocks // (machine.cores * held))
    apart = latency + after + spec.block_start
    hidden = apart if held == 1 and place != "persistent" else (sums / spec.vector.half_lanes if held == 1 else 0.0)
    return rounds * held * tile.count * step + (rounds - 1) * hidden + apart + spec.launch * machine.clock_hz
