"""How every verb prints: data on stdout, one JSON object with `--json`, messages on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 160  # of tables that go to a file or a pipe

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Same seed, same result.")]
MachineName = Annotated[
    str, typer.Option("--machine", "-m", metavar="NAME|FILE", help="A machine (see `presil machines`).")
]


def print_json(value: Any) -> None:
    """One JSON object on stdout. A value without a JSON form is a defect and raises."""
    print_text(json.dumps(value, indent=2, allow_nan=False))


def print_text(text: str) -> None:
    """A line (or lines) on stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()  # a reader that is gone shows here, where it is caught


def say(text: str) -> None:
    """A message for the person, on stderr."""
    sys.stderr.write(text + "\n")


def console() -> Console:
    """Standard output for tables; without colour where it is no terminal or NO_COLOR is set."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def table(*headers: str, title: str | None = None, right: tuple[int, ...] = ()) -> Table:
    """An empty table; the columns in `right` hold figures."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for i, header in enumerate(headers):
        made.add_column(header, justify="right" if i in right else "left", overflow="fold")
    return made


def figure(value: float, unit: str = "") -> str:
    """A figure to read: four digits, and an SI prefix where there is a unit."""
    if not unit:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    for power, prefix in zip(range(15, -9, -3), "PTGMk mµ", strict=True):
        if abs(value) >= 10.0**power:
            return f"{value / 10.0**power:.4g} {prefix.strip()}{unit}"
    return f"{value * 1e9:.4g} n{unit}"


@contextmanager
def progress_bar() -> Iterator[Callable[[int, int, str], None] | None]:
    """A bar on stderr, to be told (done, of how many, what in words); None where that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("starting", total=None)
        yield lambda done, total, words: bars.update(task, completed=done, total=total, description=words[:60])
