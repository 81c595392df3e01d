"""Is a run on the chip a run like any other: the same result, the same errors, waves where they are asked for?"""

from dataclasses import replace

import numpy as np
import pytest
import pywellen

from presil.kernels.operators import operator, parse_workload
from presil.simulators.errors import BadInput, Undefined, Unsupported
from presil.simulators.family import family
from presil.simulators.machine import load_machine
from presil.simulators.program import Semaphore, Tensor
from presil.simulators.rtl.run import run_rtl
from presil.simulators.simulate import random_inputs, simulate
from presil.simulators.words import MEMORY_BYTES, SEMAPHORES

from .kernels import kernel, library, machine

WORKLOAD = "matmul:m=9,n=7,k=10,dtype=int8"


def ran(program, **options):
    return run_rtl(program, machine(4), library=library(4), **options)


@pytest.mark.parametrize("dataflow", ["ws", "os"])
def test_the_timing_is_that_of_the_event_model_in_kind(dataflow):
    program = kernel(WORKLOAD, 4, dataflow=dataflow)
    timing, event = ran(program).timing, simulate(program, machine(4), mode="full").timing
    assert (timing.fidelity, timing.mode, timing.clock_hz) == ("rtl", None, 1e9)
    assert timing.ticks % 1024 == 0
    assert timing.multiply_adds == 9 * 7 * 10
    assert list(timing.engines) == list(family("systolic").engines(machine(4)))
    for engine in timing.engines.values():
        assert engine.busy_ticks + sum(engine.stall_ticks.values()) == timing.ticks
    used = {"weights", "drain"} & {name for name, engine in timing.engines.items() if engine.busy_ticks}
    assert used == ({"weights"} if dataflow == "ws" else {"drain"})
    assert timing.traffic_bytes == event.traffic_bytes
    assert timing.issued_instructions == timing.executed_instructions == event.issued_instructions
    for exact in ("weights", "drain"):
        assert timing.engines[exact].busy_ticks == event.engines[exact].busy_ticks


def test_cycles_know_nothing_of_the_data():
    program = kernel(WORKLOAD, 4)
    zeros = {t.name: np.zeros(t.shape, np.int8) for t in program.tensors if t.role != "out"}
    found = [
        ran(program), ran(program), ran(program, poison_seed=9), ran(program, inputs=zeros),
        ran(program, inputs=random_inputs(program, seed=3)),
    ]  # fmt: skip
    assert len({execution.timing.ticks for execution in found}) == 1
    assert not found[3].outputs["y"].any()
    assert np.array_equal(found[0].outputs["y"], found[2].outputs["y"])


def test_inputs_are_checked_as_the_event_model_does():
    program = kernel(WORKLOAD, 4)
    inputs = random_inputs(program)
    with pytest.raises(BadInput, match="no input for tensor x; given: w"):
        ran(program, inputs={"w": inputs["w"]})
    with pytest.raises(BadInput, match=r"input x: int8\[2\], but the program says int8\[1, 9, 10\]"):
        ran(program, inputs={**inputs, "x": np.zeros(2, np.int8)})


def test_arrays_that_are_not_contiguous_are_taken_as_they_are():
    task, program = parse_workload(WORKLOAD), kernel(WORKLOAD, 4)
    inputs = operator("matmul").inputs(task, 2, "random")
    turned = {name: np.asfortranarray(array) for name, array in inputs.items()}
    assert np.array_equal(ran(program, inputs=turned).outputs["y"], operator("matmul").reference(task, inputs)["y"])


def test_illegal_programs_are_refused_as_ever():
    program = kernel(WORKLOAD, 4)
    with pytest.raises(BadInput):
        ran(replace(program, buffers=()))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            lambda p: replace(p, streams=tuple(replace(p.streams[0], name=f"s{i}") for i in range(9))),
            "matmul: 9 streams; the RTL holds 8",
        ),
        (
            lambda p: replace(p, semaphores=(*p.semaphores, *(Semaphore(f"s{i}") for i in range(SEMAPHORES)))),
            r"matmul: 4\d semaphores; the RTL holds 32",
        ),
        (
            lambda p: replace(p, streams=(replace(p.streams[0], body=p.streams[0].body * 513), *p.streams[1:])),
            r"matmul: [\d,]+ instructions in a stream; the RTL holds 512",
        ),
    ],
)
def test_what_the_chip_cannot_hold_is_refused(changed, message):
    with pytest.raises(Unsupported, match=message):
        ran(changed(kernel(WORKLOAD, 4)))


def test_tensors_that_its_memory_cannot_hold_are_refused():
    """Those of Gemmini's 16 GiB can be larger than the 4 MiB of the bench."""
    program = kernel(WORKLOAD, 4)
    large = replace(program, tensors=(*program.tensors, Tensor("big", "int8", (MEMORY_BYTES,), "in", "dram")))
    with pytest.raises(Unsupported, match=r"matmul: 4,194,\d\d\d bytes of tensors; the RTL holds 4,194,304"):
        run_rtl(large, load_machine("gemmini-16"), library=library(4))


def test_a_run_may_be_cut_off():
    cycles = int(ran(kernel(WORKLOAD, 4)).timing.cycles)
    with pytest.raises(Undefined, match=f"not ended after {cycles - 9} cycles"):
        ran(kernel(WORKLOAD, 4), max_cycles=cycles - 9)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The same run without waves, and with them in both formats."""
    folder, program = tmp_path_factory.mktemp("waves"), kernel(WORKLOAD, 4)
    files = {suffix: folder / f"run.{suffix}" for suffix in ("vcd", "fst")}
    return run_rtl(program, machine(4)), {
        suffix: (run_rtl(program, machine(4), waves=path), pywellen.Waveform(str(path)))
        for suffix, path in files.items()
    }


@pytest.mark.slow
def test_waves_change_nothing(recorded):
    silent, found = recorded
    for execution, _ in found.values():
        assert execution.timing == silent.timing
        assert np.array_equal(execution.outputs["y"], silent.outputs["y"])


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["vcd", "fst"])
def test_waves_show_every_cycle(recorded, suffix):
    execution, waves = recorded[1][suffix]
    signals = {v.full_name: v.signal for v in waves.all_vars()}
    end = 10**9
    assert signals["TOP.cycles_o"].value_at(end) == execution.timing.cycles
    assert signals["TOP.done_o"].value_at(end) == 1
    counted = [value for _, value in next(v for v in waves.all_vars() if v.full_name == "TOP.cycles_o").tv]
    assert counted == list(range(int(execution.timing.cycles) + 1))


@pytest.mark.slow
def test_both_formats_hold_the_same(recorded):
    changes = [{v.full_name: list(v.tv) for v in waves.all_vars()} for _, waves in recorded[1].values()]
    assert len(changes[0]) > 1000
    assert changes[0] == changes[1]
