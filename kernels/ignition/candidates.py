"""Candidates: what one schedule comes to, and the memory of all that were tried.

An invalid schedule is never fatal: it is counted by its reason, and the search goes on.
"""

from __future__ import annotations

import bisect
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from presil.simulators.errors import PresilError, Undefined
from presil.simulators.machine import Machine
from presil.simulators.program import Program
from presil.simulators.timing import TICKS_PER_CYCLE

from ..operators.operator import Workload
from ..space import Emitter, Schedule, Space
from .pool import Pool

Measure = Callable[[Program, Machine, int | None], "Measured"]


LEADERS = 10  # the fastest so many are known exactly, whatever was given up as slower

End = Literal["done", "stopped", "pruned"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Ticks of a program, if `end` is `done`. Else `ticks` is a lower bound above the ceiling.

    `stopped`: the simulation was ended early, since nothing could bring it below the ceiling any more.
    `pruned`: it was not begun, since what its engines and links have to do takes longer.
    """

    ticks: int
    end: End = "done"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one schedule came to: `ticks` of a valid one as in `Measured`, `reason` of an invalid one."""

    rank: int
    ticks: int | None = None
    reason: str | None = None
    end: End = "done"

    @property
    def timed(self) -> bool:
        """Whether it is valid and its time is exact."""
        return self.reason is None and self.end == "done"


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Evaluates single schedules of one workload on one machine. Plain data: it can go to another process."""

    emitter: Emitter
    workload: Workload
    machine: Machine
    space: Space
    measure: Measure

    def prior(self, rank: int) -> float | str:
        """The closed-form guess in cycles, or why the schedule cannot be."""
        schedule = self.space.unrank(rank)
        try:
            refusal = self.emitter.legal(self.workload, self.machine, schedule)
            if refusal is not None:
                return refusal
            cycles = self.emitter.prior_cycles(self.workload, self.machine, schedule)
        except Exception as error:  # noqa: BLE001  # one bad schedule must not end the search, whatever it does
            return reason_of(error)
        return cycles if math.isfinite(cycles) and cycles > 0 else "prior is not a positive number"

    def program(self, rank: int) -> Program:
        """The program of a legal schedule."""
        return self.emitter.lower(self.workload, self.machine, self.space.unrank(rank))

    def evaluate(self, rank: int, ceiling: int | None) -> Outcome:
        """Times a legal schedule; one that takes more than `ceiling` ticks perhaps only so far as to know that."""
        try:
            measured = self.measure(self.program(rank), self.machine, ceiling)
        except Exception as error:  # noqa: BLE001  # as above
            return Outcome(rank, reason=reason_of(error))
        return Outcome(rank, measured.ticks, end=measured.end)


def reason_of(error: Exception) -> str:
    """A short reason to count an error under: figures are left out, so that alike errors count together."""
    if isinstance(error, Undefined):
        return error.kind
    text = re.sub(r"\d+", "N", str(error)).partition("\n")[0][:100]
    return text if isinstance(error, PresilError) and text else f"defect {type(error).__name__}: {text}"


@dataclass(slots=True)
class Candidates:
    """The memory of one search: what each schedule came to. No schedule is looked at twice.

    `refused` counts schedules that the emitter says cannot be, `failed` those whose program was made and is invalid.
    `evaluated` is what a budget counts: schedules whose program was made and was simulated or found invalid. `known`
    holds outcomes from elsewhere, taken over when asked for instead of evaluating again. `leaders` are (ticks, rank) of
    the fastest, ties in schedule order.
    """

    evaluator: Evaluator
    pool: Pool
    known: Mapping[int, Outcome] = field(default_factory=dict)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    priors: dict[int, float] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    evaluated: int = 0
    leaders: list[tuple[int, int]] = field(default_factory=list)
    _illegal: set[int] = field(default_factory=set)

    def prior(self, rank: int) -> float | None:
        """The closed-form guess in cycles, or None for a schedule that cannot be (counted once)."""
        if (known := self.priors.get(rank)) is not None:
            return known
        if rank in self._illegal:
            return None
        prior = self.evaluator.prior(rank)
        if isinstance(prior, str):
            self.refused[prior] += 1
            self._illegal.add(rank)
            return None
        self.priors[rank] = prior
        return prior

    def evaluate(self, ranks: Sequence[int], ceiling: int | None = None) -> list[Outcome]:
        """Outcomes of legal schedules, in the order of `ranks`; those known are not evaluated again."""
        new = [rank for rank in dict.fromkeys(ranks) if rank not in self.outcomes]
        unknown = [rank for rank in new if rank not in self.known]
        for outcome in self.pool.evaluate(self.evaluator, unknown, ceiling):
            self._remember(outcome)
        for rank in new:
            if rank in self.known:
                self._remember(_under(self.known[rank], ceiling))
        return [self.outcomes[rank] for rank in ranks]

    def _remember(self, outcome: Outcome) -> None:
        self.outcomes[outcome.rank] = outcome
        self.evaluated += outcome.end != "pruned"
        if outcome.reason is not None:
            self.failed[outcome.reason] += 1
        elif outcome.end == "done" and outcome.ticks is not None:
            bisect.insort(self.leaders, (outcome.ticks, outcome.rank))
            del self.leaders[LEADERS:]

    @property
    def ceiling(self) -> int | None:
        """Ticks above which a schedule is of no interest: it would not be among the leaders."""
        return self.leaders[-1][0] if len(self.leaders) == LEADERS else None

    @property
    def best_ticks(self) -> int | None:
        """Of the best so far."""
        return self.leaders[0][0] if self.leaders else None

    @property
    def best_cycles(self) -> float | None:
        """Of the best so far."""
        return None if self.best_ticks is None else self.best_ticks / TICKS_PER_CYCLE

    def count(self, end: End) -> int:
        """Valid schedules that ended so."""
        return sum(outcome.end == end and outcome.reason is None for outcome in self.outcomes.values())

    @property
    def invalid(self) -> Mapping[str, int]:
        """Invalid schedules by reason, the most frequent first."""
        both = self.refused + self.failed
        return dict(sorted(both.items(), key=lambda item: (-item[1], item[0])))

    def schedule(self, rank: int) -> Schedule:
        """The schedule of that rank."""
        return self.evaluator.space.unrank(rank)


def _under(outcome: Outcome, ceiling: int | None) -> Outcome:
    """What an evaluation under a ceiling would have told at least."""
    if ceiling is None or outcome.ticks is None or outcome.ticks <= ceiling:
        return outcome
    return Outcome(outcome.rank, ceiling + 1, end="stopped")
