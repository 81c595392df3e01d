"""Sums split over blocks (split-K), and over the blocks of the last wave alone (stream-K)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from presil.kernels.checking import check
from presil.kernels.emitters import emitter
from presil.kernels.ignition.measure import measure
from presil.kernels.operators import parse_workload
from presil.kernels.space import Schedule
from presil.simulators.machine import load_machine
from presil.simulators.program import Affine, Instruction, Loop, Program
from presil.simulators.simulate import simulate

from .test_gpu_kernels import drawn

H100 = load_machine("h100")
MATMUL = emitter("matmul", "gpu")


@pytest.mark.parametrize("tail", [0, 1])
@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("matmul:m=40,n=300,k=1000,dtype=bf16", (3, 1)),
        ("matmul:m=300,n=530,k=520,dtype=int8,out=int8,bias=yes,activation=relu", (12, 4)),
        ("matmul:batch=2,m=100,n=260,k=512,dtype=fp16,bias=yes", (6, 3)),
        ("matmul:m=200,n=700,k=640,dtype=bf16,out=bf16", (8, 4)),
    ],
)
def test_split_sums_are_right(text, cores, tail):
    workload, machine = parse_workload(text), H100.with_cores(cores[tail])
    schedules = drawn(workload, machine, 2, lambda s: s["split"] > 1 and s["tail"] == tail)
    assert len(schedules) == 2
    for schedule in schedules:
        program = MATMUL.lower(workload, machine, schedule)
        assert len(program.phases) == 2 + tail
        verdict = check(program, workload, machine)
        assert verdict.right, (schedule, verdict.reasons)
        assert measure(program, machine).ticks == simulate(program, machine).timing.ticks


def lowered(text: str, **choices: int | str) -> Program:
    """A kernel on four SMs."""
    base = {"rows": 64, "columns": 64, "inner": 64, "stages": 2, "consumers": 1, "place": "dispatch", "order": "m"}
    base |= {"group": 1, "cluster": 1, "split": 4, "tail": 0}
    workload, machine = parse_workload(text), H100.with_cores(4)
    schedule = Schedule(tuple((base | choices).items()))
    assert MATMUL.legal(workload, machine, schedule) is None
    return MATMUL.lower(workload, machine, schedule)


WORKLOAD = "matmul:m=64,n=128,k=1024,dtype=bf16"


def verdict_of(program: Program) -> tuple[bool, list[str]]:
    verdict = check(program, parse_workload(WORKLOAD), H100.with_cores(4))
    return verdict.right, [reason.kind for reason in verdict.reasons]


def edited(program: Program, change: object) -> Program:
    (stream,) = program.streams
    return replace(program, streams=(replace(stream, body=tuple(change(node) for node in stream.body)),))  # type: ignore[operator]


def test_a_part_that_is_added_twice_or_not_at_all_is_seen():
    program = lowered(WORKLOAD)
    assert verdict_of(program) == (True, [])

    def last_again(node: Instruction | Loop) -> Instruction | Loop:
        """The last addition takes part 2 once more, not part 3."""
        if isinstance(node, Instruction) and node.op == "add" and node.operands[2].slot == Affine(3):
            return replace(node, operands=(*node.operands[:2], replace(node.operands[2], slot=Affine(2))))
        return node

    right, kinds = verdict_of(edited(program, last_again))
    assert not right
    assert kinds[0] == "numbers"


def test_parts_of_the_sum_that_overlap_or_leave_gaps_are_seen():
    program = lowered(WORKLOAD)
    first = program.before
    assert first is not None

    def shifted(node: Instruction | Loop) -> Instruction | Loop:
        """Each part begins one step of 64 late, so that the first step is in no sum and others are in two."""
        if isinstance(node, Loop):
            return replace(node, body=tuple(map(shifted, node.body)))
        if node.op != "copy":
            return node
        axis = 2 if node.operands[1].name == "x" else 1
        dims = list(node.operands[1].dims)
        dims[axis] = replace(dims[axis], start=dims[axis].start + 64)
        return replace(node, operands=(node.operands[0], replace(node.operands[1], dims=tuple(dims))))

    streams = tuple(replace(s, body=tuple(map(shifted, s.body))) if s.name == "copies" else s for s in first.streams)
    right, kinds = verdict_of(replace(program, before=replace(first, streams=streams)))
    assert not right
    assert kinds[0] == "numbers"


def test_a_long_sum_of_few_outputs_is_faster_split():
    """Two blocks cannot keep 132 SMs busy; thirty-two do far better, whatever a second launch costs."""
    workload = parse_workload("matmul:m=64,n=128,k=16384,dtype=bf16")
    base = {"rows": 64, "columns": 64, "inner": 64, "stages": 4, "consumers": 1, "place": "dispatch", "order": "m"}
    base |= {"group": 1, "cluster": 1, "tail": 0}
    ticks = {
        split: measure(MATMUL.lower(workload, H100, Schedule(tuple((base | {"split": split}).items()))), H100).ticks
        for split in (1, 16)
    }
    assert ticks[16] < ticks[1] / 2


def test_a_tail_is_what_does_not_fill_a_wave():
    """24 blocks on 4 SMs with one block each are six waves: no tail. 4 x 7 = 28 on 8: three waves and four blocks."""
    workload = parse_workload("matmul:m=256,n=448,k=1024,dtype=bf16")
    choices = {"rows": 64, "columns": 64, "inner": 64, "stages": 4, "consumers": 1, "place": "persistent", "order": "m"}
    choices |= {"group": 1, "cluster": 1, "split": 2, "tail": 1}
    schedule = Schedule(tuple(choices.items()))
    assert MATMUL.legal(workload, H100.with_cores(4), schedule) == "there is no tail, or nothing else"  # seven waves
    assert MATMUL.legal(workload, H100.with_cores(8), schedule) is None
    full, parts, _ = MATMUL.lower(workload, H100.with_cores(8), schedule).phases
    assert dict(full.grid)["n"] == 6  # 6 x 4 = 24 blocks, three waves of eight
    assert (dict(parts.grid)["n"], dict(parts.grid)["s"]) == (1, 2)
