"""Runs a program on secret inputs and compares what it stored with the reference."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from presil.simulators.kinds import kinds
from presil.simulators.lines import issued
from presil.simulators.machine import Machine
from presil.simulators.program import Program
from presil.simulators.provenance import last_store
from presil.simulators.simulate import simulate
from presil.simulators.timing import Execution

from .operators.admission import wrong_elements
from .operators.operator import Arrays, Operator, Workload, uncropped
from .operators.registry import operator
from .operators.rowwise import EXTREME_KINDS
from .verdict import Reason

LONGEST = 1 << 32  # instructions; more than any run that can be executed on data has
WAVES = 2  # of instances that a run which is stopped early should finish
GUARD_BYTES = 4096
GUARD = 0xA5
LEAST_SEEDS, MOST_SEEDS = 2, 8  # of each pattern
SPARE_SECONDS, LONG_SPARE_SECONDS = 0.5, 30.0  # for more trials than the least; with a budget, and without
# Measured on one core, in round figures: what a check of that much work takes.
FIXED_SECONDS, LEAST_SECONDS = 0.1, 0.01  # of a trial: planned with, and what the smallest takes
SECONDS_PER_INSTRUCTION = 5e-5
SECONDS_PER_ELEMENT, FEW_ELEMENTS = 1e-7, 1 << 20  # what fewer take is in the fixed part
SECONDS_PER_MULTIPLY_ADD = {"int8": 5e-11, "bf16": 2e-10}


@dataclass(frozen=True, slots=True)
class Task:
    """A program, and what it should compute on which machine."""

    program: Program
    machine: Machine
    operator: Operator
    workload: Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much to try: `seeds` of each of `patterns`, as far as `budget_seconds` go; `run_seed` varies the seeds.

    None: 2 seeds, and up to 8 where that takes next to no time.
    """

    seeds: int | None
    patterns: Sequence[str]
    run_seed: int
    budget_seconds: float


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: inputs drawn from `seed` by `pattern`, memories poisoned from `poison`.

    `stop_after`: a run of a very long program ends when that many instructions have started. What was stored by then
    is compared.
    """

    pattern: str
    seed: int
    poison: int
    stop_after: int | None = None


@dataclass(frozen=True, slots=True)
class Right:
    """What the elements in `box` of an output should be, and how far from it each may lie."""

    box: tuple[slice, ...]
    reference: np.ndarray
    bound: np.ndarray


def secret(*parts: object) -> int:
    """A seed that nobody knows before the program is frozen: it depends on the program's own text."""
    digest = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def seconds_per_trial(workload: Workload, instructions: int, multiply_adds: int) -> float:
    """About how long one trial takes on one core. An estimate from the work alone, so that plans repeat.

    What the program does, and what it takes to draw inputs and to compute reference and bound of each element.
    """
    dtype = str(dict(workload.parameters).get("dtype", "int8"))
    rate = SECONDS_PER_MULTIPLY_ADD.get(dtype, SECONDS_PER_MULTIPLY_ADD["bf16"])
    elements = max(sum(spec.elements for spec in operator(workload.operator).tensors(workload)) - FEW_ELEMENTS, 0)
    work = instructions * SECONDS_PER_INSTRUCTION + multiply_adds * rate + elements * SECONDS_PER_ELEMENT
    return FIXED_SECONDS + work


