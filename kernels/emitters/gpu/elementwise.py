"""add, multiply or relu on a GPU: each block is one warpgroup that streams tiles through its registers.

    for the first `slots` tiles: load
    for each tile: compute in place, store, and once stored load the tile `slots` further on

Tiles of a block lie one below the other. All tensors are clipped at their edges, so that tiles need not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from presil.simulators.formats import size_bytes
from presil.simulators.machine import Machine
from presil.simulators.program import (
    Affine,
    Buffer,
    Count,
    Dim,
    Instruction,
    Node,
    Program,
    Region,
    Semaphore,
    Stream,
)

from ...operators.operator import Workload
from ...space import Axis, Emitter, Schedule, Space
from . import streaming
from .schedules import ladder, number, tensors

ROWS = (1, 2, 4, 8, 16, 32)
COLUMNS = (128, 256, 512, 1024, 2048, 4096, 8192)


@dataclass(frozen=True, slots=True)
class Plan:
    """Tiles of `rows` x `columns`; a block takes `tiles` of them, `slots` at a time. `grid`: blocks down and across."""

    kind: str
    dtype: str
    inputs: tuple[str, ...]
    rows: int
    columns: int
    tiles: int
    slots: int
    grid: tuple[int, int]

    @property
    def tile_bytes(self) -> int:
        """Of one operand."""
        return self.rows * self.columns * size_bytes(self.dtype)


def plan(workload: Workload, schedule: Schedule) -> Plan:
    """The blocks of a schedule."""
    rows, columns, tiles = (number(schedule, a) for a in ("rows", "columns", "tiles"))
    kind = workload.word("kind")
    return Plan(
        kind=kind,
        dtype=workload.word("dtype"),
        inputs=("x",) if kind == "relu" else ("x", "z"),
        rows=rows,
        columns=columns,
        tiles=tiles,
        slots=number(schedule, "slots"),
        grid=(-(-workload.int("rows") // (rows * tiles)), -(-workload.int("columns") // columns)),
    )


class ElementwiseEmitter:
    """See `space.Emitter`."""

    operator = "elementwise"

    def space(self, workload: Workload, machine: Machine) -> Space:
        """Rows and columns of a tile, tiles of a block, and how many of them are on their way at once."""
        return Space(
            (
                Axis("rows", ladder(workload.int("rows"), ROWS)),
                Axis("columns", ladder(workload.int("columns"), COLUMNS)),
                Axis("tiles", (1, 2, 4, 8)),
                Axis("slots", (1, 2, 4)),
            )
        )

    def legal(self, workload: Workload, machine: Machine, schedule: Schedule) -> str | None:
        """Registers, and axes that would do nothing."""
        found = plan(workload, schedule)
        if found.slots > found.tiles:
            return "more slots than tiles"
        if workload.int("rows") <= (found.grid[0] * found.tiles - 1) * found.rows:
            return "a tile has no rows"
        return streaming.refused(_registers(found), 0, 0, machine)

    def prior_cycles(self, workload: Workload, machine: Machine, schedule: Schedule) -> float:
        """See `streaming.cycles`."""
        found = plan(workload, schedule)
        held = streaming.resident(_registers(found), 0, 0, machine)
        moved = found.tile_bytes * found.tiles
        load = streaming.Load(
            read=len(found.inputs) * moved,
            written=moved,
            cached=0,
            vector=found.rows * found.columns * found.tiles / streaming.lanes(found.kind, machine),
            tiles=found.tiles,
            slots=found.slots,
        )
        return streaming.cycles(load, found.grid[0] * found.grid[1], held, machine)

    def lower(self, workload: Workload, machine: Machine, schedule: Schedule) -> Program:
        """The program."""
        found = plan(workload, schedule)
        semaphores = [Semaphore("loaded"), Semaphore("computed")]
        if found.tiles > found.slots:
            semaphores.append(Semaphore("stored"))
        return Program(
            name=workload.operator,
            machine=machine.name,
            workload=str(workload),
            tensors=tensors(workload, machine),
            buffers=tuple(
                Buffer(
                    f"{name}b",
                    found.dtype,
                    (found.rows, found.columns),
                    found.slots,
                    "registers",
                    i * found.slots * found.tile_bytes,
                )
                for i, name in enumerate(found.inputs)
            ),
            semaphores=tuple(semaphores),
            streams=(Stream("tiles", _body(found)),),
            grid=(("down", found.grid[0]), ("across", found.grid[1])),
            place="dispatch",
        )


def _registers(found: Plan) -> int:
    """Bytes of the register buffers of a block."""
    return len(found.inputs) * found.slots * found.tile_bytes


def _body(found: Plan) -> tuple[Node, ...]:
    """All tiles of one block."""
    later = found.tiles - found.slots
    first = streaming.counted("first", found.slots, lambda at: _loads(found, at, ()))
    last = streaming.counted("last", found.slots, lambda at: _results(found, at + later, ()))
    if not later:
        return (*first, *last)
    stored = (Count("stored"),)
    steady = streaming.counted(
        "tile", later, lambda at: (*_results(found, at, stored), *_loads(found, at + found.slots, stored))
    )
    return (*first, *steady, *last)


def _loads(found: Plan, tile: Affine, waits: Sequence[Count]) -> list[Node]:
    """Of one tile of all operands; its slot must be free when `waits` are over."""
    rows = Affine.var("down", found.tiles * found.rows) + tile * found.rows
    box = (Dim(rows, found.rows), Dim(Affine.var("across", found.columns), found.columns))
    return [
        Instruction(
            "load",
            (Region(f"{name}b", tile), Region(name, None, box)),
            waits=tuple(waits) if name == "x" else (),
            signals=(Count("loaded"),),
        )
        for name in found.inputs
    ]


def _results(found: Plan, tile: Affine, signals: Sequence[Count]) -> list[Node]:
    """Of one tile: computed in place of x, and stored."""
    rows = Affine.var("down", found.tiles * found.rows) + tile * found.rows
    box = (Dim(rows, found.rows), Dim(Affine.var("across", found.columns), found.columns))
    operands = tuple(Region(f"{name}b", tile) for name in ("x", *found.inputs))
    loaded = (Count("loaded", len(found.inputs)),)
    return [
        Instruction(found.kind, operands, (), loaded, (Count("computed"),)),
        Instruction("store", (Region("y", None, box), operands[0]), (), (Count("computed"),), tuple(signals)),
    ]


EMITTER: Emitter = ElementwiseEmitter()
