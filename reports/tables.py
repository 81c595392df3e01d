"""Tables of the report as data for the typesetter, and the whole layer table as CSV. All cells are finished text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .data import STATUS_MEANING, Area, Comparison, Layer, Machine, RtlKernel, Standing, Validation
from .findings import (
    by_time,
    median_bound_ratio,
    median_gain,
    ranking,
    relative_mean,
    right,
    shared_groups,
    utilization,
)
from .frames import validations_frame
from .words import NONE, breakable, digits, percent, plural, quantity, times, whole

Align = Literal["left", "right"]
Tone = Literal["", "strong", "muted", "good", "bad"]
Cell = dict[str, str]
Table = dict[str, Any]

LAYER_ROWS = 12  # rows of a layer table in the PDF; the CSV has them all
SCHEDULE_ROWS = 10
VALIDATION_ROWS = 200
RTL_ROWS = 10
RTL_PERCENT = 3.0  # what is promised of a kernel's cycles


def cell(text: str, *, sub: str = "", tone: Tone = "", mono: bool = False) -> Cell:
    """A cell: its text, a small second line, and how it is set."""
    return {"text": breakable(text), "sub": breakable(sub), "tone": tone, "mono": "yes" if mono else ""}


def table(columns: Sequence[tuple[str, Align, str]], rows: Sequence[Sequence[Cell]], *, of: int = 0) -> Table:
    """A table. Columns are (title, alignment, width as `2fr` or `auto`); `of` is how many rows there are in all."""
    heads = [{"title": breakable(title), "align": align, "width": width} for title, align, width in columns]
    cut = f"The first {len(rows)} of {of:,}." if of > len(rows) else ""
    return {"columns": heads, "rows": [list(row) for row in rows], "cut": cut}


def score_table(data: Comparison) -> Table:
    """Groups by machines: score and rank, and the geometric mean below."""
    rows = []
    for group in data.groups:
        order = [m.key for m, _ in ranking(data, group)]
        row = [cell(group.title, sub=group.score)]
        for machine in data.machines:
            score = data.score(group.key, machine.key)
            if score and score.value:
                rank = order.index(machine.key) + 1
                sub = f"rank {rank} of {len(order)}, {score.fidelity}" if len(order) > 1 else score.fidelity
                row.append(cell(digits(score.value), sub=sub, tone="strong" if rank == 1 else ""))
            elif score and score.layers:
                row.append(cell("incomplete", sub=f"{score.covered} of {score.layers} layers right", tone="bad"))
            else:
                row.append(cell(NONE, sub="not run", tone="muted"))
        rows.append(row)
    shared = shared_groups(data)
    if len(data.machines) > 1 and shared:
        means = [relative_mean(data, m) for m in data.machines]
        best = max(x for x in means if x is not None)
        sub = "all groups" if len(shared) == len(data.groups) else f"{len(shared)} of {len(data.groups)} groups"
        row = [cell("Geometric mean", sub=f"share of the best machine, {sub}")]
        row += [cell(percent(x), tone="strong" if x == best else "") for x in means]
        rows.append(row)
    rows.append(
        [
            cell("Known error of the model", sub="against published figures"),
            *(_known_error(data, m) for m in data.machines),
        ]
    )
    return table([("Workload group", "left", "2fr"), *((m.key, "right", "1fr") for m in data.machines)], rows)


def _known_error(data: Comparison, machine: Machine) -> Cell:
    frame = validations_frame(data.validations)
    mine = (frame["machine"] == machine.name) & ~frame["given"].astype(bool)
    errors = frame.loc[mine, "error_percent"].astype(float).abs()
    if errors.empty:
        return cell("not known", tone="muted")
    return cell(f"{errors.median():.1f}%", sub=f"median of {plural(len(errors), 'figure')}")


def machine_table(data: Comparison) -> Table:
    """The machines at a glance."""
    rows = []
    for machine in data.machines:
        mine = data.layers_of(None, machine.key)
        dtypes = [d for d in dict.fromkeys(x.dtype for x in mine) if d in machine.peaks]
        peaks = [f"{d} {quantity(2 * machine.peaks[d], 'op/s')}" for d in dtypes]
        memories = [f"{name} {quantity(x, 'B/s')}" for name, x in machine.bandwidths.items()]
        rows.append(
            [
                cell(machine.key, sub=f"{machine.title} · {machine.family}", tone="strong"),
                cell(quantity(machine.clock_hz, "Hz"), sub=f"{machine.cores} core{'s' * (machine.cores != 1)}"),
                cell("; ".join(peaks) or NONE, sub="; ".join(memories)),
                cell(percent(utilization(mine))),
                cell(times(median_bound_ratio(mine))),
                cell(times(median_gain(mine))),
                cell(f"{len(right(mine))} of {len(mine)}", tone="good" if len(right(mine)) == len(mine) else "bad"),
            ]
        )
    columns: list[tuple[str, Align, str]] = [
        ("Machine", "left", "1.5fr"),
        ("Clock", "left", "auto"),
        ("Peak and memory", "left", "1.4fr"),
        ("Utilisation", "right", "auto"),
        ("Over bound", "right", "auto"),
        ("Search gain", "right", "auto"),
        ("Right", "right", "auto"),
    ]
    return table(columns, rows)


def layer_table(layers: Sequence[Layer]) -> Table:
    """The layers that take most of a pass; those without a right kernel come first."""
    total = sum(x.total_seconds for x in layers)
    rows = []
    for layer in by_time(layers)[:LAYER_ROWS]:
        name = f"{layer.name}  ×{layer.count}" if layer.count > 1 else layer.name
        rows.append(
            [
                cell(name, sub=unless(layer.workload, layer.name)),
                cell(whole(layer.cycles)),
                cell(percent(layer.total_seconds / total) if total and layer.status == "right" else NONE),
                cell(percent(layer.utilization)),
                cell(times(layer.bound_ratio), sub=layer.bound_by),
                cell(short(layer.bottleneck) if layer.status == "right" else problem(layer)),
                cell(
                    layer.status,
                    sub="run in part" if layer.partial else "",
                    tone="good" if layer.status == "right" else "bad",
                ),
            ]
        )
    columns: list[tuple[str, Align, str]] = [
        ("Layer", "left", "2.5fr"),
        ("Cycles", "right", "auto"),
        ("Time", "right", "auto"),
        ("Util.", "right", "auto"),
        ("Bound", "right", "auto"),
        ("Bottleneck", "left", "1.6fr"),
        ("Kernel", "left", "auto"),
    ]
    return table(columns, rows, of=len(layers))


def unless(text: str, shown: str) -> str:
    """`text`, unless it is shown already: a workload of no model has no other name."""
    return "" if text == shown else text


def short(bottleneck: str) -> str:
    """A bottleneck without the semaphore's name, which the CSV has."""
    return bottleneck.partition(" (semaphore ")[0]


