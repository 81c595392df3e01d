"""The roofline of a machine with its layers as points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from .data import Comparison, Layer, Machine
from .findings import right
from .style import GREY, INK, WIDTH, colour, marker, styled, svg
from .words import label, quantity

_HEIGHT, _ALONE = 2.28, 3.8  # inches: three to a page, or a machine that is compared with none


@dataclass(frozen=True, slots=True)
class Point:
    """A layer in the plot: operations per byte of the memory that binds it, and operations per second."""

    intensity: float
    rate: float
    memory: str
    layer: Layer


def points(machine: Machine, layers: Sequence[Layer]) -> list[Point]:
    """The layers that can be placed: right, with multiply-adds and traffic. Two operations per multiply-add.

    A machine with several memories has a slope for each; a layer is placed by the one its bytes take longest in.
    """
    found = []
    for layer in right(layers):
        moved = {m: b for m, b in layer.traffic_bytes.items() if b and machine.bandwidths.get(m)}
        taken = {m: b / machine.bandwidths[m] for m, b in moved.items()}
        if taken and layer.multiply_adds and layer.seconds:
            memory = max(taken, key=lambda name: taken[name])
            operations = 2.0 * layer.multiply_adds
            found.append(Point(operations / layer.traffic_bytes[memory], operations / layer.seconds, memory, layer))
    return found


def roofline_chart(data: Comparison, machine: Machine) -> bytes | None:
    """The chart, or None where no layer can be placed."""
    layers = data.layers_of(None, machine.key)
    placed = points(machine, layers)
    if not placed:
        return None
    memories = sorted({p.memory for p in placed}, key=lambda name: -machine.bandwidths[name])
    peaks = {d: 2 * machine.peaks[d] for d in dict.fromkeys(x.dtype for x in layers) if d in machine.peaks}
    with styled():
        figure = Figure(figsize=(WIDTH, _HEIGHT if len(data.machines) > 1 else _ALONE), layout="constrained")
        axes = figure.add_subplot()
        _frame(axes, placed, max(peaks.values(), default=max(p.rate for p in placed)), machine, memories)
        _roofs(axes, machine, memories, peaks)
        for index, group in enumerate(data.groups):
            mine = [p for p in placed if p.layer.group == group.key]
            for memory in memories:
                some = [p for p in mine if p.memory == memory]
                hollow = memories.index(memory) > 0
                axes.plot(
                    [p.intensity for p in some],
                    [p.rate for p in some],
                    marker(index),
                    color=colour(index),
                    markersize=4.8,
                    markeredgewidth=0.9 if hollow else 0.4,
                    markeredgecolor=colour(index) if hollow else "white",
                    markerfacecolor="white" if hollow else colour(index),
                    alpha=0.9,
                    linestyle="",
                )
        _label_groups(axes, data, placed)
        return svg(figure)


def key_chart(data: Comparison) -> bytes | None:
    """Which mark is which group: one key for all rooflines. None where no layer can be placed."""
    if not any(points(m, data.layers_of(None, m.key)) for m in data.machines):
        return None
    columns = 3 if max(len(g.title) for g in data.groups) <= 30 else 2
    with styled():
        figure = Figure(figsize=(WIDTH, 0.19 * -(-len(data.groups) // columns) + 0.05))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        for index, group in enumerate(data.groups):
            axes.plot([], [], marker(index), color=colour(index), label=label(group.title), markersize=4.8)
        axes.legend(loc="upper left", ncols=columns, handletextpad=0.2, borderpad=0, borderaxespad=0, labelspacing=0.3)
        return svg(figure)


def _frame(axes: Axes, placed: list[Point], top: float, machine: Machine, memories: list[str]) -> None:
    """Log axes just wide enough for the points, the ridges and the labels."""
    ridges = [top / machine.bandwidths[m] for m in memories]
    low, high = min(p.intensity for p in placed) / 2, max(*ridges, *(p.intensity for p in placed)) * 4
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    axes.set_ylim(min(p.rate for p in placed) / 3, top * 2.4)
    for axis, unit in ((axes.xaxis, ""), (axes.yaxis, "op/s")):
        first, last = (math.log10(x) for x in sorted(axis.get_view_interval()))
        decades = range(math.ceil(first), math.floor(last) + 1)
        axis.set_major_locator(FixedLocator([10.0**d for d in decades]))
        axis.set_minor_locator(NullLocator())
        if unit:
            axis.set_major_formatter(FuncFormatter(lambda x, _: quantity(x, "op/s")))
        else:
            axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    axes.set_xlabel("operations per byte moved")
    axes.grid()


def _roofs(axes: Axes, machine: Machine, memories: list[str], peaks: dict[str, float]) -> None:
    """Slopes of the memories and the flat peaks, each named where it is."""
    left, right_edge = axes.get_xlim()
    bottom, _ = axes.get_ylim()
    top = max(peaks.values(), default=math.inf)
    for index, memory in enumerate(memories):
        bandwidth = machine.bandwidths[memory]
        start, ridge = max(left, bottom / bandwidth), min(top / bandwidth, right_edge)
        dashes = (1, 0) if index == 0 else (4, 2)
        axes.plot([start, ridge], [start * bandwidth, ridge * bandwidth], color=INK, linewidth=1.1, dashes=dashes)
        at = 10 ** (0.45 * math.log10(start) + 0.55 * math.log10(ridge))
        side = (-6, 5) if index == 0 else (6, -5)
        axes.annotate(
            f"{label(memory)} {quantity(bandwidth, 'B/s')}",
            (at, at * bandwidth),
            side,
            textcoords="offset points",
            ha="right" if index == 0 else "left",
            va="bottom" if index == 0 else "top",
            color=INK,
        )
    seen: dict[float, list[str]] = {}
    for dtype, peak in peaks.items():
        seen.setdefault(peak, []).append(dtype)
    for peak, dtypes in seen.items():
        start = peak / max(machine.bandwidths[m] for m in memories)
        axes.plot([max(start, left), right_edge], [peak, peak], color=INK, linewidth=1.1)
        axes.annotate(
            f"{label(', '.join(dtypes))} peak {quantity(peak, 'op/s')}",
            (right_edge, peak),
            (-2, 4),
            textcoords="offset points",
            ha="right",
            color=INK,
        )


def _named(layer: Layer) -> str:
    """The first name of a layer; a workload that has no other name without its number format."""
    return layer.name.partition(",dtype")[0] if layer.name == layer.workload else layer.name.split(",")[0]


def _label_groups(axes: Axes, data: Comparison, placed: list[Point]) -> None:
    """The name of the layer that takes most time in each group, where there is room for it."""
    written: list[tuple[float, float]] = []
    for index, group in enumerate(data.groups):
        mine = [p for p in placed if p.layer.group == group.key]
        if not mine:
            continue
        heaviest = max(mine, key=lambda p: p.layer.total_seconds)
        x, y = axes.transAxes.inverted().transform(axes.transData.transform((heaviest.intensity, heaviest.rate)))
        if all(abs(x - a) > 0.12 or abs(y - b) > 0.07 for a, b in written):  # else the names would lie upon each other
            written.append((x, y))
            axes.annotate(
                label(_named(heaviest.layer), 30),
                (heaviest.intensity, heaviest.rate),
                (5, -9),
                textcoords="offset points",
                color=colour(index),
                fontsize=7.5,
            )
    if len({p.memory for p in placed}) > 1:
        said = "hollow: bound by the dashed memory"
        axes.text(0.99, 0.04, said, transform=axes.transAxes, ha="right", color=GREY, fontsize=8)
