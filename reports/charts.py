"""The figures that compare machines: scores, where the time goes, what searching won, error against silicon."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from .data import Comparison, RtlKernel, Validation
from .findings import TimeSplit, ranking, time_split
from .frames import rtl_frame, validations_frame
from .style import GREY, INK, PALE, SPLIT, WIDTH, colour, marker, quiet, styled, svg
from .words import digits, label

_ROW = 0.36  # inches per row of a chart
_FAR = 100.0  # percent of error beyond which a mark becomes an arrow at the edge


def scores_chart(data: Comparison) -> bytes | None:
    """Each group's machines by score, relative to the best. None where no two machines have one."""
    rows = [(g, order) for g in data.groups if len(order := ranking(data, g)) > 1]
    if not rows:
        return None
    shares = [value / order[0][1] for _, order in rows for _, value in order]
    with styled():
        figure = Figure(figsize=(WIDTH, 0.75 + 0.5 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        _relative_axis(axes, min(shares))
        for y, (_, order) in enumerate(rows):
            axes.plot([order[-1][1] / order[0][1], 1.0], [y, y], color=PALE, linewidth=1.4, zorder=1)
            above, last = True, math.inf
            for machine, value in order:
                index = data.machines.index(machine)
                share = value / order[0][1]
                above = not above if _position(axes, last) - _position(axes, share) < 0.075 else True
                last = share
                axes.plot(share, y, marker(index), color=colour(index), markersize=6.5, zorder=2)
                offset, side = (0, 5) if above else (0, -5), "bottom" if above else "top"
                if len(order) > 4 and machine != order[0][0]:
                    continue  # no room; the table below has them all
                axes.annotate(
                    digits(value),
                    (share, y),
                    offset,
                    textcoords="offset points",
                    ha="center",
                    va=side,
                    color=colour(index),
                )
        axes.set_yticks(range(len(rows)), [label(g.title) for g, _ in rows], color=INK)
        axes.set_ylim(len(rows) - 0.4, -0.65)
        axes.set_xlabel("score relative to the best machine of the group")
        axes.grid(axis="x")
        quiet(axes)
        _machine_legend(figure, data)
        return svg(figure)


def _relative_axis(axes: Axes, low: float) -> None:
    """A linear axis from 0 where the machines are alike, a logarithmic one where they are far apart."""
    if low > 0.04:
        axes.set_xlim(0, 1.08)
        axes.xaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{100 * x:.0f}%"))
        return
    decades = math.ceil(-math.log10(low) + 0.12)
    axes.set_xscale("log")
    axes.set_xlim(10.0**-decades, 2.0)
    axes.xaxis.set_major_locator(FixedLocator([10.0**-d for d in range(decades + 1)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: "best" if x > 0.99 else f"1/{round(1 / x):,}"))


def _position(axes: Axes, share: float) -> float:
    """Where a share stands along the axis, 0 to 1."""
    if not math.isfinite(share):
        return math.inf
    place = axes.transAxes.inverted().transform(axes.transData.transform((share, 0.0)))
    return float(place[0])


def _machine_legend(figure: Figure, data: Comparison) -> None:
    for index, machine in enumerate(data.machines):
        figure.axes[0].plot([], [], marker(index), color=colour(index), label=label(machine.key))
    columns = 3 if len(data.machines) > 4 else len(data.machines)
    figure.legend(loc="outside upper right", ncols=columns, handletextpad=0.2, columnspacing=1.2)


def split_chart(data: Comparison) -> bytes | None:
    """Per group and machine: the shares of array time, memory time and what no bound explains."""
    rows: list[tuple[str, str, TimeSplit]] = []
    for group in data.groups:
        for machine in data.machines:
            split = time_split(data.layers_of(group.key, machine.key), machine)
            if split:
                rows.append((label(group.title), label(machine.key), split))
    if not rows:
        return None
    with styled():
        gaps = _gaps([title for title, _, _ in rows])
        row = 0.21 if len(rows) <= 20 else 0.155  # inches; so that many machines still fit a page
        figure = Figure(figsize=(WIDTH, 0.75 + row * (gaps[-1] + 1)), layout="constrained")
        axes = figure.add_subplot()
        for y, (_, _, split) in zip(gaps, rows, strict=True):
            left = 0.0
            parts = (split.compute, split.memory, split.rest)
            for part, shade, ink in zip(parts, SPLIT, ("white", INK, INK), strict=True):
                share = 100 * part / split.total
                axes.barh(y, share, left=left, height=0.82, color=shade, edgecolor="white", linewidth=0.8)
                if share >= 6:
                    axes.text(left + share / 2, y, f"{share:.0f}%", ha="center", va="center", color=ink, fontsize=8)
                left += share
        axes.set_yticks(gaps, [name for _, name, _ in rows], color=INK)
        for y, (title, _, _) in zip(gaps, rows, strict=True):
            if title not in [t for t, _, _ in rows[: gaps.index(y)]]:
                axes.text(0, y - 0.62, title, color=GREY, fontstyle="italic", va="bottom")
        axes.set_ylim(gaps[-1] + 0.6, gaps[0] - 1.6)
        axes.set_xlim(0, 100)
        axes.xaxis.set_major_locator(FixedLocator([]))
        axes.spines["bottom"].set_visible(False)
        quiet(axes)
        names = ("multiply-adds at the peak", "waiting for memory at its full bandwidth", "above the roofline bound")
        handles = [axes.barh(0, 0, color=shade, label=name) for shade, name in zip(SPLIT, names, strict=True)]
        figure.legend(handles=handles, loc="outside upper right", ncols=3, handlelength=1, columnspacing=1.4)
        return svg(figure)


def _gaps(titles: Sequence[str]) -> list[float]:
    """Heights of rows: one apart, with room for a heading where the title changes."""
    heights: list[float] = []
    at = 0.0
    for index, title in enumerate(titles):
        at += 0.0 if index == 0 else 1.0 if title == titles[index - 1] else 2.2
        heights.append(at)
    return heights


def gain_chart(data: Comparison) -> bytes | None:
    """What the search won: one dot per layer, a lane per group, a block per machine."""
    lanes = [
        (m, g, gains)
        for m in data.machines
        for g in data.groups
        if (gains := sorted(x.gain for x in data.layers_of(g.key, m.key) if x.gain))
    ]
    if not lanes:
        return None
    with styled():
        heights = _gaps([m.key for m, _, _ in lanes])
        figure = Figure(figsize=(WIDTH, 0.6 + 0.2 * (heights[-1] + 1)), layout="constrained")
        axes = figure.add_subplot()
        top = max(max(gains) for _, _, gains in lanes)
        axes.set_xscale("log")
        axes.set_xlim(0.94, max(top * 1.1, 2.1))
        ticks = [t for t in (1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000) if t <= max(top * 1.1, 2.1)]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}×"))
        for y, (machine, _, gains) in zip(heights, lanes, strict=True):
            index = data.machines.index(machine)
            look: dict[str, Any] = {"color": colour(index), "alpha": 0.55, "markersize": 4.5, "markeredgewidth": 0}
            axes.plot(gains, [y] * len(gains), marker(index), **look)
            middle = statistics.median(gains)
            axes.plot([middle, middle], [y - 0.36, y + 0.36], color=INK, linewidth=1.3)
        for y, (machine, _, _) in zip(heights, lanes, strict=True):
            if machine not in [m for m, _, _ in lanes[: heights.index(y)]]:
                axes.text(0.95, y - 0.62, label(machine.key), color=GREY, fontstyle="italic", va="bottom")
        axes.set_yticks(heights, [label(g.title) for _, g, _ in lanes], color=INK)
        axes.set_ylim(heights[-1] + 0.6, heights[0] - 1.6)
        axes.grid(axis="x")
        axes.set_xlabel("cycles of the first right kernel over those of the best; the bar is the median")
        quiet(axes)
        return svg(figure)


def rtl_chart(rows: Sequence[RtlKernel]) -> bytes | None:
    """Cycles of the event model over those of the RTL: a mark per kernel, and what is promised as a band."""
    if not rows:
        return None
    frame = rtl_frame(rows)
    reach = [0.8 * frame["rtl_cycles"].min(), 1.25 * frame["rtl_cycles"].max()]
    with styled():
        figure = Figure(figsize=(WIDTH, 0.52 * WIDTH), layout="constrained")
        axes = figure.add_subplot()
        axes.fill_between(reach, [0.97 * x for x in reach], [1.03 * x for x in reach], color="#edf1f4", linewidth=0)
        axes.plot(reach, reach, color=GREY, linewidth=0.8)
        for index, (machine, some) in enumerate(frame.groupby("machine", sort=False)):
            look: dict[str, Any] = {"color": colour(index), "alpha": 0.75, "markeredgewidth": 0, "markersize": 5}
            axes.plot(list(some["rtl_cycles"]), list(some["event_cycles"]), marker(index), label=machine, **look)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(*reach)
        axes.set_ylim(*reach)
        for axis in (axes.xaxis, axes.yaxis):  # mathtext is no text in an SVG whose text stays text
            axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
            axis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("cycles on the RTL")
        axes.set_ylabel("cycles in the event model; the band is ±3%")
        axes.legend(loc="upper left", frameon=False)
        quiet(axes)
        return svg(figure)


def validation_chart(rows: Sequence[Validation]) -> bytes | None:
    """Error of each published row, a lane per set of rows."""
    if not rows:
        return None
    sets = validations_frame(rows).groupby("row_set", sort=False)["error_percent"].agg(list)
    with styled():
        figure = Figure(figsize=(WIDTH, 0.7 + _ROW * len(sets)), layout="constrained")
        axes = figure.add_subplot()
        axes.axvspan(-10, 10, color="#edf1f4", linewidth=0)
        axes.axvline(0, color=GREY, linewidth=0.8)
        reach = min(max(15.0, 1.1 * max(abs(r.error_percent) for r in rows)), _FAR)
        for y, errors in enumerate(sets):
            look: dict[str, Any] = {"color": colour(0), "alpha": 0.6, "markeredgewidth": 0, "clip_on": False}
            inside = [e for e in errors if abs(e) <= reach]
            axes.plot(inside, [y] * len(inside), "o", **look)
            for sign, arrow in ((1, ">"), (-1, "<")):
                outside = [e for e in errors if sign * e > reach]
                axes.plot([sign * reach] * len(outside), [y] * len(outside), arrow, **look)
        axes.set_xlim(-reach, reach)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:+.0f}%" if x else "0"))
        axes.set_yticks(range(len(sets)), [label(s) for s in sets.index], color=INK)
        axes.set_ylim(len(sets) - 0.5, -0.5)
        axes.set_xlabel("ours against published; the band is ±10%, an arrow is further out")
        quiet(axes)
        return svg(figure)
