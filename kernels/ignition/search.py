"""The search, whole: propose, emit, check, rank.

    space --propose--> schedules --emit, simulate--> ranking --render, check--> the best that is right

A small space is exhausted, a large one sampled. The ranking is then checked from the top until a kernel is right.
"""

from __future__ import annotations

from collections.abc import Callable

from presil.simulators.machine import Machine

from ..operators.operator import Workload
from .candidates import Candidates, Evaluator
from .exhaustive import exhaust, legal_ranks
from .explore import explore
from .judge import Check, Judge, check_kernel
from .measure import evaluator_for
from .pool import Pool
from .proposer import ENUMERATE, Proposer
from .result import NothingValid, Progress, SearchResult

_FIRST_PICKS = 3  # so many closed-form picks are checked before a search has no `first`

Show = Callable[[Progress], None]


def search(
    workload: Workload,
    machine: Machine,
    *,
    budget: int = 200,
    seed: int = 0,
    exhaustive: bool = False,
    jobs: int = 1,
    progress: Show | None = None,
    check: Check | None = None,
    evaluator: Evaluator | None = None,
) -> SearchResult:
    """The fastest right kernel of `workload` on `machine` that `budget` evaluations find.

    `exhaustive`, or a space of no more legal schedules than the budget, gives the exact optimum. Ctrl-C ends the search
    early: the result holds what was finished, flagged `interrupted`. `check` and `evaluator` are seams for tests.
    Raises Unsupported where nothing is built for the workload, NothingValid where no schedule is valid and right.
    """
    evaluator = evaluator_for(workload, machine) if evaluator is None else evaluator
    picks: list[int] = []
    exact, interrupted = False, False
    with Pool(jobs) as pool:
        candidates = Candidates(evaluator, pool)
        try:
            exact = _evaluate(candidates, picks, budget=budget, seed=seed, exhaustive=exhaustive, progress=progress)
        except KeyboardInterrupt:
            interrupted = True
    leaders = [rank for _, rank in candidates.leaders]
    if not leaders:
        raise NothingValid(_nothing(candidates, interrupted))
    judge = Judge(candidates, check_kernel if check is None else check, interrupted=interrupted)
    best = judge.first_right(leaders)
    timed = [rank for rank in picks if (o := candidates.outcomes.get(rank)) is not None and o.timed]
    first = judge.first_right(timed[:_FIRST_PICKS])
    if best is None:
        wrong = judge.ranked(leaders[0])
        raise NothingValid(
            f"{workload} on {machine.name}: the {len(leaders)} fastest schedules are all wrong; "
            f"{wrong.schedule}: {'; '.join(wrong.reasons[:1])}"
        )
    return SearchResult(
        workload=str(workload),
        machine=machine.name,
        seed=seed,
        budget=budget,
        schedules=evaluator.space.count(),
        evaluated=candidates.evaluated,
        stopped=candidates.count("stopped"),
        pruned=candidates.count("pruned"),
        invalid=candidates.invalid,
        best=judge.ranked(best),
        first=None if first is None else judge.ranked(first),
        leaderboard=tuple(judge.ranked(rank) for rank in leaders),
        exact=exact,
        interrupted=judge.interrupted,
        program=judge.text(best),
    )


def _evaluate(
    candidates: Candidates, picks: list[int], *, budget: int, seed: int, exhaustive: bool, progress: Show | None
) -> bool:
    """Fills `candidates`, and `picks` with the closed-form picks, best first. Whether the whole space was evaluated."""
    if exhaustive:
        picks += legal_ranks(candidates)
    else:
        proposer = Proposer(candidates, seed)
        picks += proposer.picks
        if candidates.evaluator.space.count() > ENUMERATE or len(picks) > budget:
            explore(candidates, proposer, budget=budget, progress=progress)
            return False
    exhaust(candidates, picks, progress=progress)
    return True


def _nothing(candidates: Candidates, interrupted: bool) -> str:
    evaluator = candidates.evaluator
    where = f"{evaluator.workload} on {evaluator.machine.name}"
    if interrupted:
        return f"{where}: interrupted before any schedule was timed"
    reasons = "; ".join(f"{reason} ({count:,})" for reason, count in list(candidates.invalid.items())[:3])
    return f"{where}: none of the {sum(candidates.invalid.values()):,} schedules looked at is valid: {reasons}"
