"""The correctness harness: a kernel is right when it cannot be wrong by luck.

Three layers, cheapest first; a layer runs only where the ones before found nothing.

1. Of the text alone: it is for this workload, scales as that says, the machine can execute it, and it means the same
   under every timing (`presil.simulators.sanitizer`).
2. Timed functional runs on fresh machines: memories and outputs poisoned at random, operands sampled when an
   instruction starts, every element of every output stored, inputs and guards around them unchanged, the same bits
   under other poison.
3. Numbers against the operator's reference on secret seeds and adversarial patterns: integers equal, floats inside the
   derived bound of each element. And an audit: multiply-adds, bytes, time.

What is checked is the text, read again. `clean_process.py` does so in a process of its own, under limits.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

from presil.simulators.assembly import parse, render
from presil.simulators.errors import BadInput, ModelError, Undefined, Unsupported
from presil.simulators.family import family
from presil.simulators.legality import check_legality
from presil.simulators.lines import issued
from presil.simulators.machine import Machine
from presil.simulators.program import Program
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate

from .audit import audit, declared, scalars
from .operators.admission import admit
from .operators.operator import PATTERNS, Workload
from .operators.registry import operator
from .trials import Effort, Task, judge, plan, run, same_bits
from .verdict import Fact, Reason, Verdict

__all__ = ["Reason", "Verdict", "check", "check_text"]

BUDGET_SECONDS = 5.0


def check(
    program: Program,
    workload: Workload,
    machine: Machine,
    *,
    seeds: int | None = None,
    patterns: Sequence[str] = PATTERNS,
    run_seed: int = 0,
    budget_seconds: float = BUDGET_SECONDS,
    least_multiply_adds: int | None = None,
) -> Verdict:
    """Whether `program` computes `workload` on `machine`, under every timing and whatever its inputs.

    Runs `seeds` seeds of each of `patterns`; None: 2, and up to 8 where that takes next to no time. Where that would
    take longer than about `budget_seconds`, fewer; where not even one would fit, the beginning of one, and what was
    stored by then is compared. `Verdict.facts` says so. The first layer and the audit are always of the whole program.
    `least_multiply_adds` is for proven algorithms that need fewer than the definition. Seeds depend on the text of the
    program and on `run_seed`.
    Raises BadInput where the task is no task (a kernel that knows nothing of its inputs passes), or arguments are bad.
    """
    try:
        text = render(program)
    except BadInput as error:
        return Verdict(right=False, reasons=(Reason("text", f"program {program.name}", error.message),))
    return check_text(
        text,
        workload,
        machine,
        seeds=seeds,
        patterns=patterns,
        run_seed=run_seed,
        budget_seconds=budget_seconds,
        least_multiply_adds=least_multiply_adds,
    )


def check_text(
    text: str,
    workload: Workload,
    machine: Machine,
    *,
    seeds: int | None = None,
    patterns: Sequence[str] = PATTERNS,
    run_seed: int = 0,
    budget_seconds: float = BUDGET_SECONDS,
    least_multiply_adds: int | None = None,
) -> Verdict:
    """As `check`, for the text of a program."""
    unknown = [p for p in patterns if p not in PATTERNS]
    if unknown or not patterns or (seeds is not None and seeds < 1):
        raise BadInput(f"seeds={seeds}, patterns={list(patterns)}; allowed: 1 or more of {', '.join(PATTERNS)}")
    _admit(workload)
    effort = Effort(seeds=seeds, patterns=patterns, run_seed=run_seed, budget_seconds=budget_seconds)
    facts: dict[str, Fact] = {}
    try:
        program = parse(text, ops=family(machine.family).ops)
        task = Task(program, machine, operator(workload.operator), workload)
        reasons = _still(task, facts) or _moving(task, text, effort, least_multiply_adds, facts)
    except Undefined as error:
        reasons = [Reason(error.kind, error.where, error.detail)]
    except Unsupported as error:
        reasons = [Reason("unsupported", f"program on {machine.name}", str(error))]
    except BadInput as error:
        reasons = [Reason("illegal", f"program on {machine.name}", str(error))]
    return Verdict(right=not reasons, reasons=tuple(reasons), facts=facts)


def _still(task: Task, facts: dict[str, Fact]) -> list[Reason]:
    """The first layer: what is wrong with the text alone."""
    program = task.program
    each = (sum(issued(s.body) for s in phase.streams) * phase.instances for phase in program.phases)
    facts["instructions"] = sum(each)
    reasons = list(declared(task))
    if reasons:
        return reasons
    check_legality(program, task.machine)
    return [*(Reason(f.kind, f.where, f.detail) for f in sanitize(program, task.machine)), *scalars(task)]


def _moving(
    task: Task, text: str, effort: Effort, least_multiply_adds: int | None, facts: dict[str, Fact]
) -> list[Reason]:
    """The second and the third layer: what runs show. Ends at the first trial that finds something."""
    work = task.operator.work(task.workload)
    timing = simulate(task.program, task.machine, mode="skip").timing
    facts["ticks"], facts["multiply_adds"] = timing.ticks, timing.multiply_adds
    least = work.least_multiply_adds if least_multiply_adds is None else least_multiply_adds
    audited = list(audit(task, work, timing, least))
    reasons: list[Reason] = []
    done: list[str] = []
    facts["trials"] = done
    trials = plan(text, task.workload, effort, timing.issued_instructions, timing.multiply_adds)
    for number, trial in enumerate(trials):
        done.append(f"{trial.pattern} {trial.seed:016x}")
        execution, wrong, inputs = judge(task, trial)
        reasons += wrong
        if number == 0:
            reasons += audited
            facts["executed_instructions"] = execution.timing.executed_instructions
            facts["compared_elements"] = sum(int(mask.sum()) for mask in execution.stored.values())
            facts["elements"] = sum(mask.size for mask in execution.stored.values())
            facts["other_poison"] = len(trials) > 1 and not reasons
            if facts["other_poison"]:
                again, more = run(task, inputs, replace(trial, poison=trial.poison ^ 1))
                reasons += [*more, *same_bits(execution, again)]
        if trial.stop_after is None and execution.timing.ticks != timing.ticks:
            raise ModelError(f"{task.program.name}: {execution.timing.ticks} ticks on data, {timing.ticks} without")
        if reasons:
            break
    return reasons


@functools.lru_cache(maxsize=1024)
def _admit(workload: Workload) -> None:
    admit(operator(workload.operator), workload)
