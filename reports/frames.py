"""The facts of a comparison as pandas tables: the seam between facts and all that is summed, joined or grouped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pandas as pd

from .data import Comparison, Layer, RtlKernel, Validation


def layers_frame(layers: Sequence[Layer]) -> pd.DataFrame:
    """A row per layer, in order; the columns are the fields of `Layer`, then `gain` and `partial`."""
    frame = _frame(layers, Layer)
    return frame.assign(
        gain=pd.Series([x.gain for x in layers], dtype=object),
        partial=pd.Series([x.partial for x in layers], dtype=bool),
    )


def kernels_frame(layers: Sequence[Layer]) -> pd.DataFrame:
    """As `layers_frame`, a row per kernel: one that several groups have counts once, as the last of them says it."""
    return layers_frame(layers).drop_duplicates(["machine", "workload"], keep="last")


def validations_frame(rows: Sequence[Validation]) -> pd.DataFrame:
    """A row per published figure; the fields of `Validation`, and `row_set`, the row's id without its number."""
    frame = _frame(rows, Validation)
    return frame.assign(row_set=frame["row"].astype(str).str.replace(r"(?<=.)-\d[^-]*$", "", regex=True))


def rtl_frame(rows: Sequence[RtlKernel]) -> pd.DataFrame:
    """A row per kernel, in order; the columns are the fields of `RtlKernel`, then `error_percent`."""
    return _frame(rows, RtlKernel).assign(error_percent=[row.error_percent for row in rows])


def score_table(data: Comparison) -> pd.DataFrame:
    """Scores, shape [groups, machines] in the order of the report; NaN where there is none."""
    found = pd.DataFrame([(s.group, s.machine, s.value or None) for s in data.scores], columns=["group", "m", "value"])
    table = found.drop_duplicates(["group", "m"]).pivot_table(index="group", columns="m", values="value")
    return table.reindex(index=[g.key for g in data.groups], columns=[m.key for m in data.machines]).astype(float)


def _frame(rows: Sequence[Any], kind: type[Layer | RtlKernel | Validation]) -> pd.DataFrame:
    """Fields as they are: without `dtype=object` a whole column of counts with one gap would turn into floats."""
    names = [field.name for field in fields(kind)]
    values: list[list[Any]] = [[getattr(row, name) for name in names] for row in rows]
    return pd.DataFrame(values, columns=names, dtype=object)
