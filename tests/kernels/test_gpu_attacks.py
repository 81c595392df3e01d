"""GPU kernels that are nearly right: each is refused, with its reason, beside the right kernel it was made from.

Mutants are changes of the text of emitted kernels, so that each names one step that a kernel engineer may leave out.
"""

from __future__ import annotations

import functools

import pytest

from presil.kernels.checking import check_text
from presil.kernels.emitters import emitter
from presil.kernels.operators import parse_workload
from presil.kernels.space import Schedule
from presil.kernels.verdict import Verdict
from presil.simulators.machine import load_machine
from presil.simulators.rendering import render

from .gpu_mutants import CONTROLS, MUTANTS

H100 = load_machine("h100").with_cores(2)


@functools.cache
def text(control: str) -> str:
    """The right kernel."""
    workload, found = parse_workload(CONTROLS[control][0]), emitter(CONTROLS[control][0].split(":")[0], "gpu")
    choices = CONTROLS[control][1]
    schedule = Schedule(tuple((axis.name, choices[axis.name]) for axis in found.space(workload, H100).axes))
    return render(found.lower(workload, H100, schedule))


def verdict(control: str, program: str) -> Verdict:
    return check_text(program, parse_workload(CONTROLS[control][0]), H100, seeds=1)


def changed(control: str, *changes: tuple[str, str]) -> str:
    """The kernel with the first place of each text changed."""
    program = text(control)
    for old, new in changes:
        assert old in program, old
        program = program.replace(old, new, 1)
    return program


@pytest.mark.parametrize("control", CONTROLS)
def test_controls_pass(control):
    found = verdict(control, text(control))
    assert found.right, found.reasons
    assert found.facts["other_poison"] is True


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_refused(name):
    control, kind, changes = MUTANTS[name]
    found = verdict(control, changed(control, *changes))
    assert not found.right
    assert kind in {r.kind for r in found.reasons}, found.reasons


@pytest.mark.parametrize(
    ("control", "old", "new"), [("attention", "most=200", "most=201"), ("long", "most=1000", "most=1024")]
)
def test_keys_past_the_end(control, old, new):
    assert not verdict(control, changed(control, (old, new))).right


def test_a_wait_for_what_an_earlier_copy_of_the_stream_brings_is_not_needed():
    # The queries come before the keys on one engine, in order: who has waited for the keys has waited for them.
    assert verdict("decode", changed("decode", ("sync wait(q0, 1)", "sync"))).right
