"""`presil search WORKLOAD`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .output import Json, MachineName, Seed, console, figure, print_json, print_text, progress_bar, table


def search(
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD", help="What to compute.", show_default=False)],
    *,
    machine: MachineName,
    budget: Annotated[int, typer.Option(min=1, help="Schedules to evaluate at most.")] = 200,
    seed: Seed = 0,
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="Every schedule of a small space.")] = False,
    save: Annotated[Path | None, typer.Option(metavar="FILE.pasm", help="Write the best program.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes; the result is the same.")] = 1,
    as_json: Json = False,
) -> None:
    """Search the best right kernel for a workload on a machine.

    Examples:
      presil search matmul:m=512,n=512,k=512,dtype=int8 --machine tpu-v1
      presil search matmul:m=512,n=512,k=512 -m gemmini-16 --budget 100 --save best.pasm --json
    """
    from presil.kernels.ignition.search import search as ignite
    from presil.kernels.operators.registry import parse_workload
    from presil.simulators.machine import load_machine
    from presil.suites.validation.gpu import beside

    task, target = parse_workload(workload), load_machine(machine)
    with progress_bar() as show:
        found = ignite(
            task,
            target,
            budget=budget,
            seed=seed,
            exhaustive=exhaustive,
            jobs=jobs,
            progress=show and (lambda at: show(at.evaluated, at.budget, _best(at.best_cycles))),
        )
    result = found.to_json()
    result["published"] = [
        {"row": row.row, "metric": row.metric, "value": row.value, "unit": row.unit, "source": row.source}
        for row in (beside(task, target) if target.family == "gpu" else [])
    ]
    if save is not None:
        write_text(save, found.program)
    print_json(result) if as_json else _print_found(result)
    if found.interrupted:
        raise KeyboardInterrupt("this is the best so far, not checked")


def write_text(path: Path, text: str) -> None:
    """Writes a file, whole or not at all. Raises BadInput where it cannot be written."""
    from presil.simulators.errors import BadInput
    from presil.suites.store import write_whole

    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise BadInput(f"cannot be written: {error.strerror}", file=str(path)) from error


def _print_found(result: dict[str, Any]) -> None:
    best = result["best"]
    print_text(f"{result['workload']} on {result['machine']}: {result['evaluated']} evaluated, seed {result['seed']}")
    print_text(
        f"best: {figure(best['cycles'])} cycles, {figure(best['seconds'], 's')}, "
        f"{_share(best['utilization'])} of the peak, {best['bound_ratio']:.3f} x the bound, {best['verdict']}"
    )
    if best["flops_per_second"]:
        print_text(f"      {best['flops_per_second'] / 1e12:.1f} TFLOP/s")
    for row in result["published"]:
        print_text(f"      published: {row['value']:g} {row['unit']} ({row['row']}, {row['source']})")
    rows = table("", "cycles", "schedule", right=(0, 1))
    for place, entry in enumerate(result["leaderboard"], 1):
        rows.add_row(str(place), figure(entry["cycles"]), schedule_text(entry["schedule"]))
    console().print(rows)


def _best(cycles: float | None) -> str:
    return "searching" if cycles is None else f"best: {figure(cycles)} cycles"


def _share(part: float | None) -> str:
    return "none" if part is None else f"{part:.1%}"


def schedule_text(schedule: dict[str, Any] | str) -> str:
    """`bm=128 bn=256`."""
    return schedule if isinstance(schedule, str) else " ".join(f"{name}={value}" for name, value in schedule.items())
