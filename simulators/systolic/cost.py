"""What systolic instructions cost: the only place with latencies.

Cycles of an array of R rows and C columns, in which data enter skewed by one cycle per row and column:

  matmul   M rows of x:     taken for M cycles; the last sum leaves after M + R + C - 2.
  shift    one plane:       R cycles, whatever the tile: rows below it must be cleared.
  mac      inner length K:  taken for K cycles; the last element has its sum after K + R + C - 2
                            (4x4x4 on 4x4: 10, the RTL value of SCALE-Sim's validation, issue 125).
  drain    one plane:       R cycles (with it 2R + C + K - 2, the same source).

A transfer is taken for the slowest of: descriptor set-up, the on-chip port, the memory link, and what the limit on
outstanding bytes allows (Little's law: in_flight / latency). Memory is touched in whole bursts per contiguous run. Its
set-up comes before its data, but while those of the transfer ahead move.
"""

from __future__ import annotations

import math

from ..family import Cost
from ..formats import size_bytes
from ..machine import Machine, Memory
from ..program import Instruction, Program, Region, Tensor
from ..timing import TICKS_PER_CYCLE
from .spec import Systolic, systolic

ARRAY_ENGINES = ("weights", "matrix", "drain")


def engines(spec: Systolic) -> tuple[str, ...]:
    """Engine names of one core, in the order in which they complete within a tick."""
    counts = {"load": spec.dma.load_channels, **dict.fromkeys(ARRAY_ENGINES, spec.array.count)}
    names = [engine_name(kind, unit, n) for kind, n in counts.items() for unit in range(n)]
    stores = [engine_name("store", unit, spec.dma.store_channels) for unit in range(spec.dma.store_channels)]
    return (*names, "vector", *stores)


def engine_name(kind: str, unit: int, count: int) -> str:
    """`matrix`, or `matrix2` where there are several."""
    return kind if count == 1 else f"{kind}{unit}"


