"""`presil area FAMILY`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .output import Json, console, figure, print_json, progress_bar, table

if TYPE_CHECKING:
    from presil.simulators.rtl.area import Line


def area(
    family: Annotated[str, typer.Argument(metavar="[FAMILY]", help="A family with RTL.")] = "systolic",
    *,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="A folder of runs: reports on it show the area."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Synthesise the modules of a family at a few sizes, and fit cells to each of their units.

    Cells are gates of two inputs and flip-flops, as Yosys counts them. It takes minutes the first time; what was
    counted is kept. Yosys comes with `pip install 'presil[area]'`.

    Examples:
      presil area systolic
      presil area systolic --json
      presil area systolic -o runs
    """
    from presil.simulators.errors import BadInput
    from presil.simulators.rtl.area import measure
    from presil.simulators.systolic.area import PARTS
    from presil.suites.store import Store

    if family != "systolic":
        raise BadInput(f"there is no RTL of the family '{family}'; there is: systolic")
    with progress_bar() as show:
        lines = measure(family, PARTS, show)
    if output is not None:
        store = Store(output)
        for line in lines:
            store.put("area", f"{family}-{line.module}", {"family": family, **_json(line)})
    if as_json:
        print_json({"family": family, "modules": [_json(line) for line in lines]})
        return
    rows = table("module", "unit", "cells", "+ per unit", "RAM bits", "fit", "sizes", "cells there", right=(2, 3, 4, 5))
    for line in lines:
        rows.add_row(
            line.module,
            line.unit,
            figure(line.fixed),
            figure(line.per_unit),
            figure(line.ram_bits_per_unit),
            f"{100 * line.worst:.1f}%",
            " ".join(figure(point.units) for point in line.points),
            " ".join(figure(point.total) for point in line.points),
        )
    console().print(rows)


def _json(line: Line) -> dict[str, object]:
    found = asdict(line)
    worst = found.pop("worst")
    return {**found, "worst_fit_percent": 100 * worst}
