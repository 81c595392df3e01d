"""The schedule space of contractions, and a schedule as a blocking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from presil.simulators.machine import Machine
from presil.simulators.systolic.spec import Systolic

from ...space import Axis as SpaceAxis
from ...space import Choice, Schedule
from .blocking import Blocking
from .tiling import Axis, Edge

MOST_OUTPUTS = 4096  # columns of a block


def ladder(extent: int, unit: int, most: int) -> tuple[int, ...]:
    """`extent` and the powers of two times `unit` below it, up to `most`, ascending."""
    steps = []
    size = unit
    while size < min(extent, most + 1):
        steps.append(size)
        size *= 2
    return (*steps, extent) if extent <= most or not steps else tuple(steps)


def most_rows(spec: Systolic) -> int:
    """Rows of a block: no more than the accumulator has words."""
    return spec.accumulator // 4


def common_axes(machine: Machine, shared: Mapping[str, int]) -> tuple[SpaceAxis, ...]:
    """The axes that all contractions have. `shared`: the dimensions that cores can share, with their extents."""
    splits: list[Choice] = [name for name, size in shared.items() if machine.cores > 1 and not size % machine.cores]
    return (
        SpaceAxis("order", ("mn", "nm"), ordered=False),
        SpaceAxis("x_keep", (0, 1), ordered=False),
        SpaceAxis("w_keep", (0, 1), ordered=False),
        SpaceAxis("x_slots", (1, 2, 3)),
        SpaceAxis("w_slots", (1, 2, 3, 4)),
        SpaceAxis("acc_slots", (1, 2)),
        SpaceAxis("y_slots", (1, 2)),
        SpaceAxis("edge", ("peel", "even"), ordered=False),
        SpaceAxis("cores", (*splits, "1"), ordered=False),
    )


def number(schedule: Schedule, axis: str) -> int:
    """A choice that is a number."""
    value = schedule[axis]
    assert isinstance(value, int), axis
    return value


def edge(schedule: Schedule) -> Edge:
    """How edges are cut."""
    return cast(Edge, schedule["edge"])


def blocking(  # noqa: PLR0917 - both operators have them at hand in this order
    schedule: Schedule,
    g: tuple[Axis, ...],
    m: tuple[Axis, ...],
    n: Axis,
    k: Axis,
    types: tuple[str, str],
    spec: Systolic,
) -> Blocking:
    """The blocking of a schedule over axes that are already cut."""
    return Blocking(
        g=g,
        m=m,
        n=n,
        k=k,
        order=str(schedule["order"]),
        x_keep=bool(schedule["x_keep"]),
        w_keep=bool(schedule["w_keep"]),
        x_slots=number(schedule, "x_slots"),
        w_slots=number(schedule, "w_slots"),
        acc_slots=number(schedule, "acc_slots"),
        y_slots=number(schedule, "y_slots"),
        dataflow=str(schedule["dataflow"]),
        arrays=min(spec.array.count, *(t.size for t in n.tiles)),
        input=types[0],
        accumulator=types[1],
    )
