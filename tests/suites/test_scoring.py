"""Are scores what their formulas say, and withheld where a layer has no right kernel?"""

import pytest

from presil.suites.scoring import Group, Layer, Rank, Score, rank, score

MODEL = Group("net-b4", "Net, batch 4", "inferences/s", 4.0, (Layer("a", "wa", 2), Layer("b", "wb", 1)))
SINGLES = Group("workloads", "single", "workloads/s", 1.0, (Layer("wa", "wa"), Layer("wb", "wb")))


def done(seconds: float) -> dict[str, object]:
    return {"status": "done", "reason": None, "seconds": seconds}


ITEMS = {("wa", "m"): done(0.5), ("wb", "m"): done(2.0), ("wa", "fast"): done(0.125), ("wb", "fast"): done(0.5)}


def test_a_model_is_scored_by_the_sum_of_its_layers():
    found = score(MODEL, "m", ITEMS)
    assert found.value == 4.0 / (2 * 0.5 + 1 * 2.0)
    assert (found.covered, found.layers, found.reason) == (3, 3, None)
    assert found.formula == "4 / sum of count * seconds over 3 layers"


def test_single_workloads_are_scored_by_the_geometric_mean_of_their_rates():
    assert score(SINGLES, "m", ITEMS).value == pytest.approx((2.0 * 0.5) ** 0.5)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (None, "b: not run"),
        ({"status": "unsupported", "reason": "no bf16"}, "b: no bf16"),
        ({"status": "no right kernel", "reason": "race", "seconds": 1e-9}, "b: race"),
    ],
)
def test_no_score_without_every_layer(item, reason):
    items = {**ITEMS, ("wb", "m"): item}
    if item is None:
        del items["wb", "m"]
    for group, covered in ((MODEL, 2), (SINGLES, 1)):
        found = score(group, "m", items)
        assert (found.value, found.covered) == (None, covered)
        assert found.reason.endswith(reason)


def scores(values: dict[tuple[str, str], float | None]) -> list[Score]:
    return [
        Score(group=g, machine=m, unit="tokens/s", value=v, covered=1, layers=1, formula="")
        for (g, m), v in values.items()
    ]


def groups(*names: str) -> list[Group]:
    return [Group(name, name, "tokens/s", 1.0, ()) for name in names]


def test_machines_are_ranked_by_the_geometric_mean_over_shared_groups():
    # x: 4/4 and 1/4 -> 0.5; y: 2/4 and 4/4 -> sqrt(0.5); group c is no measure, since x has no figure there.
    values = {("a", "x"): 4.0, ("a", "y"): 2.0, ("b", "x"): 1.0, ("b", "y"): 4.0, ("c", "x"): None, ("c", "y"): 9.0}
    assert rank(groups("a", "b", "c"), ["x", "y"], scores(values)) == (
        Rank("y", pytest.approx(0.5**0.5), 2),
        Rank("x", pytest.approx(0.5), 2),
    )


def test_without_a_shared_group_there_is_no_order():
    values = {("a", "x"): 4.0, ("a", "y"): None}
    assert rank(groups("a"), ["x", "y"], scores(values)) == (Rank("x", None, 0), Rank("y", None, 0))
