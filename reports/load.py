"""Stored runs as the facts of one comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any

from presil.simulators.errors import BadInput
from presil.suites.runs import NothingRan, readable
from presil.suites.runs import Run as StoredRun
from presil.suites.scoring import Group as StoredGroup
from presil.suites.scoring import Layer as StoredLayer

from .data import (
    RUNS,
    STATUS_MEANING,
    Area,
    Comparison,
    Figure,
    Group,
    Layer,
    Machine,
    Reason,
    RtlKernel,
    Run,
    Score,
    Status,
    Validation,
)

MOST_MACHINES = 6
_STATUSES: Mapping[str, Status] = {"no right kernel": "none", "unsupported": "unsupported", "failed": "failed"}
_EXTENT = ("instructions", "executed_instructions", "elements", "compared_elements")
Body = Mapping[str, Any]


def compare(stored: Sequence[StoredRun]) -> Comparison:
    """All runs side by side. A machine that several runs have is told apart by the run; a run given twice counts once.

    Raises NothingRan without a run, BadInput for more machines than a page can compare.
    """
    runs = list({run.run_id: run for run in stored}.values())
    if not runs:
        raise NothingRan("there is no run to report on; `presil run SUITE` makes one")
    with readable(runs[-1].folder):
        return _compare(runs)


def _compare(runs: Sequence[StoredRun]) -> Comparison:
    keys = _machine_keys(runs)
    if len(keys) > MOST_MACHINES:
        raise BadInput(
            f"a report compares at most {MOST_MACHINES} machines, these runs have {len(keys)}: "
            f"{', '.join(keys.values())}; give fewer runs"
        )
    groups = _group_keys(runs)
    layers, scores = [], []
    for run in runs:
        for group in run.groups:
            for name, _ in _machines(run):
                key = keys[run.run_id, name]
                layers += [_layer(run, groups[group], key, name, layer) for layer in group.layers]
                scores.append(_score(run, group, groups[group], key, name))
    return Comparison(
        runs=tuple(map(_run, runs)),
        machines=tuple(_machine(keys[r.run_id, name], body) for r in runs for name, body in _machines(r)),
        groups=tuple(groups.values()),
        layers=tuple(layers),
        scores=tuple(scores),
        validations=_validations(runs),
        rtl=_rtl(runs),
        areas=_areas(runs),
    )


def _machine_keys(runs: Sequence[StoredRun]) -> dict[tuple[str, str], str]:
    """What each machine of each run is called in the report: its name, with the run where several runs have it."""
    names = [name for run in runs for name, _ in _machines(run)]
    return {
        (run.run_id, name): name if names.count(name) == 1 else f"{name} (run {number})"
        for number, run in enumerate(runs, start=1)
        for name, _ in _machines(run)
    }


def _machines(run: StoredRun) -> list[tuple[str, Body]]:
    """The machines of a run in the order of its suite."""
    return [(name, run.machines[name]) for name in run.facts["machines"]]


def _group_keys(runs: Sequence[StoredRun]) -> dict[StoredGroup, Group]:
    """The groups of all runs. Equal ones are one; a group of the same name but other layers is kept apart."""
    found: dict[StoredGroup, Group] = {}
    for number, run in enumerate(runs, start=1):
        for group in run.groups:
            if group not in found:
                taken = any(group.name == other.name for other in found)
                key = f"{group.name} (run {number})" if taken else group.name
                title = f"{group.title} (run {number})" if taken else group.title
                found[group] = Group(key=key, title=title, score=group.unit)
    return found


def _run(run: StoredRun) -> Run:
    facts = run.facts
    return Run(
        name=run.run_id,
        suite=facts["suite"],
        title=facts.get("title") or facts["suite"],
        started=facts["started_utc"],
        finished=facts.get("finished_utc") or "",
        seed=facts.get("seed"),
        budget=facts.get("budget"),
        fidelity=facts["fidelity"],
        planned=facts["planned"],
        done=facts["finished"],
        interrupted=bool(facts.get("interrupted")),
        versions=dict(facts.get("versions", {})),
        command=facts.get("command", ""),
    )


def _machine(key: str, body: Body) -> Machine:
    return Machine(
        key=key,
        name=body["name"],
        title=body["title"],
        family=body["family"],
        clock_hz=body["clock_hz"],
        cores=body["cores"],
        peaks=dict(body["peak_multiply_adds_per_second"]),
        bandwidths={m["name"]: m["bandwidth_bytes_per_second"] * m.get("efficiency", 1.0) for m in body["memories"]},
        figures=tuple(Figure(f["path"], str(f["value"]), f["source"]) for f in body.get("figures", ())),
    )


def _layer(run: StoredRun, group: Group, key: str, machine: str, layer: StoredLayer) -> Layer:
    item: Body = run.items.get((layer.workload, machine), {})
    operator, _, parameters = layer.workload.partition(":")
    fallback = dict(part.partition("=")[::2] for part in parameters.split(",")).get("dtype", "")
    reasons = [Reason(kind=r["kind"], where=r["where"], detail=r["detail"]) for r in item.get("reasons", ())]
    if not reasons and item.get("reason"):
        reasons = [Reason(kind="", where="", detail=item["reason"])]
    facts: Body = item.get("facts") or {}
    return Layer(
        group=group.key,
        name=layer.name,
        count=layer.count,
        workload=layer.workload,
        operator=item.get("operator", operator),
        dtype=item.get("dtype", fallback),
        machine=key,
        status=_status(item),
        fidelity=item.get("fidelity") or run.facts["fidelity"],
        cycles=item.get("cycles"),
        seconds=item.get("seconds"),
        utilization=item.get("utilization"),
        bound_ratio=item.get("bound_ratio"),
        bound_by=item.get("bound_by") or "",
        bottleneck=item.get("bottleneck") or "",
        schedule=str(item.get("schedule") or ""),
        first_cycles=item.get("first_cycles"),
        space_size=item.get("space_size") or 0,
        evaluated=item.get("evaluated") or 0,
        refused=item.get("refused") or 0,
        multiply_adds=item.get("multiply_adds") or 0,
        traffic_bytes=dict(item.get("traffic_bytes") or {}),
        checks=_checks(facts),
        **{name: int(facts.get(name) or 0) for name in _EXTENT},
        reasons=tuple(reasons),
    )


def _checks(facts: Body) -> dict[str, int]:
    """How much of each check was done, from the facts of a verdict, in words that the report shows."""
    trials = len(facts.get("trials", ()))
    done = {
        "instructions ordered for all timings": facts.get("instructions", 0),
        RUNS: trials,
        "runs repeated under other poison": int(bool(facts.get("other_poison"))),
        "multiply-adds audited": facts.get("multiply_adds", 0),
    }
    return {name: int(number) for name, number in done.items()} if facts else {}


def _status(item: Body) -> Status:
    if not item:
        return "pending"
    if item["status"] == "done":
        return "right" if item.get("verdict", "right") == "right" else "wrong"
    status = _STATUSES.get(item["status"], "failed")
    assert status in STATUS_MEANING
    return status


def _score(run: StoredRun, stored: StoredGroup, group: Group, key: str, machine: str) -> Score:
    found = next(s for s in run.scores if s.group == stored.name and s.machine == machine)
    return Score(
        group=group.key,
        machine=key,
        value=found.value,
        fidelity=run.facts["fidelity"],
        covered=found.covered,
        layers=found.layers,
    )


def _validations(runs: Sequence[StoredRun]) -> tuple[Validation, ...]:
    """The validation rows of all runs' stores, each once, in the order of their ids."""
    bodies = {
        (str(b.get("row")), str(b.get("machine")), str(b.get("metric"))): b for run in runs for b in run.validations
    }
    return tuple(_validation(body) for _, body in sorted(bodies.items()))


