"""Does timing one array of several give the ticks, stalls and counts of all of them?"""

from __future__ import annotations

import random

import pytest

from presil.kernels.emitters import emitter
from presil.kernels.operators import parse_workload
from presil.simulators.compiled import CompiledProgram, compile_program
from presil.simulators.engine import Engine
from presil.simulators.folding import fold
from presil.simulators.machine import load_machine
from presil.simulators.program import Program

TPU = load_machine("tpu-v4")  # two cores of four arrays


def programs(text: str, count: int) -> list[Program]:
    workload = parse_workload(text)
    emits = emitter(workload.operator, "systolic")
    space, draw = emits.space(workload, TPU), random.Random(text)
    found: list[Program] = []
    while len(found) < count:
        schedule = space.unrank(draw.randrange(space.count()))
        if emits.legal(workload, TPU, schedule) is None:
            found.append(emits.lower(workload, TPU, schedule))
    return found


def outcome(compiled: CompiledProgram, *, folded: bool) -> tuple[object, ...]:
    twin = fold(compiled)
    engine = Engine(twin.program if folded else compiled, skip=True)
    ticks = engine.run()
    if folded:
        twin.unfold(engine)
    return ticks, engine.issued, {key: t for key, t in engine.stalls.items() if t}


@pytest.mark.parametrize(
    "text",
    [
        "matmul:batch=2,m=300,n=1024,k=260,dtype=int8",
        "matmul:m=64,n=1000,k=512,dtype=int8,out=int8,bias=yes",
        "conv2d:n=2,h=14,w=14,c=64,f=512,r=3,s=3,padding=1,dtype=int8,out=int8",
    ],
)
def test_folded_is_whole_to_the_tick(text):
    for program in programs(text, 4):
        compiled = compile_program(program, TPU)
        assert outcome(compiled, folded=True) == outcome(compiled, folded=False)


def test_four_arrays_are_timed_as_one():
    """1024 columns are 256 for each array: shift and matrix of arrays 1 to 3 mirror those of array 0."""
    (program,) = programs("matmul:m=256,n=1024,k=256,dtype=int8", 1)
    compiled = compile_program(program, TPU)
    twin = fold(compiled)
    assert [c.name for c in compiled.codes if "shift" in c.name] == ["shift0", "shift1", "shift2", "shift3"]
    assert [c.name for c in twin.program.codes] == ["loadx", "loadw", "shift0", "matrix0", "vector", "store"]
    assert len(twin.mirrors) == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("wait(x_free2, 1) ", ""),  # one array is not waited for
        ("semaphore plane_free1 = 2", "semaphore plane_free1 = 1"),  # one has a plane less
        ("signal(acc_free3, 1)", "signal(acc_free3, 2)"),
    ],
)
def test_what_is_not_alike_is_not_folded(old, new):
    from presil.simulators.assembly import parse, render

    for program in programs("matmul:m=2048,n=4096,k=1024,dtype=int8", 40):
        text = render(program)
        if old in text:
            changed = parse(text.replace(old, new, 1))
            assert fold(compile_program(program, TPU)).mirrors
            assert fold(compile_program(changed, TPU)).mirrors == ()
            return
    raise AssertionError(f"no program has {old!r}")