def problem(layer: Layer) -> str:
    """Why a layer has no right kernel."""
    first = next(iter(layer.reasons), None)
    if first is None:
        return STATUS_MEANING[layer.status]
    return f"{first.kind} at {first.where}: {first.detail}" if first.kind else first.detail


def schedule_table(layers: Sequence[Layer]) -> Table:
    """The best schedules, where searching won most."""
    found = sorted((x for x in layers if x.gain), key=lambda x: (-(x.gain or 0), x.workload))
    rows = [
        [
            cell(x.name, sub=unless(x.workload, x.name)),
            cell(x.schedule, mono=True),
            cell(whole(x.first_cycles)),
            cell(whole(x.cycles)),
            cell(times(x.gain), tone="strong" if (x.gain or 1.0) >= 1.005 else "muted"),
        ]
        for x in found[:SCHEDULE_ROWS]
    ]
    columns: list[tuple[str, Align, str]] = [
        ("Layer", "left", "1.6fr"),
        ("Best schedule", "left", "2fr"),
        ("First right", "right", "auto"),
        ("Best", "right", "auto"),
        ("Gain", "right", "auto"),
    ]
    return table(columns, rows, of=len(found))


def _tone(row: Validation) -> Tone:
    """Good and bad are for figures that test something."""
    if row.given:
        return "muted"
    return "good" if abs(row.error_percent) <= 10 else "bad"


