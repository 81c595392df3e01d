"""From stored runs to a PDF: the last arrow of the line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from presil.suites.runs import Run, open_run

from .load import compare


def build_report(runs: Sequence[str | Path | None], output: Path) -> None:
    """Writes the comparative report of these runs; with none given, of the newest run in `runs/`.

    Each is what `open_run` takes: a run's id, or a folder. Raises NothingRan where there is nothing to report, BadInput
    where the file cannot be written.
    """
    write_report([open_run(run) for run in runs or (None,)], output)


def write_report(runs: Sequence[Run], output: Path) -> None:
    """Writes the comparative report of opened runs. The same runs give the same bytes. Raises as `build_report`."""
    from .typeset import render, write

    write(render(compare(runs)), output)
