"""The exhaustive search is brute force, and the sampled one ends within 1% of it."""

from __future__ import annotations

import made_up
import pytest

from presil.kernels.ignition import exhaustive
from presil.kernels.ignition.candidates import Candidates
from presil.kernels.ignition.exhaustive import exhaust, legal_ranks, regret
from presil.kernels.ignition.pool import Pool
from presil.kernels.ignition.result import NothingValid
from presil.kernels.space import Axis, Space
from presil.simulators.errors import Undefined, Unsupported

SHAPES = [(2048, 1024, 256), (16, 2048, 2048), (100, 300, 700)]


def brute_force(work):
    evaluator = made_up.evaluator(work)
    ranks = range(evaluator.space.count())
    legal = [evaluator.space.unrank(rank) for rank in ranks if not isinstance(evaluator.prior(rank), str)]
    return min(made_up.true_ticks(work, schedule) for schedule in legal), len(legal)


@pytest.mark.parametrize("prune", [True, False])
def test_it_finds_what_brute_force_finds(prune):
    work = made_up.workload(100, 300, 700)
    candidates = Candidates(made_up.evaluator(work), Pool(1))
    legal = legal_ranks(candidates)
    exhaust(candidates, legal, prune=prune)
    optimum, count = brute_force(work)
    assert candidates.best_ticks == optimum
    pruned = candidates.count("pruned")
    assert len(legal) == count == candidates.evaluated + pruned
    assert (pruned > count // 2) if prune else (pruned == 0)


def test_legal_ranks_come_by_prior():
    candidates = Candidates(made_up.evaluator(made_up.workload(64, 64, 64)), Pool(1))
    priors = [candidates.priors[rank] for rank in legal_ranks(candidates)]
    assert priors == sorted(priors)


@pytest.mark.parametrize("shape", SHAPES)
def test_regret_is_within_one_percent(shape):
    work = made_up.workload(*shape)
    found = regret(work, made_up.MACHINE, seeds=range(3), evaluator=made_up.evaluator(work))
    assert found.optimum == brute_force(work)[0]
    assert found.median <= 0.01
    assert max(found.evaluated) <= 200
    assert min(found.regrets) >= 0


def test_a_useless_prior_costs_evaluations_not_the_optimum():
    work = made_up.workload(100, 300, 700)
    evaluator = made_up.evaluator(work, made_up.MadeUp(wrong_prior=True))
    assert regret(work, made_up.MACHINE, seeds=range(3), evaluator=evaluator).median <= 0.01


def test_a_space_too_large_to_list_is_refused(monkeypatch):
    monkeypatch.setattr(exhaustive, "LARGEST", 100)
    candidates = Candidates(made_up.evaluator(made_up.workload(64, 64, 64)), Pool(1))
    with pytest.raises(Unsupported, match=r"an exhaustive search takes at most 100"):
        legal_ranks(candidates)


class Deadlocked(made_up.MadeUp):
    def space(self, workload, machine):
        return Space((Axis("bm", (16, 32)),))

    def legal(self, workload, machine, schedule):
        return None

    def prior_cycles(self, workload, machine, schedule):
        return 1.0

    def lower(self, workload, machine, schedule):
        raise Undefined("deadlock", "stream a", "nobody signals")


def test_the_regret_of_a_space_where_nothing_runs_is_refused():
    work = made_up.workload(64, 64, 64)
    with pytest.raises(NothingValid, match="no schedule"):
        regret(work, made_up.MACHINE, evaluator=made_up.evaluator(work, Deadlocked()))
