"""Several processes give what one gives, also when one of them is killed."""

from __future__ import annotations

import os
import signal

import made_up

from presil.kernels.ignition.pool import Pool

EVALUATOR = made_up.evaluator(made_up.workload(100, 300, 700))
RANKS = [7, 3, 11, 900, 42, 5, 77, 8]


def test_two_processes_give_the_same_in_the_same_order():
    alone = list(Pool(1).evaluate(EVALUATOR, RANKS, None))
    with Pool(2) as pool:
        assert list(pool.evaluate(EVALUATOR, RANKS, None)) == alone
    assert [outcome.rank for outcome in alone] == RANKS


def test_a_killed_worker_costs_nothing():
    alone = list(Pool(1).evaluate(EVALUATOR, RANKS, None))
    with Pool(2) as pool:
        list(pool.evaluate(EVALUATOR, RANKS, None))
        assert pool._executor is not None
        for process in pool._executor._processes.values():
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
        assert list(pool.evaluate(EVALUATOR, RANKS, None)) == alone


def test_one_job_starts_no_process():
    with Pool(1) as pool:
        list(pool.evaluate(EVALUATOR, RANKS, None))
        assert pool._executor is None


def test_another_evaluator_is_not_mixed_up_with_the_last():
    other = made_up.evaluator(made_up.workload(512, 512, 512))
    with Pool(2) as pool:
        list(pool.evaluate(EVALUATOR, RANKS, None))
        assert list(pool.evaluate(other, RANKS, None)) == list(Pool(1).evaluate(other, RANKS, None))
