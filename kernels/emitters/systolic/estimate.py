"""What can be said of a schedule before a program exists: whether it fits, and about how long it takes."""

from __future__ import annotations

import math

from presil.simulators.formats import size_bytes
from presil.simulators.machine import Machine
from presil.simulators.systolic.spec import Systolic, systolic

from ...space import Schedule
from .blocking import ALIGNMENT, Blocking, Epilogue, Layout, columns


def legal(layout: Layout, b: Blocking, epilogue: Epilogue, schedule: Schedule, spec: Systolic) -> str | None:
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


def cycles(layout: Layout, b: Blocking, epilogue: Epilogue, machine: Machine) -> float:
    """About how many cycles: the slowest of array, weights, vector unit and links, and what cannot overlap.

    Each link moves the blocks that the loops load; the array takes the rows of every step or, if that is longer, the
    shift of its weights. A ring of one slot adds what it serialises.
    """
    spec = systolic(machine)
    array, clock = spec.array, machine.clock_hz
    cores = machine.cores if any(a.offset.terms for a in (*b.g, *b.m, b.n)) else 1
    rows = math.prod(a.largest for a in b.m)
    row_blocks = math.prod(a.count for a in (*b.g, *b.m))
    taps = math.prod(a.count for a in layout.taps)
    outputs = sum(-(-columns(t.size, 0, b.arrays)[1] // array.columns) for t in b.n.tiles)
    fill = array.rows + array.columns
    if b.dataflow == "ws":
        inner = taps * sum(-(-layout.inner_length(t.size) // array.rows) for t in b.k.tiles)
        total_rows = math.prod(sum(t.size for t in a.tiles) for a in (*b.g, *b.m))
        shift = array.rows if array.weight_planes > 1 else array.rows + rows + fill
        steps = row_blocks * outputs * inner
        engine = max(total_rows * outputs * inner, steps * shift)
    else:
        inner = taps * sum(layout.inner_length(t.size) for t in b.k.tiles)
        engine = row_blocks * outputs * (inner + b.k.count * (0 if array.result_planes > 1 else array.rows + fill))
    x_bytes = b.x_tiles * math.prod(layout.x_block) * size_bytes(b.input)
    w_block = math.prod(layout.w_block) * size_bytes(b.input)
    if spec.weight_buffer and spec.weight_tile:
        w_block = -(-layout.w_block[-2] // array.rows) * -(-layout.w_block[-1] // array.columns) * spec.weight_tile
    y_bytes = b.y_tiles * math.prod(layout.y_block) * size_bytes(epilogue.dtype)
    links: dict[str, float] = {}
    for memory, moved in (
        (spec.activation_memory, x_bytes + y_bytes),
        (spec.weight_memory, b.w_tiles * w_block),
    ):
        m = machine.memories[memory]
        links[memory] = links.get(memory, 0.0) + cores * moved * clock / (m.bandwidth * m.efficiency)
    vector = b.y_tiles * math.prod(layout.y_block) / spec.vector.lanes
    parts = sorted((engine, vector, *links.values()), reverse=True)
    serial = 0.0
    if b.acc_ring == 1:
        serial += vector + b.y_tiles * fill
    if b.x_ring == 1 or b.w_ring == 1:
        serial += min(engine, max(links.values()))
    latency = max(m.latency for m in machine.memories.values()) * clock
    return parts[0] + 0.1 * sum(parts[1:]) + serial + 2 * latency + 2 * fill
