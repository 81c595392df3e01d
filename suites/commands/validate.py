"""`presil validate FAMILY`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .output import Json, Seed, console, figure, print_json, print_text, progress_bar, table


def validate(
    family: Annotated[str, typer.Argument(metavar="[FAMILY]", help="A family with RTL.")] = "systolic",
    *,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="A folder of runs: reports on it show the errors."),
    ] = None,
    as_json: Json = False,
) -> None:
    """The event model against the RTL, on kernels that no calibration has seen.

    Ends with code 1 where bits differ, or where the cycles of a kernel are more than 3% off.

    Examples:
      presil validate systolic
      presil validate systolic --seed 7 --json
      presil validate systolic -o runs
    """
    from presil.suites.store import Store
    from presil.suites.validation.rtl import errors, validate_rtl

    with progress_bar() as show:
        found = validate_rtl(family, seed, show and (lambda done, of: show(done, of, "kernels")))
    if output is not None:
        for r in found:
            Store(output).put("rtl", r.row, asdict(r))
    summary = errors(found)
    if as_json:
        rows_json = [{**asdict(r), "error_percent": r.error_percent} for r in found]
        print_json({"family": family, "seed": seed, **asdict(summary), "rows": rows_json})
    else:
        rows = table("row", "chip", "workload", "event", "rtl", "error", "bits", right=(3, 4, 5))
        for r in found:
            cycles = (figure(r.event_cycles), figure(r.rtl_cycles), f"{r.error_percent:+.3f}%")
            rows.add_row(r.row, r.machine, r.workload, *cycles, "equal" if r.equal else "DIFFER")
        console().print(rows)
        print_text(
            f"{summary.kernels} kernels: mean error {summary.mean_abs_error:.3%}, "
            f"worst {summary.max_abs_error:.3%} ({summary.worst})"
        )
    if not all(r.good for r in found):
        raise typer.Exit(1)
