"""matmul on a systolic machine: x [batch, m, k] @ w [batch, k, n] in blocks bm x bn x bk."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from presil.simulators.machine import Machine
from presil.simulators.program import Affine, Dim, Instruction, Region
from presil.simulators.systolic.spec import Systolic, systolic

from ...operators.operator import Workload
from ...space import Axis as SpaceAxis
from ...space import Emitter, Schedule, Space
from . import schedules
from .assemble import core_offsets, operand_types
from .blocking import Blocking, Dims, Shape, filled
from .emitter import ContractionEmitter
from .tiling import Axis, Places, Tile, cut


@dataclass(frozen=True, slots=True)
class MatmulLayout:
    """Blocks of row-major matrices: x [bm, bk], w [bk, bn], y [bm, bn]."""

    x_block: Shape
    w_block: Shape
    y_block: Shape
    bias: Shape | None
    taps: tuple[Axis, ...] = ()

    def inner_length(self, size: int) -> int:
        """See `Layout`."""
        return size

    def load_x(self, slot: Affine, places: Places) -> Sequence[Instruction]:
        """One transfer."""
        g, m, k = places["g"], places["m"], places["k"]
        source = Region("x", None, (Dim(g.start, 1), Dim(m.start, m.size), Dim(k.start, k.size)))
        return [Instruction("load", (Region("xb", slot, filled((m.size, k.size), self.x_block)), source))]

    def x_signature(self, axis: Axis, tile: Tile) -> object:
        """Sizes say all."""
        return None

    def x_rows(self, places: Places, inner: Dim) -> Dims:
        """See `Layout`."""
        return (Dim(Affine(), places["m"].size), inner)

    def w_source(self, places: Places) -> Region:
        """See `Layout`."""
        g, k, n = places["g"], places["k"], places["n"]
        return Region("w", None, (Dim(g.start, 1), Dim(k.start, k.size), Dim(n.start, n.size)))

    def w_filled(self, places: Places) -> Dims:
        """See `Layout`."""
        return filled((places["k"].size, places["n"].size), self.w_block)

    def w_part(self, places: Places, inner: Dim, outputs: Dim) -> Dims:
        """See `Layout`."""
        return (inner, outputs)

    def y_rows(self, places: Places) -> Dims:
        """See `Layout`."""
        return (Dim(Affine(), places["m"].size),)

    def y_filled(self, places: Places) -> Dims:
        """See `Layout`."""
        return filled((places["m"].size, places["n"].size), self.y_block)

    def y_target(self, places: Places) -> Region:
        """See `Layout`."""
        g, m, n = places["g"], places["m"], places["n"]
        return Region("y", None, (Dim(g.start, 1), Dim(m.start, m.size), Dim(n.start, n.size)))

    def bias_part(self, places: Places) -> Dims:
        """See `Layout`."""
        n = places["n"]
        return (Dim(n.start, n.size),)


def space(workload: Workload, machine: Machine) -> Space:
    """Block sizes, loop order, what stays, buffer counts, edges, dataflow, cores."""
    spec = systolic(machine)
    operand_types(workload, spec)
    m, n, k = (workload.int(name) for name in ("m", "n", "k"))
    array = spec.array
    return Space(
        (
            SpaceAxis("dataflow", tuple(array.dataflows), ordered=False),
            SpaceAxis("bm", schedules.ladder(m, min(8, array.rows), schedules.most_rows(spec))),
            SpaceAxis("bn", schedules.ladder(n, array.columns, schedules.MOST_OUTPUTS)),
            SpaceAxis("bk", schedules.ladder(k, array.rows, k)),
            *schedules.common_axes(machine, {"batch": workload.int("batch"), "m": m, "n": n}),
        )
    )


@functools.lru_cache(maxsize=16)  # asked again at once: is it legal, how long will it take, emit it
def plan(workload: Workload, machine: Machine, schedule: Schedule) -> tuple[MatmulLayout, Blocking]:
    """Layout and blocking of a schedule."""
    spec: Systolic = systolic(machine)
    total = {name: workload.int(name) for name in ("batch", "m", "n", "k")}
    total, offsets = core_offsets(total, schedule["cores"], machine.cores)
    edge = schedules.edge(schedule)
    g = cut("g", total["batch"], 1, edge, offsets["batch"])
    m = cut("m", total["m"], schedules.number(schedule, "bm"), edge, offsets["m"])
    n = cut("n", total["n"], schedules.number(schedule, "bn"), edge, offsets["n"])
    k = cut("k", total["k"], schedules.number(schedule, "bk"), edge)
    blocking = schedules.blocking(schedule, (g,), (m,), n, k, operand_types(workload, spec), spec)
    bias = (workload.int("n"),) if workload["bias"] == "yes" else None
    layout = MatmulLayout((m.largest, k.largest), (k.largest, n.largest), (m.largest, n.largest), bias)
    return layout, blocking


EMITTER: Emitter = ContractionEmitter("matmul", space, plan)