def validation_table(rows: Sequence[Validation]) -> Table:
    """Published figures beside ours, the largest errors first."""
    order = sorted(rows, key=lambda r: (-abs(r.error_percent), r.row))
    cells = [
        [
            cell(r.row, sub=r.evidence),
            cell(f"{r.workload}, {r.metric}", sub=r.machine),
            cell(f"{digits(r.published, 4)} {r.unit}".strip()),
            cell(f"{digits(r.ours, 4)} {r.unit}".strip()),
            cell(f"{r.error_percent:+.1f}%", tone=_tone(r), sub="given" if r.given else ""),
            cell(r.note or r.source),
        ]
        for r in order[:VALIDATION_ROWS]
    ]
    columns: list[tuple[str, Align, str]] = [
        ("Row", "left", "auto"),
        ("Workload and metric", "left", "1.3fr"),
        ("Published", "right", "auto"),
        ("Ours", "right", "auto"),
        ("Error", "right", "auto"),
        ("Note or source", "left", "1.5fr"),
    ]
    return table(columns, cells, of=len(rows))


def rtl_table(rows: Sequence[RtlKernel]) -> Table:
    """Kernels in the event model beside the RTL, the largest errors first."""
    order = sorted(rows, key=lambda r: (r.equal, -abs(r.error_percent), r.row))
    cells = [
        [
            cell(r.row, sub=r.machine),
            cell(r.workload, sub=r.schedule),
            cell(whole(r.event_cycles)),
            cell(whole(r.rtl_cycles)),
            cell(f"{r.error_percent:+.2f}%", tone="good" if abs(r.error_percent) <= RTL_PERCENT else "bad"),
            cell("equal" if r.equal else "differ", tone="good" if r.equal else "bad"),
        ]
        for r in order[:RTL_ROWS]
    ]
    columns: list[tuple[str, Align, str]] = [
        ("Row", "left", "auto"),
        ("Kernel", "left", "2.5fr"),
        ("Event", "right", "auto"),
        ("RTL", "right", "auto"),
        ("Error", "right", "auto"),
        ("Bits", "left", "auto"),
    ]
    return table(columns, cells, of=len(rows))


def area_table(areas: Sequence[Area]) -> Table:
    """What each module of the RTL takes, in cells."""
    rows = [
        [
            cell(f"{a.family} {a.module}"),
            cell(whole(a.fixed)),
            cell(whole(a.per_unit)),
            cell(a.unit),
            cell(f"{a.worst_fit_percent:.1f}%"),
        ]
        for a in areas
    ]
    columns: list[tuple[str, Align, str]] = [
        ("Module", "left", "1.5fr"),
        ("Cells", "right", "auto"),
        ("and for each", "right", "auto"),
        ("unit", "left", "1fr"),
        ("Fit", "right", "auto"),
    ]
    return table(columns, rows)


def density_table(data: Comparison) -> Table:
    """Machines by the cells of their arrays, were these built as presil's own, beside what they reach."""
    arrays = {a.family: a for a in data.areas if a.module == "array"}
    rows = []
    for machine in data.machines:
        figures = {f.path: f.value for f in machine.figures}
        sizes = [figures.get(f"{machine.family}.array.{name}", "") for name in ("rows", "columns", "count")]
        if machine.family not in arrays or not all(size.isdigit() for size in sizes) or "int8" not in machine.peaks:
            continue
        elements = int(sizes[0]) * int(sizes[1]) * int(sizes[2]) * machine.cores
        area = arrays[machine.family]
        cells = area.fixed + area.per_unit * elements
        rows.append(
            [
                cell(machine.key, tone="strong"),
                cell(whole(elements)),
                cell(quantity(cells, "cells")),
                cell(quantity(2 * machine.peaks["int8"], "op/s")),
                cell(quantity(2 * machine.peaks["int8"] / cells, "op/s")),
                cell(percent(relative_mean(data, machine))),
            ]
        )
    columns: list[tuple[str, Align, str]] = [
        ("Machine", "left", "1fr"),
        ("Elements", "right", "auto"),
        ("Arrays", "right", "auto"),
        ("Peak, int8", "right", "auto"),
        ("Peak per cell", "right", "auto"),
        ("Throughput", "right", "auto"),
    ]
    return table(columns, rows)


def figure_table(machine: Machine) -> Table:
    """Every figure of a machine description with its source."""
    tones: Mapping[Standing, Tone] = {"published": "good", "derived": "", "chosen": "muted", "unconfirmed": "bad"}
    rows = [
        [cell(f.path, mono=True), cell(f.value), cell(f.standing, tone=tones[f.standing]), cell(f.source)]
        for f in machine.figures
    ]
    columns: list[tuple[str, Align, str]] = [
        ("Figure", "left", "1.1fr"),
        ("Value", "left", "auto"),
        ("Standing", "left", "auto"),
        ("Source", "left", "1.7fr"),
    ]
    return table(columns, rows)
