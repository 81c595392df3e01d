"""matmul on a GPU: x [batch, m, k] @ w [batch, k, n] in blocks of rows x columns, steps of `inner`."""

from __future__ import annotations

import functools
from dataclasses import replace

from presil.simulators.formats import size_bytes
from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import Machine
from presil.simulators.program import Affine, Dim, Region

from ...operators.operator import Workload
from ...space import Axis, Emitter, Schedule, Space
from . import schedules
from .contraction import Tile
from .emitter import ContractionEmitter, Plan

ROWS = (16, 32, 64, 128, 192, 256)
COLUMNS = (16, 32, 64, 96, 128, 160, 192, 224, 256)
INNER_BYTES = (64, 128, 256)


def space(workload: Workload, machine: Machine) -> Space:
    """Tiles, stages, consumers, place, order of blocks, clusters."""
    spec = gpu(machine)
    kind = schedules.multiply_type(workload, spec)
    size = size_bytes(kind.input)
    return Space(
        (
            Axis("rows", schedules.ladder(workload.int("m"), ROWS)),
            Axis("columns", schedules.ladder(workload.int("n"), COLUMNS)),
            Axis("inner", schedules.ladder(workload.int("k"), tuple(b // size for b in INNER_BYTES))),
            *schedules.common_axes(spec),
        )
    )


@functools.lru_cache(maxsize=16)  # asked again at once: is it legal, how long will it take, emit it
def plan(workload: Workload, machine: Machine, schedule: Schedule) -> Plan:
    """The block and the grid of a schedule."""
    kind = schedules.multiply_type(workload, gpu(machine))
    rows, columns, inner, consumers, group, cluster = (
        schedules.number(schedule, a) for a in ("rows", "columns", "inner", "consumers", "group", "cluster")
    )
    tiles = {"m": -(-workload.int("m") // rows), "n": -(-workload.int("n") // columns)}
    grouped = str(schedule["order"])
    other = "n" if grouped == "m" else "m"
    outer, within = -(-tiles[grouped] // group), group
    grid = (("g", workload.int("batch")), (f"{grouped}o", outer), (other, tiles[other]), (f"{grouped}i", within))
    at = {
        grouped: Affine.var(f"{grouped}o", group) + Affine.var(f"{grouped}i"),
        other: Affine.var(other),
    }
    m, n, own = at["m"] * rows, at["n"] * columns, rows // consumers
    g = Dim(Affine.var("g"), 1)
    steps = (("k", -(-workload.int("k") // inner)),)
    k = Affine.var("k", inner)
    tile = Tile(
        rows=rows,
        columns=columns,
        inner=inner,
        steps=steps,
        stages=schedules.number(schedule, "stages"),
        consumers=consumers,
        # Blocks side by side share w where rows change fastest, and x where columns do.
        multicast=(1, cluster) if grouped == "m" else (cluster, 1),
        x=Region("x", None, (g, Dim(m, rows), Dim(k, inner))),
        w=Region("w", None, (g, Dim(k, inner), Dim(n, columns))),
        y=lambda at: Region("y", None, (g, Dim(m + at["rows"], own), Dim(n, columns))),
        x_shape=(rows, inner),
        w_shape=(inner, columns),
        y_shape=(own, columns),
        x_rows=lambda consumer: (Dim(Affine(consumer * own), own), Dim(Affine(), inner)) if consumers > 1 else (),
    )
    after = schedules.epilogue(workload, kind)
    if workload["bias"] == "yes":
        after = replace(after, bias=lambda _: Region("bias", None, (Dim(n, columns),)))
    return Plan(tile, grid, kind, after, _wasted(workload, schedule, tiles[grouped], group))


def _wasted(workload: Workload, schedule: Schedule, tiles: int, group: int) -> str | None:
    """Why a schedule is no schedule of its own, or None."""
    rows, consumers, cluster = (schedules.number(schedule, a) for a in ("rows", "consumers", "cluster"))
    if tiles % group:
        return "the groups do not fit the blocks"
    if cluster > 1 and group % cluster:
        return "a cluster is larger than a group"
    if consumers > 1 and (rows % consumers or rows // consumers < 64):
        return "too few rows for the consumers"
    if consumers > 1 and workload.int("m") <= rows // consumers * (consumers - 1):
        return "a consumer has no rows"
    steps = -(-workload.int("k") // schedules.number(schedule, "inner"))
    stages = schedules.number(schedule, "stages")
    if stages > max(2, steps):
        return "more stages than steps"
    if schedule["place"] == "persistent" and steps % stages:
        return "the ring does not end where it starts"
    return None


EMITTER: Emitter = ContractionEmitter("matmul", space, plan)
