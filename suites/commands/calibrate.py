"""`presil calibrate FAMILY`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from .output import Json, console, figure, print_json, print_text, progress_bar, table


def calibrate(
    family: Annotated[str, typer.Argument(metavar="[FAMILY]", help="A family with RTL.")] = "systolic",
    *,
    machine: Annotated[
        str | None, typer.Option("--machine", "-m", metavar="NAME|FILE", help="The chip to measure on.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.yaml", help="Where to write it; without: nowhere."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure on the RTL what the event model has to be told.

    Two figures go to machine descriptions that say `calibrated: true`: issue and semaphore. The rest are costs that the
    model derives from the shape of the chip, measured beside it.

    Examples:
      presil calibrate systolic
      presil calibrate systolic -o simulators/systolic/calibration.yaml
      presil calibrate systolic --machine systolic-16 --json
    """
    from presil.simulators.errors import BadInput
    from presil.simulators.machine import load_machine
    from presil.simulators.systolic.calibrate import calibrate as measure

    if family != "systolic":
        raise BadInput(f"there is no RTL of the family '{family}'; there is: systolic")
    with progress_bar() as show:
        found = measure(
            load_machine(machine or "systolic-8"), show and (lambda done, of: show(done, of, "small programs"))
        )
    if output is not None:
        output.write_text(found.to_yaml(), encoding="utf-8")
    if as_json:
        print_json(asdict(found))
        return
    print_text(f"issue: {figure(found.issue_cycles)} cycles; semaphore: {figure(found.semaphore_cycles)} cycles")
    rows = table("instruction", "interval", "model", "latency", "model", "", right=(1, 2, 3, 4))
    for p in found.probes:
        four = (p.interval_cycles, p.model_interval_cycles, p.latency_cycles, p.model_latency_cycles)
        rows.add_row(p.instruction, *map(figure, four), "" if p.agrees else "differs")
    console().print(rows)