def plan(text: str, workload: Workload, effort: Effort, instructions: int, multiply_adds: int) -> list[Trial]:
    """As many trials as the budget allows, the most telling first; one that is stopped early where not even one fits.

    Where sums must be exact (integers, or floats that hold integers) any slip shows, so such a pattern is first.
    Where trials take next to no time there are more of them: one element of an edge tile that should have been clamped
    shows it in every other trial only.
    """
    exact = "random" if dict(workload.parameters).get("dtype") == "int8" else "integers"
    ordered = sorted(effort.patterns, key=lambda p: (p != exact, p != "marker", effort.patterns.index(p)))
    # Rows are of several extreme kinds, and a fault may be in one row that shows it in one kind: each row is each once.
    turns = EXTREME_KINDS if "rows" in dict(workload.parameters) else 1
    needed, more = [], []
    for i in range(max(effort.seeds or MOST_SEEDS, turns)):
        for pattern in ordered:
            parts = (workload, text, effort.run_seed, pattern)
            seed = secret(*parts, i)
            if pattern == "extremes":
                seed = secret(*parts, i // turns) // turns * turns + i % turns
            least = turns if pattern == "extremes" else 0
            trial = Trial(pattern, seed, secret(*parts, i, "poison"))
            if i < max(effort.seeds or LEAST_SEEDS, least):
                needed.append(trial)
            elif not effort.seeds:
                more.append(trial)
    seconds = seconds_per_trial(workload, instructions, multiply_adds)
    fit = effort.budget_seconds / seconds
    if fit < 1:
        return [replace(needed[0], stop_after=max(int(fit * instructions), 1))]
    spare = LONG_SPARE_SECONDS if effort.budget_seconds == math.inf else SPARE_SECONDS
    trials = needed + more[: max(int(spare / (seconds - FIXED_SECONDS + LEAST_SECONDS)) - len(needed), 0)]
    return trials[: int(min(fit, len(trials)))]


def run(task: Task, inputs: Arrays, trial: Trial) -> tuple[Execution, list[Reason]]:
    """A timed functional run on a fresh machine. Inputs lie between guards; both must be as before, afterwards.

    One that stored nothing before it was to stop is given twice as long, and so on: there must be something to compare.
    """
    zones = {name: _guarded(array) for name, array in inputs.items()}
    views = {name: view for name, (_, view) in zones.items()}
    with np.errstate(all="ignore"):  # infinity and NaN are for `compare` to find
        execution = _execute(task, views, trial.poison, trial.stop_after)
        stop_after = trial.stop_after or LONGEST
        while not any(mask.any() for mask in execution.stored.values()) and stop_after < LONGEST:
            stop_after *= 2
            execution = _execute(task, views, trial.poison, stop_after)
    reasons = []
    for name, (zone, view) in zones.items():
        if not np.array_equal(_bytes(view), _bytes(inputs[name])):
            reasons.append(Reason("input-written", f"tensor {name}", "an input is not what it was before the run"))
        if not ((zone[:GUARD_BYTES] == GUARD).all() and (zone[-GUARD_BYTES:] == GUARD).all()):
            reasons.append(Reason("guard", f"tensor {name}", "bytes beside an input were written"))
    return execution, reasons


def _execute(task: Task, inputs: Arrays, poison: int, stop_after: int | None) -> Execution:
    machine = task.machine if stop_after is None else _fewer_cores(task, stop_after)
    return simulate(task.program, machine, mode="full", inputs=inputs, poison_seed=poison, stop_after=stop_after)


def _fewer_cores(task: Task, stop_after: int) -> Machine:
    """The machine with so few cores that some dispatched instances end before the run does.

    Instances share nothing, which the first layer has shown, so what one computes does not depend on how many run.
    """
    program, machine = task.program, task.machine
    if program.place == "static" or program.before:  # all of the first phases must run, however many
        return machine
    each = max(sum(issued(stream.body) for stream in kind.program.streams) for kind in kinds(program))
    return machine.with_cores(min(machine.cores, max(1, stop_after // (WAVES * each))))


def judge(task: Task, trial: Trial) -> tuple[Execution, list[Reason], Arrays]:
    """Runs one trial: (execution, what is wrong, its inputs). The reference is made from a copy that no run has seen.

    Of a run that is stopped early, only the part that encloses what was stored is computed again.
    """
    operator, workload = task.operator, task.workload
    inputs = operator.inputs(workload, trial.seed, trial.pattern)
    private = {name: array.copy() for name, array in inputs.items()}
    execution, reasons = run(task, inputs, trial)
    (name,) = execution.outputs
    stored = execution.stored[name]
    crop = uncropped(workload, private, stored) if stored.all() else operator.crop(workload, private, stored)
    reference = operator.reference(crop.workload, crop.inputs)[name]
    bound = operator.error_bound(crop.workload, crop.inputs)[name]
    reasons += compare(task, name, execution, Right(crop.box, reference, bound), trial)
    return execution, reasons, inputs


def compare(task: Task, name: str, execution: Execution, right: Right, trial: Trial) -> list[Reason]:
    """The first wrong element of an output that was stored, and the instruction that wrote it. NaN is never right."""
    actual, stored = execution.outputs[name][right.box], execution.stored[name][right.box]
    wrong = wrong_elements(actual, right.reference, right.bound) & stored
    if not wrong.any():
        return []
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
    index = tuple(i + (box.start or 0) for i, box in zip(at, right.box, strict=True))
    allowed = f" within {right.bound[at]:.3g}" if right.bound[at] else ""
    detail = (
        f"{name}{list(index)} is {actual[at]}, right is {right.reference[at]}{allowed}; {int(wrong.sum()):,} of "
        f"{int(stored.sum()):,} elements are wrong on inputs '{trial.pattern}'"
    )
    return [Reason("numbers", last_store(task.program, task.machine, name, index), detail)]


def same_bits(one: Execution, other: Execution) -> list[Reason]:
    """What differs between two runs on the same inputs: under other poison nothing may."""
    for name, values in one.outputs.items():
        stored = one.stored[name]
        differ = _bytes(values[stored]) != _bytes(other.outputs[name][stored])
        if differ.any():
            detail = f"{int(differ.sum()):,} bytes change with what memory held before: something unwritten is used"
            return [Reason("poison", f"tensor {name}", detail)]
    return []


def _guarded(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    zone = np.full(array.nbytes + 2 * GUARD_BYTES, GUARD, np.uint8)
    view = zone[GUARD_BYTES:-GUARD_BYTES].view(array.dtype).reshape(array.shape)
    view[...] = array
    return zone, view


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
