"""grouped_matmul on a GPU: as matmul, but a block takes its tiles of w from the group that its rows are of.

Rows of a block divide the aligned tile, so a block has one group. Which one only the table says: blocks side by side
cannot share a copy of w, though those of the same rows can share x.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from presil.simulators.errors import Unsupported
from presil.simulators.formats import size_bytes
from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import Machine
from presil.simulators.program import Affine, Dim, Region

from ...operators.operator import Workload
from ...space import Axis, Emitter, Schedule, Space
from . import schedules
from .contraction import Tile
from .emitter import ContractionEmitter, Plan
from .matmul import COLUMNS, INNER_BYTES, ROWS

Grid = tuple[tuple[str, int], ...]


def space(workload: Workload, machine: Machine) -> Space:
    """As of matmul, with rows that divide the tile. Raises Unsupported where none do."""
    spec = gpu(machine)
    size = size_bytes(schedules.multiply_type(workload, spec).input)
    rows = tuple(r for r in ROWS if workload.int("align") % r == 0)
    if not rows:
        raise Unsupported(f"tiles of {workload.int('align')} rows: blocks have {', '.join(map(str, ROWS))}")
    return Space(
        (
            Axis("rows", rows),
            Axis("columns", schedules.ladder(workload.int("n"), COLUMNS)),
            Axis("inner", schedules.ladder(workload.int("k"), tuple(b // size for b in INNER_BYTES))),
            *schedules.common_axes(spec),
        )
    )


def _grid(workload: Workload, schedule: Schedule) -> tuple[Grid, dict[str, Affine]] | None:
    """The grid, and in its variables the tile (`t`), the block of rows within (`r`) and the block of columns (`n`).

    None where groups of blocks do not fit. Along m and along n blocks are in groups, as matmul has them.
    """
    rows, columns, group = (schedules.number(schedule, a) for a in ("rows", "columns", "group"))
    tiles, within = workload.int("m") // workload.int("align"), workload.int("align") // rows
    across = -(-workload.int("n") // columns)
    if schedule["order"] == "n":
        if across % group:
            return None
        at = {"t": Affine.var("t"), "r": Affine.var("r"), "n": Affine.var("no", group) + Affine.var("ni")}
        return (("no", across // group), ("t", tiles), ("r", within), ("ni", group)), at
    at = {"n": Affine.var("n")}
    if group % within == 0 and tiles % (group // within) == 0:
        several = group // within
        at |= {"t": Affine.var("to", several) + Affine.var("ti"), "r": Affine.var("r")}
        return (("to", tiles // several), ("n", across), ("ti", several), ("r", within)), at
    if within % group == 0:
        at |= {"t": Affine.var("t"), "r": Affine.var("ro", group) + Affine.var("ri")}
        return (("t", tiles), ("ro", within // group), ("n", across), ("ri", group)), at
    return None


@functools.lru_cache(maxsize=16)  # asked again at once: is it legal, how long will it take, emit it
def plan(workload: Workload, machine: Machine, schedule: Schedule) -> Plan:
    """The block and the grid of a schedule."""
    kind = schedules.multiply_type(workload, gpu(machine))
    rows, columns, inner, consumers, cluster = (
        schedules.number(schedule, a) for a in ("rows", "columns", "inner", "consumers", "cluster")
    )
    grid = _grid(workload, schedule)
    wasted = _wasted(workload, schedule, grid is not None)
    sizes, at = grid or ((), {name: Affine() for name in "trn"})
    m, n, own = at["t"] * workload.int("align") + at["r"] * rows, at["n"] * columns, rows // consumers
    k, groups = Affine.var("k", inner), Dim(Affine(), workload.int("groups"))
    tile = Tile(
        rows=rows,
        columns=columns,
        inner=inner,
        steps=(("k", -(-workload.int("k") // inner)),),
        stages=schedules.number(schedule, "stages"),
        consumers=consumers,
        multicast=(cluster, 1),
        x=Region("x", None, (Dim(m, rows), Dim(k, inner))),
        w=Region("w", None, (groups, Dim(k, inner), Dim(n, columns))),
        table=Region("expert", None, (Dim(at["t"], 1),)),
        y=lambda at: Region("y", None, (Dim(m + at["rows"], own), Dim(n, columns))),
        x_shape=(rows, inner),
        w_shape=(inner, columns),
        y_shape=(own, columns),
        x_rows=lambda consumer: (Dim(Affine(consumer * own), own), Dim(Affine(), inner)) if consumers > 1 else (),
    )
    after = schedules.epilogue(workload, kind)
    if workload["bias"] == "yes":
        after = replace(after, bias=lambda _: Region("bias", None, (Dim(n, columns),)))
    return Plan(tile, sizes, kind, after, wasted)


def _wasted(workload: Workload, schedule: Schedule, fits: bool) -> str | None:
    """Why a schedule is no schedule of its own, or None."""
    rows, consumers, cluster = (schedules.number(schedule, a) for a in ("rows", "consumers", "cluster"))
    if not fits:
        return "the groups do not fit the blocks"
    if cluster > 1 and schedule["order"] == "m":
        return "blocks side by side can be of several experts"
    if cluster > 1 and schedules.number(schedule, "group") % cluster:
        return "a cluster is larger than a group"
    if consumers > 1 and (rows % consumers or rows // consumers < 64):
        return "too few rows for the consumers"
    steps = -(-workload.int("k") // schedules.number(schedule, "inner"))
    stages = schedules.number(schedule, "stages")
    if stages > max(2, steps):
        return "more stages than steps"
    if schedule["place"] == "persistent" and steps % stages:
        return "the ring does not end where it starts"
    return None


EMITTER: Emitter = ContractionEmitter("grouped_matmul", space, plan)
