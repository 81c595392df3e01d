"""Scores: the ranked figures of a suite, from the seconds of its layers.

A group of a model runs its layers one after the other: its seconds are the sum of `count * seconds`, and its score is
the work of one pass over them. Workloads that belong to no model have nothing to sum: they are scored by the geometric
mean of their rates. A score stands only where every layer has a right kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Unit = Literal["inferences/s", "tokens/s", "workloads/s"]
Pair = tuple[str, str]  # workload, machine


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of a model: its workload, and how often the model has it under other names."""

    name: str
    workload: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that are scored together. One pass over them does `amount` of `unit` (times a second)."""

    name: str
    title: str
    unit: Unit
    amount: float
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score of a group on a machine; `value` is None, with the `reason`, where it cannot be given.

    `covered` of `layers` have a right kernel, counted with their repetitions.
    """

    group: str
    machine: str
    unit: Unit
    value: float | None
    covered: int
    layers: int
    formula: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Rank:
    """A machine's place: the geometric mean, over groups that all have a score in, of its score over the best one."""

    machine: str
    relative: float | None
    groups: int


def score(group: Group, machine: str, items: Mapping[Pair, Mapping[str, Any]]) -> Score:
    """The score of one group on one machine, from the finished items."""
    covered, lacking, total, logs = 0, "", 0.0, 0.0
    layers = sum(layer.count for layer in group.layers)
    for layer in group.layers:
        item = items.get((layer.workload, machine))
        if item is None or item["status"] != "done":
            lacking = lacking or f"{layer.name}: {item['reason'] if item else 'not run'}"
            continue
        covered += layer.count
        total += layer.count * item["seconds"]
        logs += layer.count * math.log(item["seconds"])
    if group.unit == "workloads/s":
        formula = f"geometric mean of 1 / seconds over {layers} workloads"
        value = math.exp(-logs / layers) if layers else 0.0
    else:
        formula = f"{group.amount:g} / sum of count * seconds over {layers} layers"
        value = group.amount / total if total else 0.0
    return Score(
        group=group.name,
        machine=machine,
        unit=group.unit,
        value=None if lacking or not layers else value,
        covered=covered,
        layers=layers,
        formula=formula,
        reason=lacking or None,
    )


def rank(groups: Sequence[Group], machines: Sequence[str], scores: Sequence[Score]) -> tuple[Rank, ...]:
    """The machines, best first; those without a common figure last, in the order given."""
    values = {(s.group, s.machine): s.value for s in scores}
    shared = [g.name for g in groups if all(values.get((g.name, m)) for m in machines)]
    ranks = []
    for machine in machines:
        logs = [math.log(_value(values, g, machine) / max(_value(values, g, m) for m in machines)) for g in shared]
        relative = math.exp(sum(logs) / len(logs)) if logs else None
        ranks.append(Rank(machine, relative, len(shared)))
    return tuple(sorted(ranks, key=lambda r: -(r.relative or 0.0)))


def _value(values: Mapping[Pair, float | None], group: str, machine: str) -> float:
    value = values[group, machine]
    assert value is not None
    return value
