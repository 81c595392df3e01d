"""What GPU instructions cost: the only place with latencies.

All SMs run the same program at the same pace, so each has its share of what they all use: the L2 and the memory. A
transfer takes its engine for the slowest of: the port of the SM, its share of the L2, and what may be outstanding
(Little's law); and the SM's share of the memory for what misses, which the engines of an SM use one behind the other.
The order of the blocks says how much misses (`locality.py`).

  mma    M and N rounded up to whole instructions, K to whole steps, over the rate of the SM; or, where that is slower,
         its operands from shared memory: B once for every 64 rows, A once for every 256 columns (wgmma); with mma.sync
         both twice, since four warps share a tile two by two.
  gather a copy of the entries that are named, one set-up each. First the table is read: one load more, which depends on
         nothing but the table and hits in the L2, since eight elements share a line and blocks of other heads or
         columns read the same. Its bytes are charged to the memory each time all the same.
  vector elements over the lanes of its kind; a reduction along a row needs two exchanges between lanes.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ..family import TABLE, Cost
from ..formats import size_bytes
from ..machine import Machine
from ..program import Buffer, Instruction, Program
from ..timing import TICKS_PER_CYCLE
from .legality import shape
from .locality import Share, box, sector_bytes, shares
from .occupancy import WARPGROUP
from .spec import Gpu, gpu

OPS = {"copy": "copy", "gather": "copy", "load": "load", "store": "store"}  # transfers, and their engines
ENGINES = ("copy", "load", "tensor", "vector", "store")
HALF_RATE = ("max", "maximum", "relu", "cast", "mask", "limit", "requantize")
SPECIAL = ("exp", "reciprocal", "rsqrt")
THREAD_BYTES = 16  # the widest load or store of one thread
REGISTER_BYTES, PACKED = 4, 2  # two narrow numbers are converted into one register at once
THREAD_TILE = 8  # rows and columns of one thread's sums
WARPS_A_SIDE = 2  # four warps share a tile two by two


def cost(instruction: Instruction, unit: int, program: Program, machine: Machine) -> Cost:
    """The price of a legal instruction."""
    spec = gpu(machine)
    if instruction.op in OPS:
        return _transfer(instruction, program, machine)
    if instruction.op in ("mma", "mac"):
        return _product(instruction, program, spec)
    return _vector(instruction, program, spec)


def _priced(  # noqa: PLR0917 - the columns of one row
    instruction: Instruction, spec: Gpu, engine: str, work: float, latency: float, multiply_adds: int = 0
) -> Cost:
    """Cost of `work` cycles on the engine and `latency` more to the result; the stream issues the next meanwhile."""
    occupancy = max(math.ceil(work * TICKS_PER_CYCLE), TICKS_PER_CYCLE)
    # What a load brings is waited for by a scoreboard; all else that is signalled goes through a barrier.
    barrier = spec.barrier * TICKS_PER_CYCLE if instruction.signals and engine != "load" else 0
    after = math.ceil(latency * TICKS_PER_CYCLE) + barrier
    issue = min(spec.issue * TICKS_PER_CYCLE, occupancy)
    return Cost(engine, occupancy, occupancy + after, multiply_adds=multiply_adds, issue=issue)


def _product(instruction: Instruction, program: Program, spec: Gpu) -> Cost:
    cores = spec.tensor_cores
    a, b = (program.buffer(r.name) for r in instruction.operands[1:])
    assert a is not None
    assert b is not None
    kind = spec.multiply_type(a.dtype)
    assert kind is not None  # legality
    sizes = [shape(r, program) for r in instruction.operands]
    m, n, k = math.prod(sizes[1][:-1]), sizes[0][-1], sizes[1][-1]
    if instruction.op == "mac":
        return _mac(instruction, spec, (m, n, k), a.dtype)
    step = max(cores.inner_bytes // size_bytes(a.dtype), 1)
    rows, inner = -(-m // cores.rows) * cores.rows, -(-k // step) * step
    work = max(rows * n * inner / kind.multiply_adds_per_cycle, _operand_cycles(a, b, (rows, n, inner), spec))
    return _priced(instruction, spec, "tensor", work, cores.latency, m * n * k)


def _mac(instruction: Instruction, spec: Gpu, sizes: tuple[int, int, int], dtype: str) -> Cost:
    """One multiply-add a lane and cycle; narrow formats are converted first, each element of both operands once.

    From shared memory each thread reads as many rows and columns as its part of the tile has, 8 x 8 at most; those
    reads, 16 bytes each, take issue slots too.
    """
    m, n, k = sizes
    converted = 0 if dtype == "fp32" else (m * k + k * n) / spec.vector.half_lanes
    read = m * n * k * (1 / min(m, THREAD_TILE) + 1 / min(n, THREAD_TILE)) * size_bytes(dtype)
    issued = (m * n * k + read / THREAD_BYTES) / spec.vector.lanes
    work = max(issued + converted, read / spec.path.shared_bytes_per_cycle)
    return _priced(instruction, spec, "vector", work, spec.vector.latency, m * n * k)


def _operand_cycles(a: Buffer, b: Buffer, sizes: tuple[int, int, int], spec: Gpu) -> float:
    """Cycles in which shared memory gives the operands of one `mma`."""
    rows, n, inner = sizes
    a_bytes, b_bytes = rows * inner * size_bytes(a.dtype), inner * n * size_bytes(b.dtype)
    if spec.tensor_cores.fragments == "registers":
        moved = WARPS_A_SIDE * (b_bytes + (a_bytes if a.space == "shared" else 0))
    else:
        reads_a = -(-n // spec.tensor_cores.columns) if a.space == "shared" else 0
        moved = reads_a * a_bytes + rows // spec.tensor_cores.rows * b_bytes
    return moved / spec.path.shared_bytes_per_cycle


def _vector(instruction: Instruction, program: Program, spec: Gpu) -> Cost:
    op, unit = instruction.op, spec.vector
    if op == "sync" or not instruction.operands:
        return _priced(instruction, spec, "vector", spec.issue, 0)
    sizes = [math.prod(shape(r, program)) for r in instruction.operands]
    if op == "move":
        buffer = program.buffer(instruction.operands[0].name)
        assert buffer is not None
        moved = sizes[0] * size_bytes(buffer.dtype)
        return _priced(instruction, spec, "vector", moved / spec.path.shared_bytes_per_cycle, spec.path.shared_latency)
    lanes = unit.special_lanes if op in SPECIAL else unit.half_lanes if op in HALF_RATE else unit.lanes
    # A step takes whole instructions of a warpgroup, however few elements it has.
    elements = -(-max(sizes) // WARPGROUP) * WARPGROUP
    target = program.buffer(instruction.operands[0].name)
    packed = PACKED if op == "cast" and target is not None and size_bytes(target.dtype) < REGISTER_BYTES else 1
    latency = unit.latency + (2 * unit.shuffle if op in ("sum", "max") else 0)
    price = _priced(instruction, spec, "vector", elements / packed / lanes, latency)
    # The next instruction needs its result. Of many elements a thread the first are long there when the last is begun.
    waits = op in ("sum", "max") or elements == WARPGROUP
    issue = price.occupancy + latency * TICKS_PER_CYCLE if waits else price.issue
    return replace(price, issue=issue, operations=elements)


def _transfer(instruction: Instruction, program: Program, machine: Machine) -> Cost:
    spec = gpu(machine)
    stores, entries = instruction.op == "store", _entries(instruction, program)
    region, tensor = box(instruction, program)
    memory = machine.memories[tensor.memory]
    moved = sector_bytes(region, tensor, memory.burst_bytes)
    share = shares(program, machine).of(instruction)
    cached = moved * share.cache * share.active / spec.cache.bytes_per_cycle
    latency = _latency(instruction, moved, share, machine)
    least = spec.copy_unit.setup * max(entries, 1) if instruction.op in ("copy", "gather") else 1
    outstanding = 0.0 if stores else moved * latency / spec.path.in_flight_bytes
    occupancy = max(moved / spec.path.port_bytes_per_cycle, cached, outstanding, least)
    looked_up = entries * size_bytes("int32")
    link = math.ceil(
        (moved * share.memory + looked_up) / _memory_bytes_per_cycle(share, spec, machine) * TICKS_PER_CYCLE
    )
    late = max(link / TICKS_PER_CYCLE - occupancy, 0)  # the last byte comes when the memory has moved it
    before = spec.cache.latency if entries else 0
    price = _priced(instruction, spec, OPS[instruction.op], occupancy, before + latency + late)
    touched = math.ceil(moved * share.memory) + looked_up
    return replace(price, links=((tensor.memory, link),) if link else (), traffic=((tensor.memory, touched),))


def _entries(instruction: Instruction, program: Program) -> int:
    """Entries that a gather looks up; 0 for what looks up none."""
    return math.prod(shape(instruction.operands[TABLE], program)) if instruction.op == "gather" else 0


def _memory_bytes_per_cycle(share: Share, spec: Gpu, machine: Machine) -> float:
    """The share of one SM. Memory that is read and written by turns loses time to each turn."""
    memory = machine.memories[spec.global_memory]
    turned = 1 + spec.turnaround * 2 * min(share.written, 1 - share.written)
    return memory.bandwidth * memory.efficiency / turned / machine.clock_hz / share.active


def _latency(instruction: Instruction, moved: int, share: Share, machine: Machine) -> float:
    """Cycles from the request to the first byte: of the L2, or of the memory where it is likely that a line misses."""
    spec = gpu(machine)
    if instruction.op == "store":
        return float(spec.cache.latency)
    memory = machine.memories[spec.global_memory]
    lines = max(moved / memory.burst_bytes, 1.0)
    misses = 1.0 - math.pow(1.0 - min(share.memory, 1.0), lines)
    plain = spec.cache.latency + misses * max(memory.latency * machine.clock_hz - spec.cache.latency, 0)
    return plain + (0 if instruction.op == "load" else spec.copy_unit.extra_latency)
