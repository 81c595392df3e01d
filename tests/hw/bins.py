"""Functional coverage: which of the cases that matter a random test has met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable


class Bins:
    """Named sets of cases, each counted as it is met.

    >>> bins = Bins(rows=range(1, 3))
    >>> bins.hit(rows=1)
    >>> bins.missing()
    {'rows': [2]}
    """

    def __init__(self, **wanted: Iterable[Hashable]) -> None:
        self.wanted = {name: list(cases) for name, cases in wanted.items()}
        self.met: dict[str, Counter[Hashable]] = {name: Counter() for name in wanted}

    def hit(self, **cases: Hashable) -> None:
        """Count one case of each bin named. Cases that are not wanted do no harm."""
        for name, case in cases.items():
            self.met[name][case] += 1

    def missing(self) -> dict[str, list[Hashable]]:
        """The cases that were never met, of each bin that has any."""
        left = {name: [case for case in cases if not self.met[name][case]] for name, cases in self.wanted.items()}
        return {name: cases for name, cases in left.items() if cases}

    def text(self) -> str:
        """How often each case was met."""
        return "; ".join(
            f"{name}: " + ", ".join(f"{case} {self.met[name][case]}" for case in cases)
            for name, cases in self.wanted.items()
        )

    def check(self) -> None:
        """Raises AssertionError for cases never met."""
        print(f"met: {self.text()}", flush=True)  # noqa: T201 - the report is the point
        assert not self.missing(), f"never met: {self.missing()}"
