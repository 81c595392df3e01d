"""What a search returns: the best kernel, what it won over the first one, and what became of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from presil.simulators.errors import Unsupported
from presil.simulators.timing import TICKS_PER_CYCLE

from ..space import Schedule, describe

Word = Literal["right", "wrong", "not checked"]


class NothingValid(Unsupported):
    """The search found no schedule that is valid and right. A command that ends so says so with exit code 3."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a search is. `best_cycles` is None until a schedule was timed."""

    evaluated: int
    budget: int
    best_cycles: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The lower bound of a workload on a machine, and what its array could do. `peak` is multiply-adds per cycle."""

    ticks: int
    multiply_adds: int
    peak: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One timed schedule. `reasons` says why a wrong one is wrong."""

    schedule: Schedule
    ticks: int
    clock_hz: float
    roofline: Roofline
    verdict: Word = "not checked"
    reasons: tuple[str, ...] = ()

    @property
    def cycles(self) -> float:
        """Cycles of the machine's clock."""
        return self.ticks / TICKS_PER_CYCLE

    @property
    def seconds(self) -> float:
        """Wall time on the machine."""
        return self.cycles / self.clock_hz

    @property
    def utilization(self) -> float | None:
        """Multiply-adds done of those the arrays could have done; None for an operator that multiplies nothing."""
        if not self.roofline.multiply_adds or not self.roofline.peak:
            return None
        return self.roofline.multiply_adds / (self.cycles * self.roofline.peak)

    @property
    def flops_per_second(self) -> float:
        """Two for each multiply-add that the workload needs."""
        return 2 * self.roofline.multiply_adds / self.seconds

    @property
    def bound_ratio(self) -> float:
        """Time over the lower bound: 1 is the roofline, 1.1 a tenth above it."""
        return self.ticks / max(self.roofline.ticks, 1)

    def to_json(self) -> dict[str, Any]:
        """The JSON object of one schedule."""
        wrong = {"reasons": list(self.reasons)} if self.reasons else {}
        return {
            "cycles": self.cycles,
            "seconds": self.seconds,
            "flops_per_second": self.flops_per_second,
            "utilization": self.utilization,
            "bound_ratio": self.bound_ratio,
            "schedule": dict(describe(self.schedule)),
            "verdict": self.verdict,
            **wrong,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """One search, whole. The same workload, machine, budget and seed give the same result, whatever the jobs.

    `best` is the fastest that was checked and right (`not checked` only if interrupted); `first` the closed-form pick,
    what a careful engineer would write first, checked too (None if none of the first picks is right). `exact`: no
    schedule of the space is faster. `program` is the text of `best`, the very text that was checked.

    Of `schedules` in the space, `evaluated` had their program made, and simulated or found invalid; `stopped` ones of
    them only until they were known to be too slow; `pruned` ones are not among them, their lower bound was enough.
    """

    workload: str
    machine: str
    seed: int
    budget: int
    schedules: int
    evaluated: int
    stopped: int
    pruned: int
    invalid: Mapping[str, int]
    best: Ranked
    first: Ranked | None
    leaderboard: tuple[Ranked, ...]
    exact: bool
    interrupted: bool
    program: str

    @property
    def speedup(self) -> float | None:
        """How many times faster the best is than the first correct one."""
        return None if self.first is None else self.first.ticks / self.best.ticks

    @property
    def wrong(self) -> int:
        """Schedules that were checked and found wrong."""
        return sum(entry.verdict == "wrong" for entry in self.leaderboard)

    def to_json(self) -> dict[str, Any]:
        """The JSON object that `presil search --json` prints."""
        return {
            "workload": self.workload,
            "machine": self.machine,
            "seed": self.seed,
            "budget": self.budget,
            "schedules": self.schedules,
            "evaluated": self.evaluated,
            "stopped": self.stopped,
            "pruned": self.pruned,
            "invalid": dict(self.invalid),
            "wrong": self.wrong,
            "exact": self.exact,
            "interrupted": self.interrupted,
            "best": self.best.to_json(),
            "first": None if self.first is None else self.first.to_json(),
            "speedup": self.speedup,
            "leaderboard": [entry.to_json() for entry in self.leaderboard],
        }
