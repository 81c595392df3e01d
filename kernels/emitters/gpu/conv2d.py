"""conv2d on a GPU as implicit GEMM: the rows of a block are pixels of some images, its steps the taps and channels.

A copy brings the pixels that one tap sees: a strided box of the images, clipped on all sides, so padding is zeros.
With groups, a block multiplies filters of one group; of the columns beyond it, which are the next group's, nothing is
stored. Channels beyond the group meet weights that are clipped to zero.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from presil.simulators.formats import size_bytes
from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import Machine
from presil.simulators.program import Affine, Dim, Region

from ...operators import operator
from ...operators.operator import Workload
from ...space import Axis, Emitter, Schedule, Space
from . import schedules
from .contraction import Regions, Tile
from .emitter import ContractionEmitter, Plan

IMAGES = (1, 2, 4, 8, 16, 32, 64)  # powers of two, so that consumers halve a box
HEIGHTS = (1, 2, 4, 8, 16)
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128)
COLUMNS = (16, 32, 64, 96, 128, 192, 256)
INNER_BYTES = (32, 64, 128)
LEAST_PIXELS, MOST_PIXELS = 16, 256  # of a block
LEAST_ROWS = 64  # of one of several consumers: one instruction of a warpgroup


@dataclass(frozen=True, slots=True)
class _Sizes:
    """A workload in the words of the block: filters and channels are those of one group."""

    images: int
    rows: int  # of an output image
    columns: int
    filters: int
    channels: int
    groups: int

    @staticmethod
    def of(workload: Workload) -> _Sizes:
        images, rows, columns, _ = operator("conv2d").tensors(workload)[-1].shape
        groups = workload.int("groups")
        return _Sizes(images, rows, columns, workload.int("f") // groups, workload.int("c") // groups, groups)

    def stored(self, columns: int) -> int:
        """Filters that a block of `columns` stores: all, or what divides a group evenly."""
        if self.groups == 1:
            return columns
        return next(n for n in range(min(columns, self.filters), 0, -1) if self.filters % n == 0)


def space(workload: Workload, machine: Machine) -> Space:
    """Pixels, filters and channels of a block, stages, consumers, place, order of blocks, clusters."""
    spec, sizes = gpu(machine), _Sizes.of(workload)
    size = size_bytes(schedules.multiply_type(workload, spec).input)
    return Space(
        (
            Axis("images", schedules.ladder(sizes.images, IMAGES)),
            Axis("height", schedules.ladder(sizes.rows, HEIGHTS)),
            Axis("width", schedules.ladder(sizes.columns, WIDTHS)),
            Axis("columns", schedules.ladder(sizes.filters, COLUMNS)),
            Axis("inner", schedules.ladder(sizes.channels, tuple(b // size for b in INNER_BYTES))),
            *(axis for axis in schedules.common_axes(spec) if axis.name != "group"),
        )
    )


@functools.lru_cache(maxsize=16)  # asked again at once: is it legal, how long will it take, emit it
def plan(workload: Workload, machine: Machine, schedule: Schedule) -> Plan:
    """The block and the grid of a schedule."""
    kind, sizes = schedules.multiply_type(workload, gpu(machine)), _Sizes.of(workload)
    columns, inner, consumers, cluster = (
        schedules.number(schedule, a) for a in ("columns", "inner", "consumers", "cluster")
    )
    box = _box(schedule)
    rows, stored = box[0] * box[1] * box[2], sizes.stored(columns)
    f = Affine.var("g", sizes.filters) + Affine.var("n", stored)
    c = Affine.var("k", inner)
    tile = Tile(
        rows=rows,
        columns=columns,
        inner=inner,
        steps=(("a", workload.int("r")), ("b", workload.int("s")), ("k", -(-sizes.channels // inner))),
        stages=schedules.number(schedule, "stages"),
        consumers=consumers,
        # Blocks side by side share w where pixels change fastest, and x where filters do.
        multicast=(1, cluster) if schedule["order"] == "m" else (cluster, 1),
        x=_seen(workload, box, Dim(Affine.var("g", sizes.channels) + c, inner)),
        w=Region("w", None, (Dim(Affine.var("a"), 1), Dim(Affine.var("b"), 1), Dim(c, inner), Dim(f, columns))),
        y=_written(box, _part(box, consumers), Dim(f, stored)),
        x_shape=(rows, inner),
        w_shape=(inner, columns),
        y_shape=(rows // consumers, columns),
        x_rows=lambda consumer: (
            (Dim(Affine(consumer * (rows // consumers)), rows // consumers), Dim(Affine(), inner))
            if consumers > 1
            else ()
        ),
        y_part=() if stored == columns else (Dim(Affine(), rows // consumers), Dim(Affine(), stored)),
    )
    after = schedules.epilogue(workload, kind)
    if workload["bias"] == "yes":
        after = replace(after, bias=lambda _: Region("bias", None, (Dim(f, columns),)))
    grid = _grid(sizes, box, -(-sizes.filters // stored), pixels_last=schedule["order"] == "m")
    return Plan(tile, grid, kind, after, _wasted(schedule, sizes, tile, grid))


def _box(schedule: Schedule) -> tuple[int, int, int]:
    """Images, rows and columns of the outputs of a block."""
    images, height, width = (schedules.number(schedule, a) for a in ("images", "height", "width"))
    return images, height, width


def _part(box: tuple[int, int, int], consumers: int) -> tuple[int, int, int]:
    """The box of one consumer: the outermost direction is cut first, so that its pixels lie side by side."""
    images, height, width = box
    left = consumers
    by_images = min(images, left)
    left //= by_images
    by_rows = min(height, left)
    left //= by_rows
    return images // by_images, height // by_rows, width // min(width, left)


def _seen(workload: Workload, box: tuple[int, int, int], channels: Dim) -> Region:
    """The part of x that one tap sees for a box of outputs."""
    stride, padding, dilation = (workload.int(a) for a in ("stride", "padding", "dilation"))
    images, height, width = box
    rows = Affine.var("p", height * stride) + Affine.var("a", dilation) + -padding
    columns = Affine.var("q", width * stride) + Affine.var("b", dilation) + -padding
    dims = (Dim(Affine.var("i", images), images), Dim(rows, height, stride), Dim(columns, width, stride), channels)
    return Region("x", None, dims)


def _written(box: tuple[int, int, int], part: tuple[int, int, int], filters: Dim) -> Regions:
    """Where the outputs of a consumer lie, given the first of its pixels."""
    images, height, width = box

    def region(at: dict[str, Affine]) -> Region:
        row, column = divmod(at["rows"].base, width)
        image, row = divmod(row, height)
        firsts = (
            Affine.var("i", images) + image,
            Affine.var("p", height) + row,
            Affine.var("q", width) + column,
        )
        return Region("y", None, (*(Dim(first, size) for first, size in zip(firsts, part, strict=True)), filters))

    return region


def _grid(sizes: _Sizes, box: tuple[int, int, int], filters: int, *, pixels_last: bool) -> tuple[tuple[str, int], ...]:
    """Image by image, so that what is read again is near; where blocks have whole images, images count as pixels."""
    blocks = (-(-extent // size) for extent, size in zip((sizes.images, sizes.rows, sizes.columns), box, strict=True))
    images, *within = zip(("i", "p", "q"), blocks, strict=True)
    within.sort(key=lambda variable: variable[1] > 1)  # the last one runs over blocks that differ
    slow, fast = ((images,), tuple(within)) if within[-1][1] > 1 else (tuple(within), (images,))
    outputs = (("n", filters),)
    return (*slow, ("g", sizes.groups), *((*outputs, *fast) if pixels_last else (*fast, *outputs)))


def _wasted(schedule: Schedule, sizes: _Sizes, tile: Tile, grid: tuple[tuple[str, int], ...]) -> str | None:
    """Why a schedule is no schedule of its own, or None."""
    cluster, box = schedules.number(schedule, "cluster"), _box(schedule)
    if tile.rows > MOST_PIXELS:
        return "too many pixels for a block"
    if tile.rows < LEAST_PIXELS and tile.rows < sizes.images * sizes.rows * sizes.columns:
        return "too few pixels for a block"
    if tile.consumers > 1 and tile.rows // tile.consumers < LEAST_ROWS:
        return "too few rows for the consumers"
    part = _part(box, tile.consumers)
    extents = (sizes.images, sizes.rows, sizes.columns)
    if any(whole - own >= extent for whole, own, extent in zip(box, part, extents, strict=True)):
        return "a consumer has no pixels"
    narrower = [columns for columns in COLUMNS if columns < tile.columns]
    if sizes.groups > 1 and narrower and sizes.stored(narrower[-1]) == sizes.stored(tile.columns):
        return "fewer columns store as many filters"
    if cluster > 1 and grid[-1][1] % cluster:
        return "a cluster is larger than a group"
    if tile.stages > max(2, tile.count):
        return "more stages than steps"
    if schedule["place"] == "persistent" and tile.count % tile.stages:
        return "the ring does not end where it starts"
    return None


EMITTER: Emitter = ContractionEmitter("conv2d", space, plan)
