"""The tables of the correctness page: what was checked, how much of it, and what has no right kernel."""

from __future__ import annotations

from typing import Any

import pandas as pd

from .data import RUNS, Comparison
from .findings import right
from .frames import kernels_frame
from .tables import Align, Table, cell, problem, table, unless
from .words import NONE, percent, whole

PARTIAL_ROWS = 40
PROBLEM_ROWS = 40


def verdict_table(data: Comparison) -> Table:
    """Groups by machines: how many layers have a right kernel."""
    rows = []
    for group in data.groups:
        row = [cell(group.title)]
        for machine in data.machines:
            mine = data.layers_of(group.key, machine.key)
            good = len(right(mine))
            if mine:
                row.append(cell(f"{good} of {len(mine)} right", tone="good" if good == len(mine) else "bad"))
            else:
                row.append(cell(NONE, tone="muted"))
        rows.append(row)
    return table([("Workload group", "left", "2fr"), *((m.key, "right", "1fr") for m in data.machines)], rows)


def checks_table(data: Comparison) -> Table:
    """How much of each check was done on the best kernels, per machine. A kernel of several groups counts once."""
    kernels = kernels_frame(data.layers)
    keys = [m.key for m in data.machines]
    checks = pd.DataFrame(kernels["checks"].tolist(), index=kernels.index).fillna(0)
    sums: dict[str, pd.Series[Any]] = {str(name): checks[name] for name in checks}
    if RUNS in sums:
        sums["kernels so large that there was time for one run"] = sums[RUNS] == 1
    if kernels["elements"].any():
        sums["outputs compared with the reference in the first run"] = kernels["compared_elements"]
        sums["outputs there are"] = kernels["elements"]
        sums["kernels of which that run did only the beginning"] = kernels["partial"]
    sums |= {"schedules timed": kernels["evaluated"], "kernels refused by a check": kernels["refused"]}
    totals = pd.DataFrame(sums).groupby(kernels["machine"]).sum().reindex(keys, fill_value=0)
    rows = [[cell(str(name)), *(cell(whole(n)) for n in counts)] for name, counts in totals.T.iterrows()]
    return table([("Done", "left", "1.5fr"), *((key, "right", "1fr") for key in keys)], rows)


def partial_table(data: Comparison) -> Table:
    """The kernels of which only the beginning was run on data, the least of it first."""
    found = kernels_frame(data.layers)
    found = found[found["partial"]]
    found = found.assign(share=(found["compared_elements"] / found["elements"]).astype(float))
    rows = [
        [
            cell(x["machine"]),
            cell(x["name"], sub=unless(x["workload"], x["name"])),
            cell(percent(x["share"]), sub=f"{whole(x['compared_elements'])} of {whole(x['elements'])}"),
            cell(f"{whole(x['executed_instructions'])} of {whole(x['instructions'])}"),
        ]
        for x in found.sort_values("share", kind="stable").head(PARTIAL_ROWS).to_dict("records")
    ]
    columns: list[tuple[str, Align, str]] = [
        ("Machine", "left", "auto"),
        ("Layer", "left", "2fr"),
        ("Outputs compared", "right", "auto"),
        ("Instructions run", "right", "auto"),
    ]
    return table(columns, rows, of=len(found))


def problem_table(data: Comparison) -> Table:
    """Every layer without a right kernel."""
    bad = [x for x in data.layers if x.status != "right"]
    rows = [
        [cell(x.machine), cell(x.name, sub=unless(x.workload, x.name)), cell(x.status, tone="bad"), cell(problem(x))]
        for x in bad[:PROBLEM_ROWS]
    ]
    columns: list[tuple[str, Align, str]] = [
        ("Machine", "left", "auto"),
        ("Layer", "left", "1.3fr"),
        ("Kernel", "left", "auto"),
        ("Why", "left", "1.7fr"),
    ]
    return table(columns, rows, of=len(bad))
