"""A contraction as a GPU kernel: one warp copies tiles of both operands into shared memory, warpgroups multiply them.

    copies        for each step: wait until all consumers have read the slot; copy x; copy w
    multiply c    for each step: mma of the rows of consumer c. Then the sums go through the epilogue and are stored.

Consumers share the rows of the tile. All tensors are clipped at their edges, so that tiles need not fit. A persistent
kernel copies tiles of its next block while the last one is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from presil.simulators.formats import size_bytes
from presil.simulators.gpu.spec import MultiplyType
from presil.simulators.program import (
    Affine,
    Attribute,
    Buffer,
    Count,
    Dim,
    Instruction,
    Loop,
    Node,
    Place,
    Program,
    Region,
    Semaphore,
    Stream,
    Tensor,
)

REGISTER_BYTES, THREADS = 4, 128  # threads of a warpgroup

Regions = Callable[[dict[str, Affine]], Region]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """What one block computes and how: `rows` x `columns` of the output in steps of `inner`.

    `steps` are the loops over the sum, outermost first; their variables and those of the grid are what `x`, `w` and `y`
    make their regions from. `multicast` says for how many blocks one copy of x or of w serves.
    """

    rows: int
    columns: int
    inner: int
    steps: tuple[tuple[str, int], ...]
    stages: int
    consumers: int
    multicast: tuple[int, int]
    x: Region
    w: Region
    y: Regions  # of the rows of one consumer: given where they begin
    x_shape: tuple[int, ...]
    w_shape: tuple[int, ...]
    y_shape: tuple[int, ...]  # of one consumer
    x_rows: Callable[[int], tuple[Dim, ...]]  # of the slot of x, for a consumer
    table: Region | None = None  # the element that says which entry of the first dimension of w is meant
    y_part: tuple[Dim, ...] = ()  # of the outputs of a consumer, what is stored; all of them if empty

    @property
    def count(self) -> int:
        """Steps in all."""
        found = 1
        for _, trips in self.steps:
            found *= trips
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """What is done to each sum: `op` (`bias`, `requantize`, `cast`) into `out`, or nothing where `op` is empty."""

    op: str
    attributes: tuple[tuple[str, Attribute], ...]
    out: str
    bias: Regions | None  # the part of the bias for the columns of the block


def registers_per_thread(tile: Tile, kind: MultiplyType, epilogue: Epilogue) -> int:
    """Registers that the buffers of one consumer take of each of its threads."""
    sums = tile.rows // tile.consumers * tile.columns
    out = sums * size_bytes(epilogue.out) if epilogue.op else 0
    bias = tile.columns * REGISTER_BYTES if epilogue.bias else 0
    return -(-(sums * REGISTER_BYTES + out + bias) // (REGISTER_BYTES * THREADS))


def shared_bytes(tile: Tile, dtype: str) -> int:
    """Bytes of shared memory of one block."""
    return tile.stages * (tile.rows + tile.columns) * tile.inner * size_bytes(dtype)


def kernel(  # noqa: PLR0917 - the parts of one program
    name: tuple[str, str, str],
    tensors: tuple[Tensor, ...],
    grid: tuple[tuple[str, int], ...],
    place: Place,
    tile: Tile,
    kind: MultiplyType,
    epilogue: Epilogue,
) -> Program:
    """The program. `name`: of the program, the machine, the workload."""
    size = size_bytes(kind.input)
    x = Buffer("xs", kind.input, tile.x_shape, tile.stages, "shared", 0)
    w_at = tile.stages * tile.rows * tile.inner * size
    w = Buffer("ws", kind.input, tile.w_shape, tile.stages, "shared", w_at)
    buffers, semaphores, streams = [x, w], [], [_copies(tile)]
    for consumer in range(tile.consumers):
        own, counts, stream = _consumer(tile, kind, epilogue, consumer, place)
        buffers += own
        semaphores += counts
        streams.append(stream)
    return Program(
        name=name[0],
        machine=name[1],
        workload=name[2],
        tensors=tensors,
        buffers=tuple(buffers),
        semaphores=tuple(semaphores),
        streams=tuple(streams),
        grid=grid,
        place=place,
    )


def _step(tile: Tile) -> Affine:
    """The number of the step, from the variables of its loops."""
    found, factor = Affine(), 1
    for variable, trips in reversed(tile.steps):
        found = found + Affine.var(variable, factor)
        factor *= trips
    return found


def _loops(tile: Tile, body: Sequence[Instruction]) -> Node:
    nodes: tuple[Node, ...] = tuple(body)
    for variable, trips in reversed(tile.steps):
        nodes = (Loop(variable, trips, nodes),)
    return nodes[0]


def _copies(tile: Tile) -> Stream:
    slot = _step(tile)
    full = tuple(Count(f"full{c}") for c in range(tile.consumers))
    empty = tuple(Count(f"empty{c}") for c in range(tile.consumers))
    w = (Region("ws", slot), tile.w)
    body = [
        Instruction("copy", (Region("xs", slot), tile.x), _multicast(tile.multicast[0]), empty, full),
        Instruction("gather", (*w, tile.table), (), (), full)
        if tile.table
        else Instruction("copy", w, _multicast(tile.multicast[1]), (), full),
    ]
    return Stream("copies", (_loops(tile, body),))


def _multicast(blocks: int) -> tuple[tuple[str, Attribute], ...]:
    return (("multicast", blocks),) if blocks > 1 else ()


def _consumer(
    tile: Tile, kind: MultiplyType, epilogue: Epilogue, number: int, place: Place
) -> tuple[list[Buffer], list[Semaphore], Stream]:
    rows = tile.rows // tile.consumers
    base = number * REGISTER_BYTES * THREADS * registers_per_thread(tile, kind, epilogue)
    acc = Buffer(f"acc{number}", kind.accumulator, tile.y_shape, 1, "registers", base)
    at = base + rows * tile.columns * REGISTER_BYTES
    buffers = [acc]
    # `summed` counts multiplications, `taken` says that the sums may be overwritten, `stored` that the output may.
    counts = [
        Semaphore(f"full{number}"),
        Semaphore(f"empty{number}", tile.stages),
        Semaphore(f"summed{number}"),
    ]
    slot = _step(tile)
    accumulate = sum((Affine.var(v) for v, trips in tile.steps if trips > 1), Affine())
    acc_region, first = Region(acc.name, Affine()), Affine(number * rows)
    multiply = Instruction(
        "mma" if kind.engine == "tensor" else "mac",
        (acc_region, Region("xs", slot, tile.x_rows(number)), Region("ws", slot)),
        (("accumulate", accumulate if accumulate.terms else 0),),
        (Count(f"full{number}", 2),),
        (Count(f"empty{number}"), Count(f"summed{number}")),
    )
    persistent = place == "persistent"
    body: list[Node] = []
    if persistent:
        counts.append(Semaphore(f"taken{number}", 1))
        body.append(Instruction("sync", waits=(Count(f"taken{number}"),)))
    summed = (Count(f"summed{number}", tile.count),)
    taken = (Count(f"taken{number}"),) if persistent else ()
    target = tile.y({"rows": first})
    if not epilogue.op:
        acc_stored = Region(acc.name, Affine(), tile.y_part)
        body += [_loops(tile, [multiply]), Instruction("store", (target, acc_stored), (), summed, taken)]
        return buffers, counts, Stream(f"multiply{number}", tuple(body))
    out = Buffer(f"out{number}", epilogue.out, tile.y_shape, 1, "registers", at)
    buffers.append(out)
    counts.append(Semaphore(f"out{number}"))
    operands: tuple[Region, ...] = (Region(out.name, Affine()), acc_region)
    waits: tuple[Count, ...] = summed
    if epilogue.bias is not None:
        bias = Buffer(f"bias{number}", kind.accumulator, (tile.columns,), 1, "registers", at + _bytes(out))
        buffers.append(bias)
        counts.append(Semaphore(f"biased{number}"))
        load = (Region(bias.name, Affine()), epilogue.bias({}))
        body.append(Instruction("load", load, (), (), (Count(f"biased{number}"),)))
        operands = (*operands, Region(bias.name, Affine()))
        waits = (*waits, Count(f"biased{number}"))
    kept: tuple[Count, ...] = ()
    if persistent:
        counts.append(Semaphore(f"stored{number}", 1))
        waits, kept = (*waits, Count(f"stored{number}")), (Count(f"stored{number}"),)
    body += [
        _loops(tile, [multiply]),
        Instruction(epilogue.op, operands, epilogue.attributes, waits, (*taken, Count(f"out{number}"))),
        Instruction("store", (target, Region(out.name, Affine(), tile.y_part)), (), (Count(f"out{number}"),), kept),
    ]
    return buffers, counts, Stream(f"multiply{number}", tuple(body))


def _bytes(buffer: Buffer) -> int:
    size = size_bytes(buffer.dtype) * buffer.slots
    for extent in buffer.shape:
        size *= extent
    return size
