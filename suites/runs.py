"""A run: one execution of a suite, stored whole.

It is three kinds of record: `run`, written first, with all inputs, versions and seeds; one `item` per workload and
machine, named by the digest of everything its result depends on, so that a later run finds it again; and `end`, which
says which items are the run's. A run that was killed has no `end`: its items are then found by their names.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from presil.simulators.errors import BadInput, nearest
from presil.simulators.machine import Machine

from .scoring import Group, Layer, Pair, Rank, Score, rank, score
from .store import Body, Record, Store, digest_of
from .suite import Suite

DEFAULT_FOLDER = Path("runs")
DONE = "done"
SHOWN = ("workload", "machine", "status", "reason", "cycles", "seconds", "verdict")


class NothingRan(BadInput):
    """There is no run, or none of its work was finished. Never looks like success: the CLI ends with code 3."""


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of work: a workload on a machine. `key` is the digest of everything its result depends on."""

    key: str
    workload: str
    machine: Machine
    budget: int
    seed: int
    check_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A stored run, as a report reads it. `items` lacks those that were not finished."""

    run_id: str
    folder: Path
    facts: Body
    machines: Mapping[str, Body]
    groups: tuple[Group, ...]
    items: Mapping[Pair, Body]
    scores: tuple[Score, ...]
    ranks: tuple[Rank, ...]
    validations: tuple[Body, ...]
    rtl: tuple[Body, ...] = ()
    area: tuple[Body, ...] = ()


def plan_items(suite: Suite, groups: Sequence[Group], versions: Mapping[str, str]) -> tuple[Item, ...]:
    """Every distinct workload on every machine, once: layers of equal shape share one item."""
    workloads = dict.fromkeys(layer.workload for group in groups for layer in group.layers)
    made_by = {name: versions[name] for name in ("presil", "numpy", "code")}
    same = {"budget": suite.budget, "seed": suite.seed, "check_seconds": suite.check_seconds}
    return tuple(
        Item(
            key=digest_of({"workload": workload, "machine": machine.digest, "by": made_by, **same}),
            workload=workload,
            machine=machine,
            budget=suite.budget,
            seed=suite.seed,
            check_seconds=suite.check_seconds,
        )
        for workload in workloads
        for machine in suite.machines
    )


def start_run(store: Store, items: Sequence[Item], groups: Sequence[Group], facts: Body, machines: Body) -> Record:
    """Stores the `run` record; its key is the run's id: the time, the suite's name and a digest of the inputs."""
    now = dt.datetime.now(tz=dt.UTC)
    body = {
        **facts,
        "started_utc": now.isoformat(timespec="seconds"),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "fidelity": "event",
        "planned": len(items),
        "machine_facts": machines,
        "groups": [asdict(group) for group in groups],
        "keys": [[item.workload, item.machine.name, item.key] for item in items],
    }
    # The clock's nanoseconds tell two runs apart that start within one second.
    name = f"{now:%Y%m%dT%H%M%S}-{facts['suite']}-{digest_of([body, time.time_ns()])[:8]}"
    return store.put("run", name, {**body, "run": name})


def end_run(
    store: Store, run_id: str, records: Sequence[Record], failures: Sequence[Body], *, interrupted: bool
) -> None:
    """Stores the `end` record: which items are the run's, what failed, and whether it was stopped."""
    body = {
        "run": run_id,
        "finished_utc": _now(),
        "interrupted": interrupted,
        "items": {record.key: record.digest for record in records},
        "failures": list(failures),
    }
    store.put("end", run_id, body)


def open_run(place: str | Path | None = None) -> Run:
    """A stored run: an id or its unique beginning (in `runs/`, or as `FOLDER/ID`), or a folder (its newest run).

    Raises NothingRan where there is no run, or where none of its items was finished; CorruptRecord for damage,
    BadInput for records that another presil wrote.
    """
    store, name = _find_place(Path(place or DEFAULT_FOLDER))
    runs = {key: (kind, key, digest) for kind, key, digest in sorted(store.names()) if kind == "run"}
    if not runs:
        raise NothingRan("there is no run here; `presil run SUITE` makes one", file=str(store.folder))
    matching = [key for key in runs if key.startswith(name)] if name else [max(runs)]
    if len(matching) != 1:
        what = "is not unique" if matching else "is unknown"
        hint = nearest(name, runs)
        latest = ", ".join(sorted(runs)[-8:])
        raise NothingRan(f"the run '{name}' {what}{hint}; there are: {latest}", file=str(store.folder))
    with readable(store.folder):
        return _assemble(store, store.read(*runs[matching[0]]))


