"""What the runs say: arithmetic by hand on a comparison of two machines and two layers."""

import math

import pytest

from presil.reports.data import Comparison, Group, Layer, Machine, Run, Score
from presil.reports.findings import headlines, ranking, relative_mean, shared_groups, time_split, title, utilization
from presil.reports.roofline import points


def machine(key: str) -> Machine:
    """1 multiply-add a nanosecond; slow memory 1 byte, fast memory 10 bytes a nanosecond."""
    return Machine(
        key=key,
        name=key,
        title=key,
        family="systolic",
        clock_hz=1e9,
        cores=1,
        peaks={"int8": 1e9},
        bandwidths={"slow": 1e9, "fast": 1e10},
    )


def layer(group: str, key: str, **changes) -> Layer:
    """600 multiply-adds in 1000 ns, bound 800 ns; run twice."""
    facts = {
        "group": group,
        "name": "l",
        "count": 2,
        "workload": "matmul:m=1,n=1,k=1",
        "operator": "matmul",
        "dtype": "int8",
        "machine": key,
        "status": "right",
        "fidelity": "event",
        "cycles": 1000.0,
        "seconds": 1000e-9,
        "utilization": 0.6,
        "bound_ratio": 1.25,
        "first_cycles": 3000.0,
        "multiply_adds": 600,
        "traffic_bytes": {"slow": 100, "fast": 8000},
    }
    return Layer(**{**facts, **changes})


def comparison(*scores: tuple[str, str, float | None], layers: tuple[Layer, ...] = ()) -> Comparison:
    groups = tuple(Group(key=g, title=g, score="tokens/s") for g in dict.fromkeys(g for g, _, _ in scores))
    facts = {"started": "", "finished": "", "seed": 1, "budget": 1, "fidelity": "event", "planned": 1, "done": 1}
    return Comparison(
        runs=(Run(name="r", suite="s", title="s", **facts),),
        machines=tuple(machine(m) for m in dict.fromkeys(m for _, m, _ in scores)),
        groups=groups,
        layers=layers,
        scores=tuple(Score(group=g, machine=m, value=v, fidelity="event", covered=1, layers=1) for g, m, v in scores),
    )


def test_the_parts_of_the_time_add_up():
    split = time_split([layer("g", "a")], machine("a"))
    # twice: 600 ns of multiply-adds, the bound is 800 ns, it took 1000 ns
    assert (split.compute, split.memory, split.rest) == pytest.approx((1200e-9, 400e-9, 400e-9))
    assert split.total == pytest.approx(2000e-9)


def test_the_time_of_wrong_kernels_counts_nowhere():
    assert time_split([layer("g", "a", status="wrong")], machine("a")) is None
    assert utilization([layer("g", "a", status="wrong")]) is None
    assert layer("g", "a", status="wrong").gain is None
    assert layer("g", "a", status="wrong").total_seconds == 0


def test_utilisation_is_weighted_by_time():
    slow = layer("g", "a", seconds=3000e-9, utilization=0.2, count=1)
    fast = layer("g", "a", seconds=1000e-9, utilization=0.6, count=1)
    assert utilization([slow, fast]) == pytest.approx((3 * 0.2 + 0.6) / 4)


def test_gain_is_first_right_over_best():
    assert layer("g", "a").gain == 3


def test_machines_rank_by_score_and_a_missing_score_has_no_rank():
    data = comparison(("g", "a", 1.0), ("g", "b", 4.0), ("g", "c", None))
    assert [(m.key, v) for m, v in ranking(data, data.groups[0])] == [("b", 4.0), ("a", 1.0)]


def test_the_mean_is_geometric_over_groups_that_all_machines_finished():
    data = comparison(
        ("g", "a", 1.0), ("g", "b", 4.0), ("h", "a", 9.0), ("h", "b", 1.0), ("i", "a", 1.0), ("i", "b", None)
    )
    assert [g.key for g in shared_groups(data)] == ["g", "h"]
    assert relative_mean(data, data.machines[0]) == pytest.approx(math.sqrt(1 / 4 * 1))
    assert relative_mean(data, data.machines[1]) == pytest.approx(math.sqrt(1 * 1 / 9))


def test_the_headline_says_who_leads_and_by_how_much():
    layers = (layer("g", "a"), layer("g", "b"), layer("h", "a"), layer("h", "b"))
    data = comparison(("g", "a", 1.0), ("g", "b", 4.0), ("h", "a", 2.0), ("h", "b", 3.0), layers=layers)
    said = headlines(data)
    assert said[0] == "b leads in 2 of 2 ranked workload groups, at 1.50 to 4.00× the next best."
    assert said[1] == (
        "The median layer takes 1.25× (a) and 1.25× (b) its roofline bound."
        " Weighted by time, 60% (a) and 60% (b) of the peak is used."
    )
    assert said[-1] == "All 2 kernels behind these figures passed every check."


def test_a_machine_alone_in_its_group_leads_nobody():
    data = comparison(("g", "a", 1.0), ("g", "b", None), layers=(layer("g", "a"),))
    said = headlines(data)[0]
    assert said == "No two machines share a complete group of workloads: 1 group scored, none ranked."


def test_the_title_names_the_machines():
    assert title(comparison(("g", "a", 1.0))) == "a on the s suite"
    assert title(comparison(("g", "a", 1.0), ("g", "b", 4.0))) == "a and b"


def test_a_layer_stands_at_the_memory_its_bytes_take_longest_in():
    (point,) = points(machine("a"), [layer("g", "a")])
    # slow: 100 ns, fast: 800 ns; 1200 operations over 8000 bytes, in 1000 ns
    assert (point.memory, point.intensity, point.rate) == ("fast", 0.15, pytest.approx(1.2e9))


def test_a_layer_without_multiply_adds_or_traffic_is_left_out_of_the_roofline():
    assert points(machine("a"), [layer("g", "a", multiply_adds=0), layer("g", "a", traffic_bytes={})]) == []
