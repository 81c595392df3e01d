"""Programs of several phases: text, legality, numbers, time, faults."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from presil.kernels.emitters import emitter
from presil.kernels.operators import operator, parse_workload
from presil.kernels.space import Schedule
from presil.simulators.assembly import parse, render
from presil.simulators.errors import BadInput, Undefined, Unsupported
from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import load_machine
from presil.simulators.program import Program, Tensor, instructions
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate
from presil.simulators.timeline import Timeline

H100 = load_machine("h100").with_cores(2)
WORKLOAD = parse_workload("matmul:m=96,n=160,k=512,dtype=bf16")


@functools.cache
def split(tail: int = 0) -> Program:
    """A matmul whose sums are split in two; with `tail`, those of its last columns only."""
    found = emitter("matmul", "gpu")
    choices: dict[str, int | str] = {"rows": 32, "columns": 32, "inner": 64, "stages": 4, "consumers": 1}
    choices["place"] = "persistent" if tail else "dispatch"  # one block an SM: a wave is two of them
    choices |= {"order": "m", "group": 1, "cluster": 1, "split": 2, "tail": tail}
    schedule = Schedule(tuple(choices.items()))
    assert found.legal(WORKLOAD, H100, schedule) is None
    return found.lower(WORKLOAD, H100, schedule)


def without_before(program: Program) -> Program:
    return replace(program, before=None)


def test_text_holds_the_phases_in_the_order_in_which_they_run():
    program = split()
    assert [phase.name for phase in program.phases] == ["matmul", "combine"]
    assert program.scratch == {"parts"}
    text = render(program)
    assert text == "".join(render(without_before(phase)) for phase in program.phases)
    assert parse(text) == program


def test_numbers_time_and_traffic_are_those_of_all_phases():
    program, inputs = split(), operator("matmul").inputs(WORKLOAD, 5, "integers")
    full = simulate(program, H100, mode="full", inputs=inputs)
    assert list(full.outputs) == ["y"]
    np.testing.assert_array_equal(full.outputs["y"], operator("matmul").reference(WORKLOAD, inputs)["y"])
    skip = simulate(program, H100).timing
    assert full.timing.ticks == skip.ticks
    first, second = program.phases
    parts = simulate(first, H100, mode="full", inputs=inputs).outputs["parts"]
    alone = [
        simulate(first, H100).timing,
        simulate(without_before(second), H100, mode="full", inputs={"parts": parts}).timing,
    ]
    assert skip.ticks == simulate(first, H100).timing.ticks + skip_of_last(program)
    assert skip.multiply_adds == sum(timing.multiply_adds for timing in alone)
    # Both parts of the sum, [2, 1, 96, 160] in fp32, are stored and read besides x, w and y.
    assert skip.traffic_bytes["hbm"] >= 2 * 2 * 96 * 160 * 4 + 96 * 160 * 4 + (96 + 160) * 512 * 2


def skip_of_last(program: Program) -> int:
    """Ticks of the last phase, by way of the whole: without its `before` it would wait for a launch of its own."""
    first, second = program.phases
    alone = simulate(without_before(second), H100).timing.ticks
    later = round((gpu(H100).launch - gpu(H100).follow) * H100.clock_hz * 1024)
    assert first.before is None
    return alone - later


def test_engines_account_for_all_the_time():
    timing = simulate(split(), H100).timing
    assert timing.engines
    for time in timing.engines.values():
        assert time.busy_ticks + sum(time.stall_ticks.values()) == timing.ticks


def test_a_timeline_goes_on_where_the_phase_before_ended():
    program, timeline = split(), Timeline()
    simulate(program, H100, timeline=timeline)
    first = simulate(program.phases[0], H100).timing.ticks
    starts = [piece[0] for pieces in timeline._tracks.values() for piece in pieces if piece[2] == "add"]
    assert starts
    assert min(starts) > first


def test_a_run_that_is_stopped_in_the_first_phase_has_stored_nothing():
    found = simulate(split(), H100, mode="full", stop_after=3)
    assert not found.stored["y"].any()
    assert found.timing.executed_instructions == 3


def test_the_sanitizer_judges_every_phase():
    program = split()
    assert not sanitize(program, H100)
    second = program.streams[0]
    loads = [i for i, _ in instructions(second.body)]
    unsignalled = tuple(replace(node, waits=()) if node is loads[-1] else node for node in second.body)
    broken = replace(program, streams=(replace(second, body=unsignalled),))
    assert "race" in {fault.kind for fault in sanitize(broken, H100)}


def test_parts_of_an_output_stored_by_two_phases_are_judged_together():
    program = split(tail=1)
    assert [phase.name for phase in program.phases] == ["matmul", "matmul", "combine"]
    assert not sanitize(program, H100)
    _, parts, last = program.phases
    alone = replace(last, before=replace(parts, before=None))  # nobody stores the first columns of y
    assert {(fault.kind, fault.where) for fault in sanitize(alone, H100)} == {("unstored", "tensor y")}
    with pytest.raises(Undefined, match="never stored"):
        simulate(alone, H100, mode="full")
    grid = tuple((name, size + 1 if name == "n" else size) for name, size in program.phases[0].grid)
    twice = replace(last, before=replace(parts, before=replace(program.phases[0], grid=grid)))
    assert [fault.kind for fault in sanitize(twice, H100)] == ["unstored"]


def test_what_is_read_must_have_been_stored():
    program = split()
    first = program.phases[0]
    halved = replace(first, grid=tuple((name, 1 if name == "s" else size) for name, size in first.grid))
    with pytest.raises(Undefined, match="never stored"):
        simulate(replace(program, before=halved), H100, mode="full")
    assert [fault.kind for fault in sanitize(replace(program, before=halved), H100)] == ["unstored"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": (2, 1, 96, 161)}, r"phase 2 \(combine\): shape of tensor parts is"),
        ({"dtype": "int32"}, r"phase 2 \(combine\): dtype of tensor parts is int32; in an earlier phase it is fp32"),
        ({"role": "out"}, r"input"),
    ],
)
def test_tensors_are_the_same_in_every_phase(change, message):
    program = split()
    changed = tuple(replace(t, **change) if t.name == "parts" else t for t in program.tensors)
    broken = replace(program, tensors=changed)
    if change.get("role") == "out":  # stored by both, then: legal as far as names go, but never whole
        assert sanitize(broken, H100)
        return
    with pytest.raises(BadInput, match=message):
        simulate(broken, H100)


def test_an_input_cannot_become_an_output_and_phases_are_for_one_workload():
    program = split()
    overwritten = replace(program, tensors=(*program.tensors, Tensor("x", "bf16", (1, 96, 512), "out", "hbm")))
    with pytest.raises(BadInput, match="tensor x is out; in an earlier phase it is in"):
        simulate(overwritten, H100)
    with pytest.raises(BadInput, match=r"phase 1 \(matmul\) is for another on h100"):
        simulate(replace(program, before=replace(program.phases[0], workload="another")), H100)


def test_tensors_of_all_phases_share_the_memory():
    program = split()
    first = program.phases[0]
    more = Tensor("more", "fp32", (1 << 34,), "in", "hbm")  # 64 GiB; the chip has 80 GB
    both = replace(
        program,
        tensors=(*program.tensors, replace(more, name="others")),
        before=replace(first, tensors=(*first.tensors, more)),
    )
    with pytest.raises(Undefined, match="more"):
        simulate(both, H100)


def test_too_many_phases_are_refused():
    program = split()
    text = render(program.phases[0])
    with pytest.raises(BadInput, match="one program more than 16"):
        parse(text * 17)
    assert len(parse(text * 16).phases) == 16


def test_the_rtl_runs_one_phase():
    from presil.simulators.encoding import encode

    with pytest.raises(Unsupported, match="2 phases"):
        encode(split(), H100)
