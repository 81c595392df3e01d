"""What the runs say: who leads, how near the bound, where the time goes. Arithmetic on stored figures only."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from .data import Comparison, Group, Layer, Machine
from .frames import score_table
from .words import digits, listed, percent, plural, times


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSplit:
    """Seconds of one pass: what the array needs at its peak, what memory adds to that, and what no bound explains."""

    compute: float
    memory: float
    rest: float

    @property
    def total(self) -> float:
        """All seconds of the pass."""
        return self.compute + self.memory + self.rest


def right(layers: Sequence[Layer]) -> list[Layer]:
    """The layers that have a right kernel."""
    return [x for x in layers if x.status == "right" and x.seconds]


def by_time(layers: Sequence[Layer]) -> list[Layer]:
    """The layers, those that take most of a pass first, those without a right kernel before all."""
    return sorted(layers, key=lambda x: (x.status == "right", -x.total_seconds, x.workload))


def time_split(layers: Sequence[Layer], machine: Machine) -> TimeSplit | None:
    """Where the seconds of a pass go; None without a right kernel.

    The stored bound is the larger of array time and memory time, so that the three parts add up to the seconds.
    """
    compute = memory = rest = 0.0
    for layer in right(layers):
        assert layer.seconds is not None
        bound = layer.seconds / max(layer.bound_ratio or 1.0, 1.0)
        peak = machine.peaks.get(layer.dtype, 0.0)
        array = min(layer.multiply_adds / peak if peak else 0.0, bound)
        compute += layer.count * array
        memory += layer.count * (bound - array)
        rest += layer.count * (layer.seconds - bound)
    return TimeSplit(compute=compute, memory=memory, rest=rest) if compute + memory + rest else None


def utilization(layers: Sequence[Layer]) -> float | None:
    """Utilisation weighted by time: the share of the peak that a whole pass reaches."""
    chosen = [x for x in right(layers) if x.utilization is not None]
    seconds = sum(x.total_seconds for x in chosen)
    return sum((x.utilization or 0.0) * x.total_seconds for x in chosen) / seconds if seconds else None


def median_gain(layers: Sequence[Layer]) -> float | None:
    """The median of best over first right kernel."""
    gains = [x.gain for x in layers if x.gain]
    return statistics.median(gains) if gains else None


def median_bound_ratio(layers: Sequence[Layer]) -> float | None:
    """The median of cycles over bound."""
    ratios = [x.bound_ratio for x in right(layers) if x.bound_ratio]
    return statistics.median(ratios) if ratios else None


def ranking(data: Comparison, group: Group) -> list[tuple[Machine, float]]:
    """Machines with a score in this group, best first; ties in the order of the report."""
    found = [(m, s.value) for m in data.machines if (s := data.score(group.key, m.key)) and s.value]
    return sorted(found, key=lambda item: -item[1])


def shared_groups(data: Comparison) -> list[Group]:
    """Groups that every machine has a score in: the only ones over which a mean of machines may be compared."""
    shared = score_table(data).dropna().index
    return [g for g in data.groups if g.key in shared]


def relative_mean(data: Comparison, machine: Machine) -> float | None:
    """Geometric mean, over the shared groups, of this machine's score over the best one's."""
    shared = score_table(data).dropna()
    if shared.empty:
        return None
    return math.exp((shared[machine.key] / shared.max(axis="columns")).map(math.log).mean())


def title(data: Comparison) -> str:
    """The title of the report."""
    suites = list(dict.fromkeys(run.suite for run in data.runs))
    names = [m.name for m in data.machines]
    if len(set(names)) == 1:
        return f"{names[0]} on the {listed(suites)} suite"
    return listed(list(dict.fromkeys(names)))


def headlines(data: Comparison) -> list[str]:
    """Two to four sentences that say what the report found. The first one is the conclusion."""
    layers = right(data.layers)
    if not layers:
        return ["No kernel passed the checks, so that no machine is ranked. The correctness page says why."]
    return [*_leaders(data), *_efficiency(data), *_search(data), *_gaps(data)]


def _leaders(data: Comparison) -> list[str]:
    ranked = [(g, order) for g in data.groups if (order := ranking(data, g))]
    if not ranked:
        return ["No group of workloads is complete on any machine, so that no machine is ranked."]
    if len(data.machines) == 1:
        best = [f"{digits(v[0][1])} {g.score.replace('/s', ' per second')} for {g.title}" for g, v in ranked[:2]]
        return [f"{data.machines[0].key} reaches {listed(best)}."]
    contested = [order for _, order in ranked if len(order) > 1]
    if not contested:
        return [
            f"No two machines share a complete group of workloads: {plural(len(ranked), 'group')} scored, none ranked."
        ]
    wins: dict[str, list[float]] = {}
    for order in contested:
        wins.setdefault(order[0][0].key, []).append(order[0][1] / order[1][1])
    said = []
    for key, margins in sorted(wins.items(), key=lambda item: -len(item[1])):
        low, high = min(margins), max(margins)
        ahead = times(low) if digits(low) == digits(high) else f"{digits(low)} to {times(high)}"
        groups = plural(len(contested), "ranked workload group")
        said.append(f"{key} leads in {len(margins)} of {groups}, at {ahead} the next best.")
    return said


def _efficiency(data: Comparison) -> list[str]:
    found = []
    for machine in data.machines:
        mine = data.layers_of(None, machine.key)
        ratio, share = median_bound_ratio(mine), utilization(mine)
        if ratio and share is not None:
            found.append((ratio, share, f" ({machine.key})" if len(data.machines) > 1 else ""))
    if not found:
        return []
    near, used = sorted(found, key=lambda x: x[0]), sorted(found, key=lambda x: -x[1])
    if len(found) > 3:  # the extremes say enough
        near, used = [near[0], near[-1]], [used[0], used[-1]]
    ratios = listed([f"{times(ratio)}{name}" for ratio, _, name in near])
    shares = listed([f"{percent(share, 0 if share >= 0.095 else 1)}{name}" for _, share, name in used])
    if len(found) > 3:
        ratios, shares = f"between {ratios}", f"between {shares}"
    return [f"The median layer takes {ratios} its roofline bound. Weighted by time, {shares} of the peak is used."]


def _search(data: Comparison) -> list[str]:
    gains = [x.gain for x in data.layers if x.gain]
    if not gains:
        return []
    middle, most = times(statistics.median(gains)), times(max(gains))
    return [f"The best kernels are {middle} as fast as the first right ones in the median, and {most} at most."]


def _gaps(data: Comparison) -> list[str]:
    good, all_layers = len(right(data.layers)), len(data.layers)
    if good == all_layers:
        kernels = len({(x.workload, x.machine) for x in data.layers})
        part = len({(x.workload, x.machine) for x in data.layers if x.partial})
        extent = f"; of {part:,} there was time to run only the beginning on data" if part else ""
        return [f"All {kernels:,} kernels behind these figures passed every check{extent}."]
    missing = f"{all_layers - good:,} of {all_layers:,} layers"
    return [f"{missing} lack a right kernel; groups with such a gap get no score."]
