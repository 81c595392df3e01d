"""An invalid schedule is counted by its reason and ends nothing; no schedule is looked at twice."""

from __future__ import annotations

from dataclasses import dataclass, replace

import made_up
import pytest

from presil.kernels.ignition.candidates import Candidates, Measured, reason_of
from presil.kernels.ignition.pool import Pool
from presil.simulators.errors import BadInput, Undefined, Unsupported

SMALL = made_up.workload(100, 300, 700)


def candidates(**changes: object) -> Candidates:
    return Candidates(replace(made_up.evaluator(SMALL), **changes), Pool(1))


def test_the_outcome_is_the_time_of_the_program():
    known = candidates()
    outcome = known.evaluate([5])[0]
    schedule = known.schedule(5)
    assert outcome.valid
    assert outcome.ticks == made_up.true_ticks(SMALL, schedule)
    assert known.evaluated == 1
    assert known.best_ticks == outcome.ticks


def test_no_schedule_is_evaluated_twice():
    calls = []

    def measure(program, machine, ceiling):
        calls.append(program.name)
        return made_up.measure(program, machine, ceiling)

    known = candidates(measure=measure)
    assert known.evaluate([3, 4, 3]) == known.evaluate([3, 4, 3])
    assert len(calls) == known.evaluated == 2


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Undefined("deadlock", "stream a", "waits for 3 of b"), "deadlock"),
        (Unsupported("tiles of 512 bytes do not fit"), "tiles of N bytes do not fit"),
        (BadInput("loop m: 0 trips"), "loop m: N trips"),
        (KeyError("bm"), "defect KeyError: 'bm'"),
        (ZeroDivisionError("division by zero"), "defect ZeroDivisionError: division by zero"),
    ],
)
def test_whatever_goes_wrong_is_a_reason(error, reason):
    def measure(program, machine, ceiling):
        raise error

    known = candidates(measure=measure)
    assert [o.reason for o in known.evaluate([1, 2])] == [reason, reason]
    assert known.failed == {reason: 2}
    assert known.evaluated == 2
    assert known.ranking() == []
    assert reason_of(error) == reason


@dataclass(frozen=True)
class Broken(made_up.MadeUp):
    prior: float | None = None

    def prior_cycles(self, workload, machine, schedule):
        if self.prior is None:
            raise OverflowError("too large")
        return self.prior


@pytest.mark.parametrize("prior", [None, 0.0, -1.0, float("nan"), float("inf")])
def test_a_broken_prior_is_a_reason_too(prior):
    known = candidates(emitter=Broken(prior=prior))
    assert known.prior(0) is None
    assert known.prior(0) is None
    assert sum(known.refused.values()) == 1


def test_a_refused_schedule_is_counted_once():
    known = candidates()
    last = known.evaluator.space.count() - 1
    assert known.prior(last) is None
    assert known.prior(last) is None
    assert known.invalid == {"tiles do not fit the scratchpad": 1}


def test_a_pruned_one_is_not_in_the_budget_nor_in_the_ranking():
    known = candidates(measure=lambda *_: Measured(900, pruned=True))
    known.evaluate([1], ceiling=800)
    assert (known.evaluated, known.pruned, known.ranking()) == (0, 1, [])


def test_ties_stand_in_schedule_order():
    known = candidates(measure=lambda *_: Measured(900))
    known.evaluate([9, 2, 5])
    assert [o.rank for o in known.ranking()] == [2, 5, 9]