@contextlib.contextmanager
def readable(folder: Path) -> Iterator[None]:
    """Where records are taken apart: BadInput if one of them lacks what this presil looks for, or has it otherwise."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(
            f"a record of the run is not what this presil writes ({type(error).__name__}: {error}): "
            "use the presil that wrote it, or run again",
            file=str(folder),
        ) from error


def read_items(store: Store, keys: Sequence[str]) -> dict[str, Record]:
    """The finished items by key. Where two runs finished one, either may be taken: their results are equal."""
    wanted = set(keys)
    rows = {key: (kind, key, digest) for kind, key, digest in sorted(store.names()) if kind == "item" and key in wanted}
    return {key: store.read(*row) for key, row in rows.items()}


def _find_place(place: Path) -> tuple[Store, str]:
    if place.is_dir():
        return Store(place), ""
    if len(place.parts) == 1:
        return Store(DEFAULT_FOLDER), place.name
    return Store(place.parent), place.name


def _assemble(store: Store, record: Record) -> Run:
    body = record.body
    ends = store.find("end", record.key)
    end = ends[-1].body if ends else None
    keys = {key: (workload, machine) for workload, machine, key in body["keys"]}
    if end:
        records = {key: store.read("item", key, digest) for key, digest in end["items"].items()}
    else:
        records = read_items(store, list(keys))
    items: dict[Pair, Body] = {keys[key]: found.body for key, found in records.items()}
    failures = end["failures"] if end else []
    for failure in failures:
        items[failure["workload"], failure["machine"]] = failure
    if not any(item["status"] == DONE for item in items.values()):
        reasons = sorted({item["reason"] for item in items.values()})
        detail = f": {'; '.join(reasons[:3])}" if reasons else ""
        raise NothingRan(f"nothing of the run {record.key} was measured{detail}", file=str(store.folder))
    groups = tuple(Group(**{**g, "layers": tuple(Layer(**layer) for layer in g["layers"])}) for g in body["groups"])
    scores = tuple(score(group, machine, items) for group in groups for machine in body["machines"])
    facts = {
        **{name: value for name, value in body.items() if name not in {"machine_facts", "groups", "keys"}},
        "finished_utc": end["finished_utc"] if end else None,
        "interrupted": end is None or end["interrupted"],
        "finished": sum(item["status"] != "failed" for item in items.values()),
        "failed": sum(item["status"] != DONE for item in items.values()),
    }
    return Run(
        run_id=record.key,
        folder=store.folder,
        facts=facts,
        machines=body["machine_facts"],
        groups=groups,
        items=items,
        scores=scores,
        ranks=rank(groups, body["machines"], scores),
        validations=tuple(found.body for found in store.find("validation")),
        rtl=tuple(found.body for found in store.find("rtl")),
        area=tuple(found.body for found in store.find("area")),
    )


def _now() -> str:
    return dt.datetime.now(tz=dt.UTC).isoformat(timespec="seconds")


def to_json(run: Run) -> Body:
    """What `presil run --json` prints."""
    facts: dict[str, Any] = run.facts
    return {
        "run": run.run_id,
        "folder": str(run.folder),
        "suite": facts["suite"],
        "machines": facts["machines"],
        "planned": facts["planned"],
        "finished": facts["finished"],
        "reused": facts["reused"],
        "failed": facts["failed"],
        "interrupted": facts["interrupted"],
        "scores": [asdict(found) for found in run.scores],
        "ranking": [asdict(found) for found in run.ranks],
        "items": [{name: item.get(name) for name in SHOWN} for _, item in sorted(run.items.items())],
    }
