"""The sampled search: propose, evaluate, learn, until the budget is spent; its last part polishes the best."""

from __future__ import annotations

from collections.abc import Callable

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from .candidates import Candidates
from .proposer import BATCH, Proposer
from .result import Progress

_POLISHED = 3  # the best so many are polished by their neighbourhoods
_POLISH_SHARE = 5  # with one part in so many of the budget
_EXACT = 4 * BATCH  # the first are timed to the end, however slow: the model learns from them what slow is
_TRIES = 2  # pruned schedules are not in the budget: at most so many tries for each evaluation


def explore(
    candidates: Candidates,
    proposer: Proposer,
    *,
    budget: int,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Evaluates up to `budget` schedules; what it finds is in `candidates`."""
    # The model's matrices are small: threads would only wait for each other, the more so beside other searches.
    with threadpool_limits(1, "blas"):
        _explore(candidates, proposer, budget, progress)


def _explore(
    candidates: Candidates, proposer: Proposer, budget: int, progress: Callable[[Progress], None] | None
) -> None:
    while (left := budget - candidates.evaluated) > 0 and len(candidates.outcomes) < _TRIES * budget:
        size = min(BATCH, left)
        batch = _neighbourhood(candidates, proposer, size) if left <= budget // _POLISH_SHARE else []
        batch = batch or proposer.propose(size)
        if not batch:
            break
        # One ceiling for the batch, so that what is pruned does not depend on the jobs.
        ceiling = candidates.ceiling if candidates.evaluated >= _EXACT else None
        proposer.observe(candidates.evaluate(batch, ceiling))
        if progress is not None:
            progress(Progress(candidates.evaluated, budget, candidates.best_cycles))


def _neighbourhood(candidates: Candidates, proposer: Proposer, size: int) -> list[int]:
    """New neighbours of the best, in turn, as long as there are any."""
    near = [proposer.neighbours(rank) for _, rank in candidates.leaders[:_POLISHED]]
    return list(dict.fromkeys(rank for ranks in near for rank in ranks))[:size]
