"""GPU kernels of matmul, conv2d and attention: right on drawn schedules, wrong as soon as something is left out."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from presil.kernels.checking import check
from presil.kernels.emitters import emitter
from presil.kernels.operators import operator, parse_workload
from presil.kernels.operators.operator import Workload
from presil.kernels.space import Schedule
from presil.simulators.machine import Machine, load_machine
from presil.simulators.program import Instruction, Loop, Node, Program
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate

TASKS = (
    "matmul:m=200,n=150,k=100,dtype=bf16",
    "matmul:m=70,n=100,k=130,dtype=int8,out=int8,bias=yes,activation=relu",
    "matmul:batch=3,m=300,n=80,k=64,dtype=bf16,out=bf16,bias=yes",
    "matmul:m=1,n=300,k=500,dtype=fp16",
    "matmul:m=100,n=70,k=90,dtype=fp32",
    "conv2d:n=2,h=11,w=13,c=20,f=40,r=3,s=3,padding=1,dtype=bf16,bias=yes,activation=relu",
    "conv2d:n=1,h=17,w=20,c=24,f=32,r=3,s=2,stride=2,padding=2,dilation=2,groups=2,dtype=int8,out=int8",
    "conv2d:n=1,h=9,w=33,c=7,f=20,dtype=fp16",
    "attention:heads=2,kv_heads=1,q=100,kv=150,head=64,dtype=bf16",
    "attention:batch=2,heads=2,kv_heads=1,q=200,kv=210,head=32,dtype=fp16,causal=true",
    "attention:heads=8,kv_heads=2,q=1,kv=300,head=64,dtype=bf16,causal=true",
)
FP8 = "matmul:m=100,n=70,k=90,dtype=fp8,out=bf16,bias=yes"  # from H100 on


def drawn(workload: Workload, machine: Machine, count: int, wanted: Callable[[Schedule], bool] = lambda _: True):
    """Legal schedules, at random but the same each time."""
    chance, found = random.Random(str(workload)), emitter(workload.operator, "gpu")
    space = found.space(workload, machine)
    schedules: dict[Schedule, None] = {}
    for _ in range(20_000):
        schedule = space.unrank(chance.randrange(space.count()))
        if wanted(schedule) and found.legal(workload, machine, schedule) is None:
            schedules[schedule] = None
        if len(schedules) == count:
            break
    return list(schedules)


def lowered(text: str, machine: Machine, wanted: Callable[[Schedule], bool]) -> tuple[Workload, Program]:
    workload = parse_workload(text)
    (schedule,) = drawn(workload, machine, 1, wanted)
    return workload, emitter(workload.operator, "gpu").lower(workload, machine, schedule)


@pytest.mark.parametrize("name", ["a100", "h100"])
@pytest.mark.parametrize("text", TASKS)
def test_drawn_schedules_are_right(text, name):
    machine, workload = load_machine(name), parse_workload(text)
    for schedule in drawn(workload, machine, 2):
        verdict = check(
            emitter(workload.operator, "gpu").lower(workload, machine, schedule), workload, machine, seeds=1
        )
        assert verdict.right, (schedule, verdict.reasons)


def test_fp8_is_right_where_there_is_fp8():
    machine, workload = load_machine("h100"), parse_workload(FP8)
    for schedule in drawn(workload, machine, 2):
        assert check(emitter("matmul", "gpu").lower(workload, machine, schedule), workload, machine, seeds=1).right


@pytest.mark.parametrize("place", ["dispatch", "persistent"])
def test_more_blocks_than_places_are_right(place):
    # 8 x 5 = 40 blocks on 7 SMs: several rounds, the last not full; persistent SMs have 6 or 5.
    machine = load_machine("h100").with_cores(7)
    text = "matmul:m=500,n=300,k=256,dtype=bf16"
    choices = {"rows": 64, "columns": 64, "inner": 64, "stages": 4, "consumers": 1, "place": place}
    schedule = Schedule(tuple({**choices, "order": "m", "group": 2, "cluster": 2, "split": 1, "tail": 0}.items()))
    workload = parse_workload(text)
    assert emitter("matmul", "gpu").legal(workload, machine, schedule) is None
    program = emitter("matmul", "gpu").lower(workload, machine, schedule)
    assert program.instances == 40
    verdict = check(program, workload, machine, seeds=1)
    assert verdict.right, verdict.reasons
    full, skip = (simulate(program, machine, mode=mode).timing for mode in ("full", "skip"))
    assert (full.ticks, full.traffic_bytes) == (skip.ticks, skip.traffic_bytes)


@pytest.mark.parametrize(
    "text",
    [
        "attention:heads=2,kv_heads=2,q=520,kv=520,head=64,dtype=bf16,causal=true",
        "attention:batch=3,heads=4,kv_heads=2,q=256,kv=300,head=64,dtype=bf16",
    ],
)
def test_attention_takes_the_same_ticks_on_data_and_in_part(text):
    machine = load_machine("h100").with_cores(3)
    workload = parse_workload(text)
    for schedule in drawn(workload, machine, 3):
        program = emitter("attention", "gpu").lower(workload, machine, schedule)
        full, skip = (simulate(program, machine, mode=mode).timing for mode in ("full", "skip"))
        for what in ("ticks", "traffic_bytes", "multiply_adds", "issued_instructions"):
            assert getattr(full, what) == getattr(skip, what), (what, schedule)


def test_the_outputs_of_a_simulation_are_those_of_numpy():
    machine = load_machine("h100").with_cores(2)
    workload, program = lowered("matmul:m=70,n=48,k=40,dtype=bf16", machine, lambda s: s["consumers"] == 1)
    inputs = operator("matmul").inputs(workload, 5, "integers")
    y = simulate(program, machine, mode="full", inputs=inputs).outputs["y"]
    np.testing.assert_array_equal(y, inputs["x"].astype(np.float64) @ inputs["w"].astype(np.float64))


def _without(nodes: tuple[Node, ...], number: int, seen: list[int]) -> tuple[Node, ...]:
    """`nodes` without wait `number`, in the order of the text."""
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            found.append(replace(node, body=_without(node.body, number, seen)))
            continue
        kept = []
        for wait in node.waits:
            if seen[0] != number:
                kept.append(wait)
            seen[0] += 1
        found.append(replace(node, waits=tuple(kept)))
    return tuple(found)


@pytest.mark.parametrize(
    ("text", "wanted", "spare"),
    [
        ("matmul:m=300,n=200,k=512,dtype=bf16,out=bf16", lambda s: s["place"] == "persistent" and s["stages"] == 2, 0),
        ("matmul:m=300,n=200,k=512,dtype=bf16,out=bf16", lambda s: s["place"] == "dispatch" and s["consumers"] == 2, 0),
        # Blocks of keys that are written out one by one wait for slots that nobody has used yet.
        ("attention:heads=2,kv_heads=1,q=256,kv=256,head=64,dtype=bf16", lambda s: s["ahead"] == 1, 4),
        ("attention:heads=1,kv_heads=1,q=256,kv=256,head=64,dtype=bf16,causal=true", lambda s: s["ahead"] == 0, 20),
    ],
)
def test_a_wait_that_is_left_out_is_found_or_was_not_needed(text, wanted, spare):
    machine = load_machine("h100").with_cores(2)
    workload, program = lowered(text, machine, wanted)
    assert sanitize(program, machine) == ()
    inputs = operator(workload.operator).inputs(workload, 1, "random")
    right = simulate(program, machine, mode="full", inputs=inputs).outputs["y"]
    waits = sum(len(i.waits) for s in program.streams for i in _instructions(s.body))
    unneeded = 0
    for number in range(waits):
        seen = [0]
        streams = tuple(replace(s, body=_without(s.body, number, seen)) for s in program.streams)
        less = replace(program, streams=streams)
        if not sanitize(less, machine):
            unneeded += 1
            y = simulate(less, machine, mode="full", inputs=inputs, poison_seed=number).outputs["y"]
            np.testing.assert_array_equal(y, right)
    assert unneeded <= spare, f"{unneeded} of {waits}"


def _instructions(nodes: tuple[Node, ...]) -> list[Instruction]:
    found: list[Instruction] = []
    for node in nodes:
        found += _instructions(node.body) if isinstance(node, Loop) else [node]
    return found


def _changed(program: Program, change: Callable[[Instruction], Instruction]) -> Program:
    def walk(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(replace(n, body=walk(n.body)) if isinstance(n, Loop) else change(n) for n in nodes)

    return replace(program, streams=tuple(replace(s, body=walk(s.body)) for s in program.streams))


def _shifted(key: str, by: int) -> Callable[[Instruction], Instruction]:
    """The mask moves by a row or a column."""

    def change(i: Instruction) -> Instruction:
        if i.op != "mask":
            return i
        values = {k: v + by if k == key else v for k, v in i.attributes}
        return replace(i, attributes=tuple(sorted(values.items())))

    return change


def _unscaled(i: Instruction) -> Instruction:
    """What has been summed is not brought to the new maximum."""
    rescales = i.op == "multiply" and i.operands[0].name.startswith("y") and i.operands[0] == i.operands[1] and i.waits
    return Instruction("sync", (), (), i.waits, i.signals) if rescales else i


@pytest.mark.parametrize("change", [_shifted("row", 1), _shifted("row", -1), _shifted("column", 1), _unscaled])
def test_wrong_attention_is_found(change):
    machine = load_machine("h100").with_cores(2)
    text = "attention:heads=2,kv_heads=1,q=128,kv=256,head=64,dtype=bf16,causal=true"
    workload, program = lowered(text, machine, lambda s: s["rows"] == 128 and s["keys"] == 64)
    assert check(program, workload, machine, seeds=1).right
    assert not check(_changed(program, change), workload, machine).right


@pytest.mark.parametrize(
    "text",
    [
        "matmul:m=2048,n=2048,k=2048,dtype=bf16,out=bf16",
        "attention:batch=2,heads=16,kv_heads=8,q=2048,kv=2048,head=128,dtype=bf16",
    ],
)
def test_the_prior_ranks_as_the_simulation_does(text):
    machine, workload = load_machine("h100"), parse_workload(text)
    found = emitter(workload.operator, "gpu")
    schedules = drawn(workload, machine, 30)
    prior = [found.prior_cycles(workload, machine, s) for s in schedules]
    ticks = [simulate(found.lower(workload, machine, s), machine).timing.ticks for s in schedules]
    assert spearmanr(prior, ticks).statistic > 0.6
