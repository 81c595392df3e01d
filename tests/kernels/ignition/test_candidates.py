"""An invalid schedule is counted by its reason and ends nothing; no schedule is looked at twice."""

from __future__ import annotations

from dataclasses import dataclass, replace

import made_up
import pytest

from presil.kernels.ignition.candidates import LEADERS, Candidates, Measured, Outcome, reason_of
from presil.kernels.ignition.pool import Pool
from presil.simulators.errors import BadInput, Undefined, Unsupported

SMALL = made_up.workload(100, 300, 700)


def candidates(**changes: object) -> Candidates:
    return Candidates(replace(made_up.evaluator(SMALL), **changes), Pool(1))


def test_the_outcome_is_the_time_of_the_program():
    known = candidates()
    outcome = known.evaluate([5])[0]
    schedule = known.schedule(5)
    assert outcome.timed
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
    assert known.leaders == []
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


def test_a_pruned_one_is_not_in_the_budget_nor_a_leader():
    known = candidates(measure=lambda *_: Measured(900, "pruned"))
    known.evaluate([1], ceiling=800)
    assert (known.evaluated, known.count("pruned"), known.leaders) == (0, 1, [])


def test_ties_stand_in_schedule_order():
    known = candidates(measure=lambda *_: Measured(900))
    known.evaluate([9, 2, 5])
    assert known.leaders == [(900, 2), (900, 5), (900, 9)]


def test_one_that_was_stopped_is_in_the_budget_and_no_leader():
    known = candidates(measure=lambda *_: Measured(900, "stopped"))
    known.evaluate([1], ceiling=800)
    assert (known.evaluated, known.count("stopped"), known.leaders) == (1, 1, [])


def test_the_ceiling_is_the_time_of_the_last_leader():
    known = candidates()
    known.evaluate(range(LEADERS - 1))
    assert known.ceiling is None
    known.evaluate(range(40))
    times = sorted(made_up.true_ticks(SMALL, known.schedule(rank)) for rank in range(40))
    assert [ticks for ticks, _ in known.leaders] == times[:LEADERS]
    assert known.ceiling == times[LEADERS - 1]


def test_what_is_known_from_elsewhere_tells_no_more_than_an_evaluation_would():
    known = candidates()
    known.known = {3: Outcome(3, 700), 4: Outcome(4, 900), 5: Outcome(5, reason="deadlock")}
    found = known.evaluate([3, 4, 5], ceiling=800)
    assert found == [Outcome(3, 700), Outcome(4, 801, end="stopped"), Outcome(5, reason="deadlock")]
