"""A fault in the SystemVerilog is found: the chip stops, stands still, or leaves other bits than numpy."""

from __future__ import annotations

import functools

import pytest

from presil.kernels.operators import parse_workload
from presil.simulators.errors import Undefined
from presil.simulators.family import family
from presil.simulators.rtl.build import build
from presil.simulators.rtl.run import run_rtl

from ..simulators.rtl.kernels import difference, drawn, library, lowered, machine
from .mutations import MUTATIONS, Mutation, mutated

SIZE = 4
WORKLOADS = ("matmul:m=9,n=7,k=10,dtype=int8", "conv2d:n=1,h=6,w=5,c=5,f=6,r=3,s=3,padding=1,dtype=int8,out=int8")
MOST_CYCLES = 100_000  # the longest kernel takes a few thousand


def found(chip) -> list[str]:
    """What the comparison says of a chip, kernel by kernel."""
    run = functools.partial(run_rtl, max_cycles=MOST_CYCLES)
    said = []
    for text in WORKLOADS:
        workload = parse_workload(text)
        for schedule in drawn(text, SIZE, 4):
            try:
                told = difference(workload, machine(SIZE), lowered(workload, machine(SIZE), schedule), chip, run)
            except Undefined as stopped:
                told = str(stopped)
            said += [told] if told else []
    return said


def test_the_chip_as_it_is_passes():
    assert found(library(SIZE)) == []


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_each_fault_is_one_change_of_the_text(mutation, tmp_path):
    changed = [path for path in mutated(mutation, tmp_path) if path.parent == tmp_path]
    assert [path.name for path in changed] == [mutation.file]


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_every_fault_is_found(mutation: Mutation, tmp_path):
    parameters = family("systolic").elaborate(machine(SIZE))
    assert found(build("systolic", parameters, files=mutated(mutation, tmp_path)))
