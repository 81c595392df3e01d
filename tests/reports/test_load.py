"""Stored runs as facts of a comparison."""

import dataclasses
from pathlib import Path

import pytest

from presil.reports.load import compare
from presil.simulators.errors import BadInput
from presil.suites.runs import NothingRan, Run
from presil.suites.scoring import Group, Layer, score

WORKLOAD = "matmul:m=8,n=8,k=8,dtype=int8"
ITEM = {
    "workload": WORKLOAD,
    "status": "done",
    "verdict": "right",
    "cycles": 100.0,
    "seconds": 1e-7,
    "utilization": 0.5,
    "bound_ratio": 1.5,
    "first_cycles": 300.0,
    "bottleneck": "matrix: 40% waiting for x_full",
    "schedule": "bm=8",
    "multiply_adds": 512,
    "traffic_bytes": {"dram": 192},
    "facts": {"instructions": 9, "trials": ["random 1f", "marker 2f"], "multiply_adds": 512, "other_poison": True},
    "reasons": [],
}
MACHINE = {
    "name": "m",
    "title": "M",
    "family": "systolic",
    "clock_hz": 1e9,
    "cores": 1,
    "peak_multiply_adds_per_second": {"int8": 1e9},
    "memories": [{"name": "dram", "bandwidth_bytes_per_second": 2e9, "efficiency": 0.5}],
    "figures": [{"path": "clock", "value": "1 GHz", "source": "data sheet"}],
}


def run(run_id: str = "r1", machines: tuple[str, ...] = ("m",), **item) -> Run:
    group = Group("g", "Group", "tokens/s", 2.0, (Layer("l", WORKLOAD, 3),))
    body = {**ITEM, **item}
    items = {(WORKLOAD, m): body for m in machines} if body["status"] else {}
    facts = {"suite": "s", "started_utc": "2026-12-01T00:00:00+00:00", "finished_utc": None, "seed": 1, "budget": 4}
    return Run(
        run_id=run_id,
        folder=Path(),
        facts={**facts, "fidelity": "event", "planned": 1, "finished": 1, "versions": {}, "machines": list(machines)},
        machines={m: {**MACHINE, "name": m} for m in machines},
        groups=(group,),
        items=items,
        scores=tuple(score(group, m, items) for m in machines),
        ranks=(),
        validations=(),
    )


def test_a_layer_has_its_item_and_its_count():
    data = compare([run()])
    (layer,) = data.layers
    assert (layer.count, layer.cycles, layer.gain, layer.status) == (3, 100.0, 3.0, "right")
    assert data.scores[0].value == pytest.approx(2.0 / (3 * 1e-7))
    assert data.machines[0].bandwidths == {"dram": 1e9}  # what it sustains: bandwidth times efficiency


def test_what_was_checked_is_read_from_the_facts_of_the_verdict():
    assert compare([run()]).layers[0].checks == {
        "instructions ordered for all timings": 9,
        "timed runs on data, outputs compared": 2,
        "runs repeated under other poison": 1,
        "multiply-adds audited": 512,
    }
    assert compare([run(facts=None)]).layers[0].checks == {}


def test_states_of_items():
    assert compare([run(verdict="wrong")]).layers[0].status == "wrong"
    assert compare([run(status="no right kernel", reason="all raced")]).layers[0].status == "none"
    assert compare([run(status="no right kernel", reason="all raced")]).layers[0].reasons[0].detail == "all raced"
    assert compare([run(status="unsupported", reason="no bf16")]).layers[0].status == "unsupported"
    assert compare([run(status="something new", reason="?")]).layers[0].status == "failed"


def test_what_was_not_run_is_pending_and_has_no_score():
    data = compare([run(status="")])
    assert data.layers[0].status == "pending"
    assert data.layers[0].dtype == "int8"
    assert data.scores[0].value is None


def test_the_same_machine_in_two_runs_is_told_apart():
    data = compare([run("r1"), run("r2")])
    assert [m.key for m in data.machines] == ["m (run 1)", "m (run 2)"]
    assert len(data.groups) == 1
    assert {x.machine for x in data.layers} == {"m (run 1)", "m (run 2)"}


def test_other_machines_of_another_run_keep_their_names():
    assert [m.key for m in compare([run("r1"), run("r2", ("n",))]).machines] == ["m", "n"]


def test_a_group_with_other_layers_under_the_same_name_is_kept_apart():
    other = run("r2", ("n",))
    group = dataclasses.replace(other.groups[0], amount=5.0)
    data = compare([run("r1"), dataclasses.replace(other, groups=(group,))])
    assert [g.key for g in data.groups] == ["g", "g (run 2)"]
    assert data.layers_of("g", "n") == ()


def test_a_run_given_twice_counts_once():
    assert len(compare([run(), run()]).machines) == 1


def test_nothing_to_report():
    with pytest.raises(NothingRan, match="there is no run to report on"):
        compare([])


def test_too_many_machines_are_refused_by_number():
    with pytest.raises(BadInput, match="at most 6 machines, these runs have 7: m0, m1,"):
        compare([run(machines=tuple(f"m{i}" for i in range(7)))])
