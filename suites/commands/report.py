"""`presil report [RUN]...`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from .output import Json, print_json, print_text


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...", help="Ids of runs, or folders (the newest run in them). None: the newest in runs/."
        ),
    ] = None,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.pdf", help="Where to write it.")],
    as_json: Json = False,
) -> None:
    """Write the PDF of one run, or of several beside each other.

    Examples:
      presil report -o report.pdf
      presil report runs/20261201T050000-quick-1a2b3c4d -o report.pdf
    """
    from presil.suites.runs import open_run

    found = [open_run(place) for place in runs] if runs else [open_run()]
    # Named, not imported: reports read runs, so nothing below reports may depend on them.
    importlib.import_module("presil.reports").write_report(found, output)
    if as_json:
        print_json({"file": str(output), "runs": [run.run_id for run in found]})
    else:
        print_text(f"{output}: the report of {', '.join(run.run_id for run in found)}")
