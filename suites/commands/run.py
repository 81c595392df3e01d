"""`presil run SUITE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .output import Json, console, figure, print_json, print_text, progress_bar, say, table

if TYPE_CHECKING:
    from presil.suites.runs import Run


def run(
    suite: Annotated[Path, typer.Argument(metavar="SUITE", help="A suite description (YAML).", show_default=False)],
    *,
    machine: Annotated[
        list[str] | None, typer.Option("--machine", "-m", metavar="NAME|FILE", help="Instead of those of the suite.")
    ] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Evaluations per workload and machine.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, max=2**32 - 1, help="Same seed, same result.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Worker processes; the results are the same.")] = 1,
    resume: Annotated[bool, typer.Option(help="Take what an earlier run has finished, or do all anew.")] = True,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="The folder of runs.")] = Path("runs"),
    as_json: Json = False,
) -> None:
    """Run a suite: search, check, time and rank every workload on every machine, and store it all.

    Finished work survives Ctrl-C and kill -9; the same command goes on where it stopped.

    Examples:
      presil run suites/quick.yaml --jobs 2
      presil run suites/quick.yaml --machine tpu-v1 --budget 50 --seed 7 -o runs --json
    """
    from presil.simulators.machine import load_machine
    from presil.suites.pipeline import Options, run_suite
    from presil.suites.runs import to_json
    from presil.suites.suite import load_suite

    chosen = tuple(load_machine(name) for name in dict.fromkeys(machine or []))
    options = Options(machines=chosen, budget=budget, seed=seed, jobs=jobs, resume=resume)
    with progress_bar() as show:
        done = run_suite(
            load_suite(suite),
            options,
            output,
            show and (lambda at: show(at.finished, at.planned, f"{at.machine} {at.workload}")),
        )
    if as_json:
        print_json(to_json(done))
    else:
        _print_run(done)
    if any(item["status"] not in {"done", "unsupported"} for item in done.items.values()):
        raise typer.Exit(1)


def _print_run(done: Run) -> None:
    facts = done.facts
    print_text(
        f"run {done.run_id} in {done.folder}: {facts['finished']} of {facts['planned']} finished, "
        f"{facts['reused']} of them taken from earlier runs, {facts['failed']} without a right kernel"
    )
    rows = table("group", *facts["machines"], "unit", right=tuple(range(1, len(facts["machines"]) + 1)))
    for group in done.groups:
        values = [score.value for score in done.scores if score.group == group.name]
        shown = ["-" if value is None else figure(value) for value in values]
        rows.add_row(group.title, *shown, group.unit)
    console().print(rows)
    for place, ranked in enumerate(done.ranks, 1):
        figures = "no common figure" if ranked.relative is None else f"{ranked.relative:.3f} of the best"
        print_text(f"{place}. {ranked.machine}: {figures} (geometric mean over {ranked.groups} groups)")
    for (workload, machine), item in sorted(done.items.items()):
        if item["status"] != "done":
            say(f"presil: {machine} {workload}: {item['status']}: {item['reason']}")
