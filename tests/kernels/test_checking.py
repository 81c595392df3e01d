"""The harness itself: what it does, what it says, and that it sees tampering below it."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from presil.kernels import checking, clean_process, trials
from presil.kernels.checking import check, check_text
from presil.kernels.clean_process import Limits, check_in_clean_process
from presil.kernels.emitters import emitter
from presil.kernels.operators.operator import PATTERNS
from presil.kernels.operators.registry import parse_workload
from presil.kernels.trials import Effort, plan, seconds_per_trial
from presil.kernels.verdict import Reason, Verdict
from presil.simulators.assembly import parse
from presil.simulators.errors import BadInput
from presil.simulators.machine import load_machine
from presil.simulators.program import Tensor
from presil.simulators.timing import Execution, Timing

from ..simulators.pipelines import MATMUL

MACHINE = load_machine("gemmini-16")
TEXT = "matmul:m=64,n=64,k=96"
WORKLOAD = parse_workload(TEXT)


def test_a_right_program_and_what_was_done():
    verdict = check(parse(MATMUL), WORKLOAD, MACHINE)
    assert verdict.right
    assert verdict.reasons == ()
    facts = verdict.facts
    assert facts["instructions"] == 200  # 4 streams of 48, and 8 stores
    assert facts["multiply_adds"] == 64 * 64 * 96
    assert facts["other_poison"] is True
    # Two of each are needed, and trials of 200 instructions take 0.02 s: 0.5 s are enough for 25.
    assert sorted(t.split()[0] for t in facts["trials"][:8]) == sorted(2 * PATTERNS)
    assert len(facts["trials"]) == 24
    assert len(set(facts["trials"])) == 24
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


@pytest.mark.parametrize("workload", [TEXT, "matmul:m=40,n=24,k=50,out=int8,bias=yes"])
def test_emitted_programs_are_right(workload):
    work = parse_workload(workload)
    emit = emitter("matmul", "systolic")
    space = emit.space(work, MACHINE)
    legal = [s for s in map(space.unrank, range(0, space.count(), 97)) if emit.legal(work, MACHINE, s) is None]
    for schedule in legal[:: max(len(legal) // 4, 1)]:
        verdict = check(emit.lower(work, MACHINE, schedule), work, MACHINE, seeds=1)
        assert verdict.right, (str(schedule), verdict.reasons)


def test_the_first_wrong_element_and_its_instruction():
    verdict = check_text(MATMUL.replace("x[0 +: 1, 32*m +: 32", "x[0 +: 1, 0 +: 32"), WORKLOAD, MACHINE)
    (reason,) = verdict.reasons
    # Rows 0 to 31 are right, row 32 is the first of the second row block.
    assert reason.where == "stream store: store y[0 +: 1, 32*m +: 32, 16*n +: 16], acc{4*m + n} (m=1, n=0)"
    assert reason.detail.startswith("y[0, 32, 0] is ")
    assert "of 4,096 elements are wrong on inputs 'random'" in reason.detail
    assert len(verdict.facts["trials"]) == 1  # it ends at the first that finds something


def test_seeds_depend_on_the_text_and_on_the_run():
    def seeds(text, **options):
        return check_text(text, WORKLOAD, MACHINE, seeds=1, patterns=["random"], **options).facts["trials"]

    assert seeds(MATMUL) == seeds(MATMUL)
    assert len({*seeds(MATMUL), *seeds(MATMUL + "# another\n"), *seeds(MATMUL, run_seed=1)}) == 3


def test_big_programs_run_fewer_trials_but_never_none():
    effort = Effort(seeds=2, patterns=PATTERNS, run_seed=0, budget_seconds=20)
    instructions, two = 10**4, 18 * 10**4  # 0.1 s and 5e-5 s an instruction: two of 9.1 s fit into 20
    assert len(plan(MATMUL, WORKLOAD, effort, instructions, 0)) == 8
    assert [t.pattern for t in plan(MATMUL, WORKLOAD, effort, two, 0)] == ["random", "marker"]
    (part,) = plan(MATMUL, WORKLOAD, effort, 10**6, 0)  # 50.1 s: the first 20 of them
    assert (part.pattern, part.stop_after) == ("random", int(10**6 * 20 / 50.1))
    floats = parse_workload("matmul:m=8,n=8,k=8,dtype=bf16")
    assert [t.pattern for t in plan(MATMUL, floats, effort, 10**9, 0)] == ["integers"]
    assert seconds_per_trial(WORKLOAD, 10**6, 0) == pytest.approx(50.1)


def test_small_programs_run_more_trials():
    def count(instructions, budget, seeds=None, workload=WORKLOAD):
        effort = Effort(seeds=seeds, patterns=PATTERNS, run_seed=0, budget_seconds=budget)
        trials = plan(MATMUL, workload, effort, instructions, 0)
        assert len({t.seed for t in trials}) == len(trials)
        return len(trials)

    assert [count(0, 20), count(600, 20), count(10**4, 20), count(0, 20, seeds=2)] == [32, 12, 8, 8]
    # Without a budget, 30 s are spent on more: 10 of 3 s are 2 more than the least, which are never too many.
    assert [count(600, math.inf), count(58_000, math.inf), count(10**9, math.inf)] == [32, 10, 8]
    # Of rows there are six extreme kinds: 2 seeds of four patterns, and four more of one.
    rows = parse_workload("softmax:rows=8,columns=8")
    assert [count(10**4, 20, workload=rows), count(0, 20, workload=rows)] == [12, 32]


def test_what_is_not_fit_to_be_asked():
    for options in ({"seeds": 0}, {"patterns": []}, {"patterns": ["sorted"]}):
        with pytest.raises(BadInput, match="allowed: 1 or more of random, extremes"):
            check(parse(MATMUL), WORKLOAD, MACHINE, **options)


@pytest.mark.parametrize(
    ("old", "new", "where", "detail"),
    [
        ("y: int32[1, 64, 64] out", "y: int8[1, 64, 64] out", "tensor y", "dtype is int8; "),
        ("x: int8[1, 64, 96] in", "x: int8[1, 64, 96] const", "tensor x", "role is const; "),
        ("tensor y", "tensor v: int8[1] in @dram\ntensor y", "tensor v", f"{WORKLOAD} has no such tensor"),
        ("k=96", "k=95", "program matmul", "is for matmul:m=64,n=64,k=95,dtype=int8, not for"),
        (TEXT, "matmul:m=64", "program matmul", "'n' is missing"),
    ],
)
def test_the_program_must_be_for_the_workload(old, new, where, detail):
    assert old in MATMUL
    (reason,) = check_text(MATMUL.replace(old, new), WORKLOAD, MACHINE).reasons
    assert reason.where == where
    assert detail in reason.detail


def test_a_missing_tensor():
    program = parse(MATMUL)
    kept = dataclasses.replace(program, tensors=tuple(t for t in program.tensors if t.name != "w"))
    assert Reason("tensors", "tensor w", f"is missing; {WORKLOAD} has it") in [
        *checking.declared(trials.Task(kept, MACHINE, checking.operator("matmul"), WORKLOAD))
    ]


def test_what_has_no_text_is_not_checked():
    program = dataclasses.replace(parse(MATMUL), tensors=(Tensor("no name", "int8", (1,), "in", "dram"),))
    assert [r.kind for r in check(program, WORKLOAD, MACHINE).reasons] == ["text"]


def test_too_large_to_hold_is_not_right():
    # x alone is 16 GiB, as much as the memory has.
    work = parse_workload("matmul:m=262144,n=64,k=65536")
    text = MATMUL.replace(TEXT, str(work)).replace("1, 64, 96", "1, 262144, 65536").replace("1, 96, 64", "1, 65536, 64")
    verdict = check_text(text.replace("1, 64, 64", "1, 262144, 64"), work, MACHINE)
    assert not verdict.right
    assert {r.kind for r in verdict.reasons} == {"capacity"}


# --- tampering below the harness --------------------------------------------------------------------------------------


def tampered(monkeypatch, change):
    """The verdict on a right program where `change(execution, inputs)` is done behind the simulator."""
    real = trials.simulate

    def simulate(program, machine, *, mode, inputs, poison_seed, stop_after):
        execution = real(program, machine, mode=mode, inputs=inputs, poison_seed=poison_seed, stop_after=stop_after)
        outputs = {name: array.copy() for name, array in execution.outputs.items()}
        execution = dataclasses.replace(execution, outputs=outputs)
        return change(execution, inputs, poison_seed) or execution

    monkeypatch.setattr(trials, "simulate", simulate)
    return check_text(MATMUL, WORKLOAD, MACHINE, seeds=1)


def test_a_changed_input_is_seen(monkeypatch):
    def change(execution, inputs, poison):
        inputs["x"][0, 0, 0] ^= 1

    assert [r.kind for r in tampered(monkeypatch, change).reasons] == ["input-written"]


def test_a_byte_beside_an_input_is_seen(monkeypatch):
    def change(execution, inputs, poison):
        base = inputs["w"].base
        base[trials.GUARD_BYTES - 1] ^= 1

    found = tampered(monkeypatch, change).reasons
    assert [(r.kind, r.where) for r in found] == [("guard", "tensor w")]


def test_a_single_wrong_bit_is_seen(monkeypatch):
    def change(execution, inputs, poison):
        execution.outputs["y"][0, 63, 63] ^= 1

    (reason,) = tampered(monkeypatch, change).reasons
    assert reason.kind == "numbers"
    assert "y[0, 63, 63]" in reason.detail
    assert "; 1 of 4,096 elements" in reason.detail


def test_nothing_may_change_with_the_poison(monkeypatch):
    """The second run on the same inputs differs where the first was right."""
    seen = []

    def change(execution, inputs, poison):
        seen.append(poison)
        if len(seen) == 2:
            execution.outputs["y"][0, 0, 0] ^= 1

    (reason,) = tampered(monkeypatch, change).reasons
    assert reason.kind == "poison"
    assert "1 bytes change" in reason.detail
    assert seen[0] != seen[1]


def test_nan_is_never_right():
    task = trials.Task(parse(MATMUL), MACHINE, checking.operator("matmul"), WORKLOAD)
    trial = trials.Trial("random", 0, 0)
    reference, bound = np.zeros((1, 64, 64)), np.full((1, 64, 64), np.inf)
    stored, box = {"y": np.full(reference.shape, True)}, (slice(None),) * 3
    timing = Timing(ticks=1, clock_hz=1.0, fidelity="event", mode="full")
    for bad in (np.nan, np.inf):
        actual = reference.copy()
        actual[0, 1, 2] = bad
        finite = np.full_like(bound, 1e300) if np.isinf(bad) else bound
        execution = Execution(timing=timing, outputs={"y": actual}, stored=stored)
        (reason,) = trials.compare(task, "y", execution, trials.Right(box, reference, finite), trial)
        assert reason.detail.startswith(f"y[0, 1, 2] is {bad}, right is 0.0")
    execution = Execution(timing=timing, outputs={"y": reference}, stored=stored)
    assert trials.compare(task, "y", execution, trials.Right(box, reference, bound), trial) == []


def test_a_run_that_is_stopped_early_compares_what_was_stored(monkeypatch):
    """Blocks of 16 columns: stopped in the middle, some are right, and a wrong one that was stored is seen."""
    verdict = check_text(MATMUL, WORKLOAD, MACHINE, budget_seconds=0.08)
    assert verdict.right
    assert 0 < verdict.facts["compared_elements"] < verdict.facts["elements"] == 64 * 64
    assert verdict.facts["executed_instructions"] < verdict.facts["instructions"]
    wrong = MATMUL.replace("accumulate=0", "accumulate=1", 1)
    assert not check_text(wrong, WORKLOAD, MACHINE, budget_seconds=0.08).right


# --- a process of its own ---------------------------------------------------------------------------------------------


def test_a_clean_process_says_the_same():
    options = {"seeds": 1, "patterns": ["random", "marker"], "run_seed": 7}
    here = check_text(MATMUL, WORKLOAD, MACHINE, **options)
    assert check_in_clean_process(MATMUL, TEXT, "gemmini-16", **options) == here
    wrong = check_in_clean_process(MATMUL.replace("wait(x_free, 1) ", ""), TEXT, "gemmini-16", **options)
    assert wrong.reasons[0].kind == "race"
    with pytest.raises(BadInput, match="unknown machine 'gemini-16'"):
        check_in_clean_process(MATMUL, TEXT, "gemini-16")


@pytest.mark.parametrize(
    ("limits", "ending"),
    [
        (Limits(wall_seconds=0.05), "time running out"),
        (Limits(memory_bytes=1 << 20), "exit code 1"),
    ],
)
def test_what_takes_too_much_is_wrong_not_right(limits, ending):
    verdict = check_in_clean_process(MATMUL, TEXT, "gemmini-16", limits=limits)
    assert not verdict.right
    assert f"ended with {ending}" in verdict.reasons[0].detail


@pytest.mark.parametrize("output", ["", "{", "[]", '{"verdict": {"verdict": "right", "reasons": [], "facts": {}}}'])
def test_exit_code_0_without_the_nonce_says_nothing(monkeypatch, output):
    monkeypatch.setattr(clean_process, "_spawn", lambda *_: (0, output))
    verdict = check_in_clean_process(MATMUL, TEXT, "gemmini-16")
    assert [r.kind for r in verdict.reasons] == ["process"]
    assert "exit code 0 and without a verdict" in verdict.reasons[0].detail