def cost(instruction: Instruction, unit: int, program: Program, machine: Machine) -> Cost:
    """The price of a legal instruction in a stream on `unit`."""
    spec = systolic(machine)
    if instruction.op in ("load", "store", "fill"):
        return _transfer(instruction, unit, program, machine)
    if instruction.op in ("shift", "matmul", "mac", "drain"):
        return _array(instruction, unit, program, machine)
    elements = max((math.prod(shape(r, program)) for r in instruction.operands), default=0)
    work = -(-elements // spec.vector.lanes)
    return _priced(instruction, spec, "vector", work, work + spec.vector.latency)


def _priced(  # noqa: PLR0917 - the columns of one row
    instruction: Instruction, spec: Systolic, engine: str, work: int, latency: int, multiply_adds: int = 0
) -> Cost:
    """Cost of `work` cycles on the engine and `latency` to the result, with issue and semaphore time added."""
    occupancy = max(work, spec.issue, 1)
    latency = max(latency, occupancy) + spec.issue + (spec.semaphore if instruction.signals else 0)
    return Cost(
        engine,
        occupancy * TICKS_PER_CYCLE,
        latency * TICKS_PER_CYCLE,
        multiply_adds=multiply_adds,
        issue=spec.issue * TICKS_PER_CYCLE,
    )


def _array(instruction: Instruction, unit: int, program: Program, machine: Machine) -> Cost:
    spec = systolic(machine)
    array = spec.array
    fill = array.rows + array.columns - 2
    if instruction.op == "shift":
        return _priced(instruction, spec, engine_name("weights", unit, array.count), array.rows, array.rows)
    if instruction.op == "drain":
        return _priced(instruction, spec, engine_name("drain", unit, array.count), array.rows, array.rows)
    x, w = (shape(region, program) for region in instruction.operands[1:])
    rows, inner, outputs = math.prod(x[:-1]), x[-1], w[-1]
    steps = rows if instruction.op == "matmul" else inner
    buffer = program.buffer(instruction.operands[1].name)
    rate = next((t.rate for t in array.types if buffer and t.input == buffer.dtype), 1.0)
    work = math.ceil(steps / rate)
    engine = engine_name("matrix", unit, array.count)
    return _priced(instruction, spec, engine, work, work + fill, rows * inner * outputs)


def _transfer(instruction: Instruction, unit: int, program: Program, machine: Machine) -> Cost:
    spec = systolic(machine)
    dma = spec.dma
    kind = "store" if instruction.op == "store" else "load"
    engine = engine_name(kind, unit, dma.store_channels if kind == "store" else dma.load_channels)
    local = instruction.operands[0 if kind == "load" else 1]
    buffer = program.buffer(local.name)
    bytes_moved = math.prod(shape(local, program)) * size_bytes(buffer.dtype if buffer else "int8")
    if instruction.op == "fill":
        port = -(-bytes_moved // dma.port_bytes_per_cycle)
        return _priced(instruction, spec, engine, max(port, dma.setup), max(port, dma.setup))
    remote = instruction.operands[1 if kind == "load" else 0]
    tensor = program.tensor(remote.name)
    assert tensor is not None  # legality
    memory = machine.memories[tensor.memory]
    runs, run_bytes = contiguous_runs(remote, tensor)
    if buffer and buffer.space == "weights" and spec.weight_tile:
        *apart, k, n = shape(local, program)  # each kernel position is tiles of its own
        tiles = math.prod(apart) * -(-k // spec.array.rows) * -(-n // spec.array.columns)
        touched = max(tiles * spec.weight_tile, bytes_moved)  # a tile of a wider format is as large as it is
    else:
        touched = runs * -(-run_bytes // memory.burst_bytes) * memory.burst_bytes
    link = link_ticks(touched, memory, machine.clock_hz)
    latency_ticks = math.ceil(memory.latency * machine.clock_hz * TICKS_PER_CYCLE)
    last_run = (runs - 1) * dma.row_setup * TICKS_PER_CYCLE + -(-link // runs)  # it is asked for last, and then moves
    burst = -(-link * memory.burst_bytes // touched)
    answered = latency_ticks + burst + TICKS_PER_CYCLE  # from the request of a burst to that of one in its place
    window = _window_ticks(touched // memory.burst_bytes, burst, answered, dma.in_flight_bytes // memory.burst_bytes)
    moving = max(link, window, last_run, -(-bytes_moved // dma.port_bytes_per_cycle) * TICKS_PER_CYCLE)
    occupancy = max(link, channel_ticks(touched, bytes_moved, runs, answered, spec))
    around = dma.setup + spec.issue + (spec.semaphore if instruction.signals else 0)
    return Cost(
        engine,
        occupancy,
        max(occupancy, moving + latency_ticks + around * TICKS_PER_CYCLE),
        links=((tensor.memory, link),),
        traffic=((tensor.memory, touched),),
        issue=spec.issue * TICKS_PER_CYCLE,
    )


def _window_ticks(bursts: int, burst: int, answered: int, outstanding: int) -> int:
    """Ticks from the first burst of a transfer to the end of its last, when nothing is outstanding at its beginning.

    As many bursts as may be outstanding go at the pace of the link, then as many more as the first are answered.
    """
    most = max(1, outstanding)
    rounds, rest = divmod(max(0, bursts - 1), most)
    return rounds * max(answered, most * burst) + (rest + 1) * burst


def channel_ticks(touched: int, bytes_moved: int, runs: int, answered_ticks: int, spec: Systolic) -> int:
    """Ticks a transfer takes its channel at least: by what may be outstanding, by its port, by its descriptor."""
    descriptor = max(spec.dma.setup + (runs - 1) * spec.dma.row_setup, spec.issue, 1) * TICKS_PER_CYCLE
    outstanding = -(-touched * answered_ticks // spec.dma.in_flight_bytes)
    port = -(-bytes_moved // spec.dma.port_bytes_per_cycle)
    return max(outstanding, port * TICKS_PER_CYCLE, descriptor)


def link_ticks(bytes_moved: int, memory: Memory, clock_hz: float) -> int:
    """Ticks the link to `memory` is taken by `bytes_moved`."""
    return math.ceil(bytes_moved * TICKS_PER_CYCLE * clock_hz / (memory.bandwidth * memory.efficiency))


def contiguous_runs(region: Region, tensor: Tensor) -> tuple[int, int]:
    """(number of contiguous runs, bytes of each) of a region of a row-major tensor."""
    sizes = [dim.size for dim in region.dims] or list(tensor.shape)
    steps = [dim.step for dim in region.dims] or [1] * len(sizes)
    run = 1
    for i in reversed(range(len(sizes))):
        if sizes[i] > 1 and steps[i] != 1:
            break
        run *= sizes[i]
        if sizes[i] != tensor.shape[i]:
            break
    return math.prod(sizes) // run, run * size_bytes(tensor.dtype)


def shape(region: Region, program: Program) -> tuple[int, ...]:
    """The shape of a region of a declared tensor or buffer."""
    if region.dims:
        return tuple(dim.size for dim in region.dims)
    owner = program.buffer(region.name) or program.tensor(region.name)
    assert owner is not None, region.name
    return owner.shape
