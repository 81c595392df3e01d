"""conv2d on a GPU as implicit GEMM: the rows of a block are pixels of one image, its steps the taps and channels.

A copy brings the pixels that one tap sees: a strided box of the image, clipped on all sides, so padding is zeros.
"""

from __future__ import annotations

import functools
from dataclasses import replace

from presil.simulators.formats import size_bytes
from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import Machine
from presil.simulators.program import Affine, Dim, Region

from ...operators import operator
from ...operators.operator import Workload
from ...space import Axis, Emitter, Schedule, Space
from . import schedules
from .contraction import Tile
from .emitter import ContractionEmitter, Plan

HEIGHTS = (1, 2, 4, 8, 16)
WIDTHS = (8, 16, 32, 64, 128)
COLUMNS = (16, 32, 64, 96, 128, 192, 256)
INNER_BYTES = (32, 64, 128)
MOST_PIXELS = 256


def space(workload: Workload, machine: Machine) -> Space:
    """Pixels, filters and channels of a block, stages, consumers, place, order of blocks, clusters."""
    spec = gpu(machine)
    size = size_bytes(schedules.multiply_type(workload, spec).input)
    _, out_rows, out_columns, _ = _out_shape(workload)
    groups = workload.int("groups")
    channels, filters = workload.int("c") // groups, workload.int("f") // groups
    return Space(
        (
            Axis("height", schedules.ladder(out_rows, HEIGHTS)),
            Axis("width", schedules.ladder(out_columns, WIDTHS)),
            Axis("columns", schedules.ladder(filters, COLUMNS)),
            Axis("inner", schedules.ladder(channels, tuple(b // size for b in INNER_BYTES))),
            *(axis for axis in schedules.common_axes(spec) if axis.name != "group"),
        )
    )


def _out_shape(workload: Workload) -> tuple[int, int, int, int]:
    n, rows, columns, f = operator("conv2d").tensors(workload)[-1].shape
    return n, rows, columns, f


@functools.lru_cache(maxsize=16)  # asked again at once: is it legal, how long will it take, emit it
def plan(workload: Workload, machine: Machine, schedule: Schedule) -> Plan:
    """The block and the grid of a schedule."""
    kind = schedules.multiply_type(workload, gpu(machine))
    height, width, columns, inner, consumers, cluster = (
        schedules.number(schedule, a) for a in ("height", "width", "columns", "inner", "consumers", "cluster")
    )
    images, out_rows, out_columns, _ = _out_shape(workload)
    groups, stride, padding, dilation = (workload.int(a) for a in ("groups", "stride", "padding", "dilation"))
    channels, filters = workload.int("c") // groups, workload.int("f") // groups
    pixels = (("p", -(-out_rows // height)), ("q", -(-out_columns // width)))
    blocks = (("n", -(-filters // columns)),)
    by_pixels = schedule["order"] == "m"
    grid = (("i", images), ("g", groups), *((*blocks, *pixels) if by_pixels else (*pixels, *blocks)))
    f = Affine.var("g", filters) + Affine.var("n", columns)
    c = Affine.var("k", inner)
    image, own = Dim(Affine.var("i"), 1), height // consumers
    seen_rows = Affine.var("p", height * stride) + Affine.var("a", dilation) + -padding
    seen_columns = Affine.var("q", width * stride) + Affine.var("b", dilation) + -padding
    tile = Tile(
        rows=height * width,
        columns=columns,
        inner=inner,
        steps=(("a", workload.int("r")), ("b", workload.int("s")), ("k", -(-channels // inner))),
        stages=schedules.number(schedule, "stages"),
        consumers=consumers,
        # Blocks side by side share w where pixels change fastest, and x where filters do.
        multicast=(1, cluster) if by_pixels else (cluster, 1),
        x=Region(
            "x",
            None,
            (
                image,
                Dim(seen_rows, height, stride),
                Dim(seen_columns, width, stride),
                Dim(Affine.var("g", channels) + c, inner),
            ),
        ),
        w=Region("w", None, (Dim(Affine.var("a"), 1), Dim(Affine.var("b"), 1), Dim(c, inner), Dim(f, columns))),
        y=lambda at: Region(
            "y",
            None,
            (
                image,
                Dim(Affine.var("p", height) + at["rows"].base // width, own),
                Dim(Affine.var("q", width), width),
                Dim(f, columns),
            ),
        ),
        x_shape=(height * width, inner),
        w_shape=(inner, columns),
        y_shape=(own * width, columns),
        x_rows=lambda consumer: (
            (Dim(Affine(consumer * own * width), own * width), Dim(Affine(), inner)) if consumers > 1 else ()
        ),
    )
    after = schedules.epilogue(workload, kind)
    if workload["bias"] == "yes":
        after = replace(after, bias=lambda _: Region("bias", None, (Dim(f, columns),)))
    return Plan(tile, grid, kind, after, _wasted(workload, schedule, tile, grid))


def _wasted(workload: Workload, schedule: Schedule, tile: Tile, grid: tuple[tuple[str, int], ...]) -> str | None:
    """Why a schedule is no schedule of its own, or None."""
    height, consumers, cluster = (schedules.number(schedule, a) for a in ("height", "consumers", "cluster"))
    if tile.rows > MOST_PIXELS:
        return "too many pixels for a block"
    if consumers > 1 and (height % consumers or tile.rows // consumers < 64):
        return "too few rows for the consumers"
    if workload.int("groups") > 1 and workload.int("f") // workload.int("groups") % tile.columns:
        return "a block reaches into the next group"
    if cluster > 1 and grid[-1][1] % cluster:
        return "a cluster is larger than a group"
    if tile.stages > max(2, tile.count):
        return "more stages than steps"
    if schedule["place"] == "persistent" and tile.count % tile.stages:
        return "the ring does not end where it starts"
    return None


EMITTER: Emitter = ContractionEmitter("conv2d", space, plan)
