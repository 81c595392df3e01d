"""Proposals are legal, new, and the same for the same seed."""

from __future__ import annotations

import made_up
import numpy as np
import pytest

from presil.kernels.ignition.candidates import Candidates
from presil.kernels.ignition.grid import Grid
from presil.kernels.ignition.pool import Pool
from presil.kernels.ignition.proposer import BATCH, ENUMERATE, Proposer

LARGE, LISTED = made_up.workload(512, 512, 512), made_up.workload(16, 2048, 2048)


def start(work, seed=0):
    candidates = Candidates(made_up.evaluator(work), Pool(1))
    return candidates, Proposer(candidates, seed)


def proposals(work, seed, batches=4):
    candidates, proposer = start(work, seed)
    found = []
    for _ in range(batches):
        batch = proposer.propose()
        proposer.observe(candidates.evaluate(batch))
        found.append(batch)
    return found


def test_one_space_is_listed_and_the_other_sampled():
    assert made_up.evaluator(LISTED).space.count() <= ENUMERATE < made_up.evaluator(LARGE).space.count()


@pytest.mark.parametrize("work", [LARGE, LISTED])
def test_batches_are_full_new_and_legal(work):
    evaluator = made_up.evaluator(work)
    batches = proposals(work, 0)
    ranks = [rank for batch in batches for rank in batch]
    assert [len(batch) for batch in batches] == [BATCH] * 4
    assert len(set(ranks)) == len(ranks)
    assert all(isinstance(evaluator.prior(rank), float) for rank in ranks)


@pytest.mark.parametrize("work", [LARGE, LISTED])
def test_the_seed_decides(work):
    assert proposals(work, 1) == proposals(work, 1)
    assert proposals(work, 1) != proposals(work, 2)


def test_the_first_pick_of_a_listed_space_has_the_best_prior():
    candidates, proposer = start(LISTED)
    best = min((p, r) for r in range(candidates.evaluator.space.count()) if (p := candidates.prior(r)) is not None)
    assert proposer.picks[0] == best[1]
    assert proposer.propose()[0] == best[1]


def test_the_first_batch_is_not_left_to_the_prior():
    _, proposer = start(LARGE)
    batch = proposer.propose()
    assert len([rank for rank in batch if rank in proposer.picks[: 8 * BATCH]]) <= BATCH // 2


def test_a_used_up_space_has_nothing_to_propose():
    candidates, proposer = start(LISTED)
    proposer.observe(candidates.evaluate(proposer.picks))
    assert proposer.propose() == []


def test_neighbours_differ_in_one_choice():
    candidates, proposer = start(LISTED)
    proposer.observe(candidates.evaluate(proposer.propose()))
    origin = candidates.schedule(candidates.leaders[0][1])
    near = [candidates.schedule(rank) for rank in proposer.neighbours(candidates.leaders[0][1])]
    assert near
    for schedule in near:
        assert sum(a != b for a, b in zip(origin.choices, schedule.choices, strict=True)) == 1


def test_digits_and_ranks_are_those_of_the_space():
    space = made_up.evaluator(LARGE).space
    grid = Grid(space)
    ranks = np.array([0, 1, 17, 4321, space.count() - 1])
    digits = grid.digits(ranks)
    assert grid.ranks(digits).tolist() == ranks.tolist()
    for rank, row in zip(ranks.tolist(), digits.tolist(), strict=True):
        chosen = [axis.choices[digit] for axis, digit in zip(space.axes, row, strict=True)]
        assert chosen == [value for _, value in space.unrank(rank).choices]


def test_a_grids_neighbours_step_on_ladders_and_jump_elsewhere():
    space = made_up.evaluator(LARGE).space
    # From the lowest corner: one step up on each of the 5 ladders, 2 other orders, 1 other flow.
    assert len(Grid(space).neighbours(0)) == 5 + 2 + 1
