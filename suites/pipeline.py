"""The straight line of presil, in one file. Each arrow is one call:

    workload -> candidates -> program -> timing -> verdict -> result -> store -> scores -> (report)

`run_item` takes one workload on one machine from the left to its result; `run_suite` does so for a whole suite, in
parallel, stores each result as it comes, and ranks the machines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from presil.kernels.checking import Verdict, check
from presil.kernels.ignition.result import NothingValid
from presil.kernels.ignition.search import search
from presil.kernels.operators.operator import Workload
from presil.kernels.operators.registry import parse_workload
from presil.simulators.assembly import parse, render
from presil.simulators.errors import Unsupported
from presil.simulators.machine import Machine
from presil.simulators.program import Program
from presil.simulators.simulate import simulate

from .groups import groups_of
from .items import lacking, least_seconds, machine_facts, result
from .runs import Item, Run, end_run, open_run, plan_items, read_items, start_run
from .store import Body, Record, Store
from .suite import Suite
from .versions import versions
from .workers import parallel


def run_item(item: Item) -> Body:
    """One workload on one machine, through the whole line; the body of its record.

    A workload that the machine cannot run, or of which no kernel is right, is a result too, with its reason.
    Raises KeyboardInterrupt where the search was interrupted: what it has by then depends on when.
    """
    workload = parse_workload(item.workload)
    verdicts: dict[str, Verdict] = {}

    def judge(program: Program, task: Workload, machine: Machine) -> Verdict:
        return verdicts.setdefault(render(program), check(program, task, machine, budget_seconds=item.check_seconds))

    try:
        found = search(workload, item.machine, budget=item.budget, seed=item.seed, check=judge)  # -> candidates
    except NothingValid as error:
        return lacking(item, "no right kernel", str(error))
    except Unsupported as error:
        return lacking(item, "unsupported", str(error))
    if found.interrupted:  # its best may be unchecked, and is not what the whole budget would have found
        raise KeyboardInterrupt
    program = parse(found.program)  # -> program: from here on, only what its text says
    timing = simulate(program, item.machine, mode="skip").timing  # -> timing
    verdict = verdicts[found.program]  # -> verdict: of this very text
    return result(item, found, workload=workload, program=program, timing=timing, verdict=verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line may set over the suite; None and () leave it as it is."""

    machines: tuple[Machine, ...] = ()
    budget: int | None = None
    seed: int | None = None
    jobs: int = 1
    resume: bool = True


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is, and the piece of work that was finished last."""

    finished: int
    planned: int
    workload: str
    machine: str


Show = Callable[[Progress], None]


def run_suite(suite: Suite, options: Options, folder: Path, show: Show | None = None) -> Run:
    """Runs a suite and stores it in `folder`. Results do not depend on `options.jobs`.

    Work that an earlier run has finished with the same inputs and the same code is taken from the store, unless
    `options.resume` is False. Raises NothingRan where nothing was measured, BadInput where the folder cannot be
    written, and KeyboardInterrupt, after what was finished is safe.
    """
    suite = replace(
        suite,
        machines=options.machines or suite.machines,
        budget=suite.budget if options.budget is None else options.budget,
        seed=suite.seed if options.seed is None else options.seed,
    )
    made_by = versions()
    groups = groups_of(suite)
    items = plan_items(suite, groups, made_by)
    store = Store(folder)
    finished = read_items(store, [item.key for item in items]) if options.resume else {}
    facts = {
        "suite": suite.name,
        "title": suite.title,
        "suite_text": suite.text,
        "budget": suite.budget,
        "seed": suite.seed,
        "check_seconds": suite.check_seconds,
        "jobs": options.jobs,
        "machines": [machine.name for machine in suite.machines],
        "versions": made_by,
        "reused": len(finished),
    }
    run = start_run(store, items, groups, facts, {m.name: machine_facts(m) for m in suite.machines})
    failures: list[Body] = []
    try:
        _work(store, items, finished, failures, jobs=options.jobs, show=show)
    except KeyboardInterrupt:
        finished |= read_items(store, [item.key for item in items])  # also one that was being stored at that moment
        end_run(store, run.key, list(finished.values()), failures, interrupted=True)
        kept = f"{len(finished)} of {len(items)} are finished and kept; the same command goes on from there"
        raise KeyboardInterrupt(kept) from None
    end_run(store, run.key, list(finished.values()), failures, interrupted=False)
    return open_run(folder / run.key)


def _work(
    store: Store,
    items: Sequence[Item],
    finished: dict[str, Record],
    failures: list[Body],
    *,
    jobs: int,
    show: Show | None,
) -> None:
    """Does what is not finished yet, and fills `finished` and `failures`."""
    # The longest first, so that no worker is left alone with one at the end.
    todo = sorted((item for item in items if item.key not in finished), key=least_seconds, reverse=True)
    for answer in parallel(run_item, todo, jobs=jobs):
        item = todo[answer.index]
        if answer.result is None:
            failures.append(lacking(item, "failed", answer.failure or "no reason"))
        else:
            finished[item.key] = store.put("item", item.key, answer.result)
        if show:
            show(Progress(len(finished) + len(failures), len(items), item.workload, item.machine.name))
