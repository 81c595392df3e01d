"""The whole content of the report as one JSON object, all text finished. `report.typ` sets it and decides nothing."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .charts import gain_chart, rtl_chart, scores_chart, split_chart, validation_chart
from .correctness import checks_table, partial_table, problem_table, verdict_table
from .data import Comparison, Group, Machine, RtlKernel, Run, Standing, Validation
from .findings import headlines, median_bound_ratio, ranking, right, title, utilization
from .frames import rtl_frame, validations_frame
from .roofline import key_chart, roofline_chart
from .tables import (
    RTL_PERCENT,
    area_table,
    density_table,
    figure_table,
    layer_table,
    machine_table,
    rtl_table,
    schedule_table,
    score_table,
    validation_table,
)
from .words import NONE, breakable, day, digits, label, listed, percent, plain, plural, times, whole

Page = dict[str, Any]
Images = dict[str, bytes]


def content(data: Comparison) -> tuple[Page, Images]:
    """The report's content and its figures by file name."""
    images: Images = {}

    def figure(name: str, drawn: bytes | None, alt: str, caption: str) -> Page | None:
        if drawn is None:
            return None
        images[f"{name}.svg"] = drawn
        return {"file": f"{name}.svg", "alt": plain(alt), "caption": breakable(caption)}

    page: Page = {
        "title": breakable(label(title(data), 160)),
        "name": label(title(data), 70),  # where there is one line for it
        "date": _date(data),
        "fidelity": breakable(listed(fidelities(data))),
        "suite": breakable(listed(list(dict.fromkeys(r.suite for r in data.runs)))),
        "subtitle": breakable(f"{listed(list(dict.fromkeys(r.title for r in data.runs)))} · {_date(data)['text']}"),
        "facts": [{"name": breakable(k), "value": breakable(v)} for k, v in facts(data)],
        "headlines": [breakable(x) for x in headlines(data)],
        "scores": {
            "table": score_table(data),
            "figure": figure("scores", scores_chart(data), _scores_alt(data), _SCORES),
        },
        "machines": machine_table(data),
        "split": figure("split", split_chart(data), _split_alt(data), _SPLIT),
        "rooflines": [
            figure(f"roofline{i}", roofline_chart(data, m), _roofline_alt(data, m), f"{m.key}: {m.title}.")
            for i, m in enumerate(data.machines)
        ],
        "key": figure("key", key_chart(data), f"Marks of the groups: {listed([g.title for g in data.groups])}.", ""),
        "gain": figure("gain", gain_chart(data), _gain_alt(data), _GAIN),
        "schedules": [
            {"machine": breakable(m.key), "table": schedule_table(data.layers_of(None, m.key))} for m in data.machines
        ],
        "correctness": {
            "verdicts": verdict_table(data),
            "checks": checks_table(data),
            "problems": problem_table(data),
            "partial": partial_table(data),
        },
        "validation": _validation(data.validations, figure),
        "rtl": _rtl(data.rtl, figure),
        "area": {"modules": area_table(data.areas), "machines": density_table(data)} if data.areas else None,
        "layers": [
            {
                "machine": breakable(m.key),
                "groups": [_layers(data, m, g) for g in data.groups if data.layers_of(g.key, m.key)],
            }
            for m in data.machines
        ],
        "sources": [
            {"title": breakable(f"{m.key}: {m.title}"), "summary": _standing(m), "table": figure_table(m)}
            for m in data.machines
            if m.figures
        ],
        "runs": [_run(run) for run in data.runs],
    }
    page["rooflines"] = [x for x in page["rooflines"] if x]
    return page, images


_SCORES = (
    "Scores. Each mark is a machine; its number is the score in the unit of the group, its place the score relative to"
    " the best machine of that group."
)
_SPLIT = "Where the time of one pass goes. The three parts of a bar add up to the simulated time."
_GAIN = "What searching won. Each mark is a layer."


def fidelities(data: Comparison) -> list[str]:
    """The fidelities that appear in the report."""
    return list(dict.fromkeys([x.fidelity for x in data.layers] or [r.fidelity for r in data.runs]))


def facts(data: Comparison) -> list[tuple[str, str]]:
    """What the title page says of the runs."""
    runs = data.runs
    start, end = min(r.started for r in runs), max(r.finished for r in runs)
    stopped = ", interrupted" if any(r.interrupted for r in runs) else ""
    seeds = list(dict.fromkeys(str(r.seed) for r in runs if r.seed is not None))
    budgets = list(dict.fromkeys(f"{r.budget:,}" for r in runs if r.budget is not None))
    presil = list(dict.fromkeys(_presil(r) for r in runs))
    return [
        *((f"Run {i}" if len(runs) > 1 else "Run", r.name) for i, r in enumerate(runs, start=1)),
        ("Suite", listed(list(dict.fromkeys(r.suite for r in runs)))),
        ("Machines", listed([m.key for m in data.machines])),
        ("Workloads", f"{plural(len(data.groups), 'group')}, {plural(len(data.layers), 'layer')} over all machines"),
        ("Fidelity", listed(fidelities(data))),
        ("Budget", f"{listed(budgets)} schedules timed per workload and machine" if budgets else NONE),
        ("Seed" if len(seeds) == 1 else "Seeds", listed(seeds) if seeds else NONE),
        ("Started", day(start)),
        ("Finished", day(end)),
        ("Finished work", f"{sum(r.done for r in runs):,} of {sum(r.planned for r in runs):,}{stopped}"),
        ("presil", listed(presil)),
    ]


