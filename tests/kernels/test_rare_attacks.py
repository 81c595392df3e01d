"""Kernels that are wrong on few inputs only: a scale off by one, a case left out that few rows are of."""

from __future__ import annotations

import pytest

from presil.kernels.checking import check_text
from presil.kernels.emitters import emitter
from presil.kernels.operators.registry import parse_workload
from presil.simulators.assembly import render
from presil.simulators.machine import load_machine


def emitted(workload: str, machine: str) -> str:
    """The first legal schedule's program."""
    task, target = parse_workload(workload), load_machine(machine)
    emits = emitter(task.operator, target.family)
    space = emits.space(task, target)
    schedule = next(s for s in map(space.unrank, range(space.count())) if emits.legal(task, target, s) is None)
    return render(emits.lower(task, target, schedule))


def verdict(text: str, workload: str, machine: str, **options):
    return check_text(text, parse_workload(workload), load_machine(machine), **options)


REQUANTISED = "matmul:m=8,n=17,k=35,out=int8"


@pytest.mark.parametrize("multiplier", [20770, 20772, 41543, -20771])
def test_a_multiplier_off_by_one(multiplier):
    """20771 / 2**24 = 0.00123805 brings the standard deviation of 35 products, 5461 * sqrt(35) = 32308, to 40."""
    text = emitted(REQUANTISED, "gemmini-16")
    assert "multiplier=20771 shift=24" in text
    assert verdict(text, REQUANTISED, "gemmini-16").right
    shift = 25 if multiplier > 40000 else 24
    # Everywhere, and in the last tile alone, whose 8 outputs hardly ever show it.
    before, _, after = text.rpartition("multiplier=20771 shift=24")
    for wrong in (
        text.replace("=20771 shift=24", f"={multiplier} shift={shift}"),
        f"{before}multiplier={multiplier} shift={shift}{after}",
    ):
        found = verdict(wrong, REQUANTISED, "gemmini-16")
        assert {r.kind for r in found.reasons} == {"scalars"}
        assert f"scales by {multiplier} / 2**{shift}; {parse_workload(REQUANTISED)} by 20771" in found.reasons[0].detail


def test_the_same_ratio_in_other_terms_is_right():
    text = emitted(REQUANTISED, "gemmini-16")
    same = text.replace("=20771 shift=24", "=41542 shift=25")
    assert same != text
    assert verdict(same, REQUANTISED, "gemmini-16").right


@pytest.mark.parametrize("workload", ["rmsnorm:rows=1,columns=40,dtype=bf16", "layernorm:rows=3,columns=40,dtype=fp32"])
@pytest.mark.parametrize("epsilon", ["0.0", "2e-05"])
def test_an_epsilon_that_only_tiny_rows_show(workload, epsilon):
    """Whatever the seeds: each row is tiny once."""
    text = emitted(workload, "tpu-v4")
    assert "offset=1e-05" in text
    wrong = text.replace("offset=1e-05", f"offset={epsilon}")
    assert wrong != text
    for run_seed in range(8):
        assert verdict(text, workload, "tpu-v4", run_seed=run_seed).right
        found = verdict(wrong, workload, "tpu-v4", run_seed=run_seed)
        assert [r.kind for r in found.reasons] == ["numbers"], run_seed


def test_a_clamp_left_out_of_one_element():
    """The tail of 17 columns is one output, which is negative about every other time: two seeds let 1 of 8 pass."""
    workload = "matmul:m=1,n=17,k=35,activation=relu"
    text = emitted(workload, "gemmini-16")
    before, _, after = text.rpartition("activation=relu")
    wrong = f"{before}activation=none{after}"
    assert verdict(text, workload, "gemmini-16").right
    for run_seed in range(40):
        found = verdict(wrong, workload, "gemmini-16", run_seed=run_seed)
        assert [r.kind for r in found.reasons] == ["numbers"], run_seed
        assert found.reasons[0].detail.startswith("y[0, 0, 16] is -")
