"""The errors of a set of published rows in two numbers."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from .published import ValidationRow


@dataclass(frozen=True, slots=True, kw_only=True)
class SetError:
    """Mean and worst absolute error in percent of the rows of one set (`GPU-FA`) that test the model."""

    row_set: str
    rows: int
    mean_percent: float
    worst_percent: float
    worst_row: str


def set_errors(rows: Iterable[ValidationRow]) -> list[SetError]:
    """One for each set, in the order of the rows; those that a machine was described from are left out."""
    sets: dict[str, list[ValidationRow]] = {}
    for row in rows:
        if not row.given:
            sets.setdefault(re.sub(r"-\d[^-]*$", "", row.row), []).append(row)
    found = []
    for name, members in sets.items():
        worst = max(members, key=lambda r: abs(r.error_percent))
        mean = statistics.fmean(abs(r.error_percent) for r in members)
        found.append(
            SetError(
                row_set=name,
                rows=len(members),
                mean_percent=mean,
                worst_percent=abs(worst.error_percent),
                worst_row=worst.row,
            )
        )
    return found
