"""conv2d on a systolic machine: images x rows x columns of outputs against filters, in two lowerings.

direct   a block of x holds the pixels under a block of outputs, halo included, once; every kernel position is a
         product of shifted views of it. The inner length on the array is the channels of one pixel.
im2col   transfers write each kernel position into its own run of channels, so the inner length is r * s * channels:
         more traffic, but a full array where there are few channels. 1x1 kernels have only this one.

Padding is written by `fill` before the pixels; tiles that touch it are peeled.
"""

from __future__ import annotations

import functools

from presil.simulators.formats import size_bytes
from presil.simulators.machine import Machine
from presil.simulators.systolic.spec import Systolic, systolic

from ...operators import operator
from ...operators.operator import Workload
from ...space import Axis as SpaceAxis
from ...space import Emitter, Schedule, Space
from . import schedules
from .assemble import core_offsets, operand_types
from .blocking import Blocking
from .emitter import ContractionEmitter
from .images import DirectLayout, Geometry, Im2colLayout
from .tiling import cut


def space(workload: Workload, machine: Machine) -> Space:
    """Lowering, block sizes, loop order, what stays, buffer counts, edges, dataflow, cores."""
    spec = systolic(machine)
    operand_types(workload, spec)
    array, geometry = spec.array, geometry_of(workload)
    one = workload.int("r") * workload.int("s") == 1
    rows = schedules.most_rows(spec)
    images, groups = workload.int("n"), workload.int("groups")
    filters, channels = workload.int("f") // groups, workload.int("c") // groups
    return Space(
        (
            SpaceAxis("dataflow", tuple(array.dataflows), ordered=False),
            SpaceAxis("lowering", ("im2col",) if one else ("direct", "im2col"), ordered=False),
            SpaceAxis("bi", schedules.ladder(images, 1, rows)),
            SpaceAxis("bh", schedules.ladder(geometry.out_rows, 1, rows)),
            SpaceAxis("bw", schedules.ladder(geometry.out_columns, min(8, array.rows), rows)),
            SpaceAxis("bn", schedules.ladder(filters, array.columns, schedules.MOST_OUTPUTS)),
            SpaceAxis("bk", schedules.ladder(channels, least_channels(workload, spec), channels)),
            *schedules.common_axes(machine, {"images": images, "outputs": filters, "groups": groups}),
        )
    )


def least_channels(workload: Workload, spec: Systolic) -> int:
    """The smallest block of channels: the rows of the array, or less where two blocks of weights would not fit.

    A block of weights holds all kernel positions: 3x3 of 256 x 256 channels are more than the weight buffer of TPU v1.
    """
    have = spec.weight_buffer or spec.scratchpad
    taps, columns = workload.int("r") * workload.int("s"), min(spec.array.columns, workload.int("f"))
    each = taps * columns * size_bytes(workload.word("dtype"))
    channels = spec.array.rows
    while channels > 1 and 2 * channels * each > have:
        channels //= 2
    return channels


@functools.lru_cache(maxsize=16)
def geometry_of(workload: Workload) -> Geometry:
    """Sizes of a workload."""
    _, out_rows, out_columns, _ = operator("conv2d").tensors(workload)[-1].shape
    names = ("h", "w", "r", "s", "stride", "padding", "dilation")
    h, w, r, s, stride, padding, dilation = (workload.int(name) for name in names)
    groups = workload.int("groups")
    return Geometry(
        rows=h,
        columns=w,
        out_rows=out_rows,
        out_columns=out_columns,
        r=r,
        s=s,
        stride=stride,
        padding=padding,
        dilation=dilation,
        channels=workload.int("c") // groups,
        filters=workload.int("f") // groups,
    )


@functools.lru_cache(maxsize=16)  # asked again at once: is it legal, how long will it take, emit it
def plan(workload: Workload, machine: Machine, schedule: Schedule) -> tuple[DirectLayout | Im2colLayout, Blocking]:
    """Layout and blocking of a schedule."""
    spec, geometry = systolic(machine), geometry_of(workload)
    total = {"images": workload.int("n"), "groups": workload.int("groups"), "outputs": geometry.filters}
    total, offsets = core_offsets(total, schedule["cores"], machine.cores)
    edge = schedules.edge(schedule)
    group = cut("g", total["groups"], 1, edge, offsets["groups"])
    image = cut("i", total["images"], schedules.number(schedule, "bi"), edge, offsets["images"])
    row = cut("h", geometry.out_rows, schedules.number(schedule, "bh"), edge)
    column = cut("w", geometry.out_columns, schedules.number(schedule, "bw"), edge)
    n = cut("n", total["outputs"], schedules.number(schedule, "bn"), edge, offsets["outputs"])
    k = cut("k", geometry.channels, schedules.number(schedule, "bk"), edge)
    types = operand_types(workload, spec)
    blocking = schedules.blocking(schedule, (group,), (image, row, column), n, k, types, spec)
    bias = (workload.int("f"),) if workload["bias"] == "yes" else None
    shape = (image.largest, row.largest, column.largest, k.largest, n.largest)
    kind = DirectLayout if schedule["lowering"] == "direct" else Im2colLayout
    return kind(geometry, shape, bias), blocking


EMITTER: Emitter = ContractionEmitter("conv2d", space, plan)
