"""The exact optimum of a space, and the regret of the search against it."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from presil.simulators.errors import Unsupported
from presil.simulators.machine import Machine

from ..operators.operator import Workload
from .candidates import Candidates, Evaluator
from .explore import explore
from .measure import evaluator_for
from .pool import Pool
from .proposer import Proposer
from .result import NothingValid, Progress

LARGEST = 5_000_000  # schedules; beyond it even asking which are legal takes minutes
_BATCH = 64  # a constant, so that what is pruned does not depend on the jobs


def legal_ranks(candidates: Candidates) -> list[int]:
    """Every legal schedule, the closed-form picks first. Raises Unsupported for a space too large to list."""
    count = candidates.evaluator.space.count()
    if count > LARGEST:
        raise Unsupported(f"the space has {count:,} schedules; an exhaustive search takes at most {LARGEST:,}")
    priors = [(prior, rank) for rank in range(count) if (prior := candidates.prior(rank)) is not None]
    return [rank for _, rank in sorted(priors)]


def exhaust(
    candidates: Candidates,
    ranks: Sequence[int],
    *,
    prune: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Evaluates all `ranks`. With `prune`, one that cannot be a leader is given up as soon as that is known."""
    for start in range(0, len(ranks), _BATCH):
        candidates.evaluate(ranks[start : start + _BATCH], candidates.ceiling if prune else None)
        if progress is not None:
            progress(Progress(candidates.evaluated, len(ranks), candidates.best_cycles))


@dataclass(frozen=True, slots=True)
class Regret:
    """How far searches ended above the exact optimum. `ticks` and `evaluated` hold one figure per seed."""

    optimum: int
    schedules: int
    ticks: tuple[int, ...]
    evaluated: tuple[int, ...]

    @property
    def regrets(self) -> tuple[float, ...]:
        """Per seed: 0 is the optimum, 0.01 is 1% slower."""
        return tuple(ticks / self.optimum - 1 for ticks in self.ticks)

    @property
    def median(self) -> float:
        """Of the seeds."""
        return statistics.median(self.regrets)


def regret(
    workload: Workload,
    machine: Machine,
    *,
    seeds: Sequence[int] = range(11),
    budget: int = 200,
    jobs: int = 1,
    evaluator: Evaluator | None = None,
) -> Regret:
    """Exhausts the space once, then lets the sampled search loose on what is known of it, once per seed.

    Timing only: nothing is checked. Raises NothingValid where no schedule is valid, Unsupported as `legal_ranks` does.
    """
    evaluator = evaluator_for(workload, machine) if evaluator is None else evaluator
    with Pool(jobs) as pool:
        whole = Candidates(evaluator, pool)
        legal = legal_ranks(whole)
        exhaust(whole, legal, prune=False)
        optimum = whole.best_ticks
        if optimum is None:
            raise NothingValid("no schedule of the space is valid")
        found: list[int] = []
        evaluated: list[int] = []
        for seed in seeds:
            blind = Candidates(evaluator, pool, known=whole.outcomes)
            explore(blind, Proposer(blind, seed), budget=budget)
            found.append(blind.best_ticks or 0)
            evaluated.append(blind.evaluated)
    return Regret(optimum, len(legal), tuple(found), tuple(evaluated))
