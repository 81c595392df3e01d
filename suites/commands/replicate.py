"""`presil replicate FAMILY`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .output import Json, console, figure, print_json, print_text, progress_bar, table


def replicate(
    family: Annotated[str, typer.Argument(metavar="[FAMILY]", help="A family of machines.")] = "systolic",
    *,
    row: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only rows whose id begins so (may be repeated).")
    ] = None,
    budget: Annotated[int, typer.Option(min=1, help="Schedules tried where a row leaves the kernel open.")] = 40,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="A folder of runs: reports on it show the rows."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Published measurements, with what the models here say of the same work.

    Examples:
      presil replicate
      presil replicate systolic --row SYS-TPU1 --row SYS-GEM
      presil replicate systolic --row SYS-GEM-010 --json
      presil replicate gpu --row GPU-FA
      presil replicate -o runs
    """
    from presil.suites.store import Store
    from presil.suites.validation import not_modelled, validate
    from presil.suites.validation.summary import set_errors

    with progress_bar() as show:
        found = validate(family, row, budget, show)
    reasons = not_modelled(family)
    if output is not None:
        for r in found:
            Store(output).put("validation", r.row, asdict(r))
    if as_json:
        errors = [asdict(e) for e in set_errors(found)]
        rows_of = {"rows": [asdict(r) for r in found], "errors": errors, "not_modelled": reasons}
        print_json({"family": family, **rows_of})
        return
    rows = table("row", "workload", "metric", "published", "ours", "error", "note", right=(3, 4, 5))
    for r in found:
        held = "held out; " if r.held_out else "given; " if r.given else ""
        error = f"{r.error_percent:+.1f}%" if r.published else ""
        rows.add_row(r.row, r.workload, r.metric, figure(r.published), figure(r.ours), error, f"{held}{r.note}")
    console().print(rows)
    for e in set_errors(found):
        each = f"{e.rows} rows, mean error {e.mean_percent:.1f}%, worst {e.worst_percent:.1f}% ({e.worst_row})"
        print_text(f"{e.row_set}: {each}")
    for set_name, reason in reasons.items():
        print_text(f"{set_name}: not compared: {reason}")