def _validation(body: Body) -> Validation:
    return Validation(**_fields_of(Validation, body))


def _rtl(runs: Sequence[StoredRun]) -> tuple[RtlKernel, ...]:
    """The kernels that all runs' stores have beside the RTL, each once, in the order of their ids."""
    bodies = {str(b.get("row")): b for run in runs for b in run.rtl}
    return tuple(RtlKernel(**_fields_of(RtlKernel, body)) for _, body in sorted(bodies.items()))


def _areas(runs: Sequence[StoredRun]) -> tuple[Area, ...]:
    """The modules whose cells all runs' stores have, each once, by name."""
    bodies = {
        (str(b.get("family")), str(b.get("module"))): {"row": b.get("module"), **b} for run in runs for b in run.area
    }
    return tuple(Area(**_fields_of(Area, body)) for _, body in sorted(bodies.items()))


def _fields_of(kind: type[Validation | RtlKernel | Area], body: Body) -> dict[str, Any]:
    """The fields of a stored row. Raises BadInput where one without a default is not there."""
    found = {f.name: body[f.name] for f in fields(kind) if body.get(f.name) is not None}
    lacking = [f.name for f in fields(kind) if f.default is MISSING and f.name not in found]
    if lacking:
        raise BadInput(f"the validation of {body.get('row')} lacks: {', '.join(lacking)}")
    return found