def _presil(run: Run) -> str:
    revision = run.versions.get("revision", "unknown")
    version = run.versions.get("presil", "unknown version")
    dirty = ", with uncommitted changes" if revision.endswith("+") else ""
    return version if revision == "unknown" else f"{version}, revision {revision[:12].rstrip('+')}{dirty}"


def _run(run: Run) -> list[dict[str, str]]:
    """What is needed to repeat a run."""
    dates = f"{day(run.started)} to {day(run.finished)}"
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items()) or NONE
    facts = [("run", run.name), ("command", run.command or NONE), ("dates", dates), ("seed", str(run.seed))]
    return [{"name": breakable(k), "value": breakable(v)} for k, v in (*facts, ("versions", versions))]


def _date(data: Comparison) -> Mapping[str, Any]:
    """The date of the document: when the last run finished."""
    from datetime import UTC, datetime

    latest = max(r.finished or r.started for r in data.runs)
    said = (
        f"Run finished {day(latest)}"
        if all(r.finished for r in data.runs)
        else f"Run stopped before its end, {day(latest)}"
    )
    try:
        at = datetime.fromisoformat(latest)
    except ValueError:
        at = datetime(1980, 1, 1, tzinfo=UTC)
    parts = {"year": at.year, "month": at.month, "day": at.day, "hour": at.hour, "minute": at.minute}
    return {**parts, "second": at.second, "text": day(latest), "said": said}


def _scores_alt(data: Comparison) -> str:
    said = []
    for group in data.groups:
        order = [f"{m.key} {digits(v)}" for m, v in ranking(data, group)]
        said.append(f"{group.title}, {group.score}: {', '.join(order) or 'none'}")
    return f"Scores of the machines, best first. {'; '.join(said)}."


def _split_alt(data: Comparison) -> str:
    said = [f"{m.key} uses {percent(utilization(data.layers_of(None, m.key)))} of its peak" for m in data.machines]
    return f"Stacked bars of where the time goes, per group and machine. Over all groups {listed(said)}."


def _roofline_alt(data: Comparison, machine: Machine) -> str:
    layers = data.layers_of(None, machine.key)
    ratio = times(median_bound_ratio(layers))
    return f"Roofline of {machine.key} with {len(right(layers))} layers; the median one takes {ratio} its bound."


def _gain_alt(data: Comparison) -> str:
    gains = [x.gain for x in data.layers if x.gain]
    middle = times(statistics.median(gains)) if gains else NONE
    return f"Gain of the best over the first right kernel, a mark per layer: {len(gains)} layers, median {middle}."


def _layers(data: Comparison, machine: Machine, group: Group) -> Page:
    layers = data.layers_of(group.key, machine.key)
    score = data.score(group.key, machine.key)
    seconds = sum(x.total_seconds for x in layers)
    cycles = whole(seconds * machine.clock_hz) if seconds else NONE
    value = f"{digits(score.value)} {group.score} ({score.fidelity})" if score and score.value else "no score"
    return {
        "title": breakable(group.title),
        "summary": breakable(f"{value}; {cycles} cycles a pass; {percent(utilization(layers))} of the peak"),
        "table": layer_table(layers),
    }


def _standing(machine: Machine) -> str:
    """How many figures of a machine are published, and how many are not."""
    counts = Counter(f.standing for f in machine.figures)
    order: tuple[Standing, ...] = ("published", "derived", "chosen", "unconfirmed")
    return f"{plural(len(machine.figures), 'figure')}: {listed([f'{counts[s]} {s}' for s in order if counts[s]])}."


def _rtl(rows: Sequence[RtlKernel], figure: Any) -> Page | None:
    if not rows:
        return None
    frame = rtl_frame(rows)
    errors = frame["error_percent"].abs()
    worst = rows[int(errors.argmax())]
    short = f"mean {errors.mean():.2f}%, worst {errors.max():.2f}%, of {plural(len(rows), 'kernel')}"
    summary = (
        f"{plural(len(rows), 'kernel')} that no calibration has seen, on {plural(frame['machine'].nunique(), 'chip')}:"
        f" the mean error of the cycles is {errors.mean():.2f}%, the worst {errors.max():.2f}%"
        f" ({worst.workload} on {worst.machine}); {(errors <= RTL_PERCENT).sum()} lie within {RTL_PERCENT:g}%."
        f" numpy, event model and RTL have the same bits for {frame['equal'].sum()} of {len(rows)}."
    )
    caption = "Cycles of the event model against the RTL. Each mark is a kernel."
    return {
        "summary": breakable(summary),
        "short": short,
        "figure": figure("rtl", rtl_chart(rows), summary, caption),
        "table": rtl_table(rows),
    }


def _validation(rows: Sequence[Validation], figure: Any) -> Page | None:
    if not rows:
        return None
    tested = [row for row in rows if not row.given]
    if not tested:
        return None
    errors = validations_frame(tested)["error_percent"].astype(float).abs()
    summary = (
        f"{plural(len(tested), 'published figure')} compared: the median error is {errors.median():.1f}%,"
        f" the mean {errors.mean():.1f}%, the worst {errors.max():.1f}%;"
        f" {(errors <= 10).sum()} of {len(errors)} lie within 10%."
    )
    if len(tested) < len(rows):
        summary += f" {len(rows) - len(tested)} more were used to describe a machine, and test nothing."
    caption = "Error against published figures. Each mark is a published figure."
    return {
        "summary": summary,
        "figure": figure("validation", validation_chart(tested), summary, caption),
        "table": validation_table(rows),
    }
