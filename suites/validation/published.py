"""Published figures, as `suites/published/*.csv` lists them, and how ours are set beside them."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PUBLISHED = Path(__file__).parent.parent / "published"
MACHINES = Path(__file__).parent / "machines"  # descriptions that only comparisons need


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """A published figure. `evidence` says what kind of figure it is: measured, rtl-sim, vendor-model."""

    row: str
    chip: str
    workload: str
    batch: str
    dtype: str
    metric: str
    value: float
    unit: str
    conditions: str
    source: str

    @property
    def evidence(self) -> str:
        """measured, rtl-sim, vendor-model, ..."""
        found = re.search(r"\[kind=([^;\]]+)", self.conditions)
        return found[1] if found else "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationRow:
    """A published figure and ours. `error_percent` is 100 * (ours / published - 1), or `ours` itself where the share
    published is 0%. `held_out`: not run until a change of the model was decided on other rows. `given`: the figure, or
    one that it gave, is in the description of the machine: agreement says nothing.
    """

    row: str
    machine: str
    workload: str
    metric: str
    unit: str
    published: float
    ours: float
    error_percent: float
    note: str
    source: str
    evidence: str
    held_out: bool = False
    given: bool = False


def published_rows(family: str = "systolic") -> Mapping[str, PublishedRow]:
    """All rows of a family of machines, by id, in the order of the file."""
    with (PUBLISHED / f"{family}.csv").open(encoding="utf-8", newline="") as file:
        return {
            line["id"]: PublishedRow(
                row=line["id"],
                chip=line["chip"],
                workload=line["workload"],
                batch=line["batch"],
                dtype=line["dtype"],
                metric=line["metric"],
                value=float(line["value"]),
                unit=line["unit"],
                conditions=line["conditions"],
                source=line["source"],
            )
            for line in csv.DictReader(file)
        }


def compared(
    row: PublishedRow,
    ours: float,
    *,
    machine: str,
    workload: str,
    note: str,
    held_out: bool = False,
    given: bool = False,
) -> ValidationRow:
    """`ours` beside `row`."""
    return ValidationRow(
        row=row.row,
        machine=machine,
        workload=workload,
        metric=row.metric,
        unit=row.unit,
        published=row.value,
        ours=ours,
        error_percent=100 * (ours / row.value - 1) if row.value else ours,
        note=note,
        source=row.source,
        evidence=row.evidence,
        held_out=held_out,
        given=given,
    )
