"""What can be said of a schedule before a program exists: whether it fits, and about how long it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from presil.simulators.formats import size_bytes
from presil.simulators.machine import Machine
from presil.simulators.program import Affine, Region, Tensor
from presil.simulators.systolic.cost import channel_ticks, contiguous_runs, link_ticks
from presil.simulators.systolic.spec import Systolic, systolic
from presil.simulators.timing import TICKS_PER_CYCLE

from .blocking import ALIGNMENT, Blocking, Epilogue, Layout, columns
from .tiling import Axis, Place


def legal(layout: Layout, b: Blocking, epilogue: Epilogue, spec: Systolic) -> str | None:
    """Why a schedule cannot be, in a few words that many schedules share, or None."""
    if epilogue.op not in spec.vector.operations:
        return f"the vector unit has no {epilogue.op}"
    if b.dataflow == "os" and math.prod(a.largest for a in b.m) > spec.array.rows:
        return "output-stationary: more rows in a block than in the array"
    if (b.x_keep and b.n.count == 1) or (b.w_keep and all(a.count == 1 for a in b.m)):
        return "keeps what is used once"
    need = {"scratchpad": 0, "weights": 0, "accumulator": 0}
    weights = "weights" if spec.weight_buffer else "scratchpad"
    for space, dtype, shape, slots in (
        ("scratchpad", b.input, layout.x_block, b.x_ring),
        (weights, b.input, layout.w_block, b.w_ring),
        ("accumulator", b.accumulator, layout.y_block, b.acc_ring),
        ("scratchpad", epilogue.dtype, layout.y_block, b.y_ring),
        ("scratchpad", b.accumulator, layout.bias or (0,), 1),
    ):
        size = slots * math.prod(shape) * size_bytes(dtype)
        need[space] += -(-size // ALIGNMENT) * ALIGNMENT
    have = {"scratchpad": spec.scratchpad, "weights": spec.weight_buffer or 0, "accumulator": spec.accumulator}
    for space, size in need.items():
        if size > have[space]:
            return f"does not fit the {space}"
    return None


@dataclass(frozen=True, slots=True)
class _Move:
    """The transfers of one block: cycles of the channel, of the link, and until the data have come."""

    channel: float
    link: float
    latency: float


def cycles(layout: Layout, b: Blocking, epilogue: Epilogue, tensors: Sequence[Tensor], machine: Machine) -> float:
    """About how many cycles: the slowest of all engines, links and rings, and the first block in and the last one out.

    A ring of R slots that T tiles pass, each for as long as it is filled, waited for and used, takes T * (sum) / R.
    """
    spec = systolic(machine)
    cores = machine.cores if any(a.offset.terms for a in (*b.g, *b.m, b.n)) else 1
    x, w, y = _moves(layout, b, tensors, machine)
    matrix, shift, planes = _array(layout, b, spec)
    fill = spec.array.rows + spec.array.columns
    vector = math.prod(layout.y_block) / spec.vector.lanes + spec.vector.latency
    use_x, use_w, use_y = (matrix / tiles for tiles in (b.x_tiles, b.w_tiles, b.y_tiles))
    loads = [x.channel * b.x_tiles, w.channel * b.w_tiles]
    channels = loads if spec.dma.load_channels > 1 else [sum(loads)]
    links: dict[str, float] = {}
    moved = (
        (spec.activation_memory, x.link * b.x_tiles + y.link * b.y_tiles),
        (spec.weight_memory, w.link * b.w_tiles),
    )
    for memory, taken in moved:
        links[memory] = links.get(memory, 0.0) + cores * taken
    rings = (
        b.x_tiles * (x.channel + x.latency + use_x + fill) / b.x_ring,
        b.w_tiles * (w.channel + w.latency + use_w + fill) / b.w_ring,
        b.y_tiles * (use_y + fill + vector) / b.acc_ring,
        b.y_tiles * (vector + y.channel + y.latency) / b.y_ring,
        planes,
    )
    engines = (matrix, shift, b.y_tiles * vector, y.channel * b.y_tiles, *channels, *links.values())
    first, last = max(x.channel + x.latency, w.channel + w.latency), vector + y.channel + y.latency
    total: float = max(*rings, *engines) + 0.02 * sum(engines) + first + fill + last
    return total


def _array(layout: Layout, b: Blocking, spec: Systolic) -> tuple[float, float, float]:
    """(cycles of the matrix engine, of the weight shift, of the ring of planes) of one array."""
    array = spec.array
    rate = next(t.rate for t in array.types if t.input == b.input)
    fill = array.rows + array.columns
    row_blocks = math.prod(a.count for a in (*b.g, *b.m))
    taps = math.prod(a.count for a in layout.taps)
    outputs = sum(-(-columns(t.size, 0, b.arrays)[1] // array.columns) for t in b.n.tiles)
    lengths = [layout.inner_length(t.size) for t in b.k.tiles]
    if b.dataflow == "os":
        steps = row_blocks * outputs * b.k.count
        matrix = row_blocks * outputs * taps * sum(lengths) / rate
        return matrix, float(steps * array.rows), (matrix + steps * (fill + array.rows)) / array.result_planes
    inner = taps * sum(-(-length // array.rows) for length in lengths)
    steps = row_blocks * outputs * inner
    rows = math.prod(sum(t.size for t in a.tiles) for a in (*b.g, *b.m))
    matrix = rows * outputs * inner / rate
    shift = float(steps * array.rows)
    return matrix, shift, (matrix + shift + steps * fill) / array.weight_planes


def _moves(layout: Layout, b: Blocking, tensors: Sequence[Tensor], machine: Machine) -> tuple[_Move, _Move, _Move]:
    """The transfers of a block of x, w and y, in the middle of the program."""
    spec, named = systolic(machine), {t.name: t for t in tensors}
    places = {axis.name: _middle(axis) for axis in b.outer}
    loads = [i for i in layout.load_x(Affine(), places) if i.op == "load"]
    x = [_move(i.operands[1], named["x"], None, machine) for i in loads]
    tile = None
    if spec.weight_buffer and spec.weight_tile:
        *apart, k, n = layout.w_block
        tiles = math.prod(apart) * -(-k // spec.array.rows) * -(-n // spec.array.columns)
        tile = tiles * spec.weight_tile
    w = _move(layout.w_source(places), named["w"], tile, machine)
    y = _move(layout.y_target(places), named["y"], None, machine)
    whole = _Move(sum(m.channel for m in x), sum(m.link for m in x), max((m.latency for m in x), default=0.0))
    return whole, w, y


def _middle(axis: Axis) -> Place:
    tile = axis.tiles[axis.count // 2]
    return Place(Affine(tile.index), axis.offset + tile.start, tile.size, tile)


def _move(region: Region, tensor: Tensor, touched: int | None, machine: Machine) -> _Move:
    spec, memory = systolic(machine), machine.memories[tensor.memory]
    runs, run_bytes = contiguous_runs(region, tensor)
    if touched is None:
        touched = runs * -(-run_bytes // memory.burst_bytes) * memory.burst_bytes
    latency = memory.latency * machine.clock_hz
    link = link_ticks(touched, memory, machine.clock_hz)
    channel = channel_ticks(touched, runs * run_bytes, runs, math.ceil(latency * TICKS_PER_CYCLE), spec)
    return _Move(max(link, channel) / TICKS_PER_CYCLE, link / TICKS_PER_CYCLE, latency + spec.dma.setup)
