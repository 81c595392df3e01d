"""What the sanitizer promises, tried: a program without faults gives the same bits on machines of any speed."""

from __future__ import annotations

from presil.simulators.assembly import parse
from presil.simulators.machine import load_machine
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import random_inputs, simulate

from .pipelines import MATMUL, without

MACHINE = load_machine("gemmini-16")


def retimed(latency: float, bandwidth: float, setup: int):
    """The machine with another memory and other transfer engines: the same instructions at other times."""
    memory = MACHINE.memories["dram"].model_copy(update={"latency": latency, "bandwidth": bandwidth})
    spec = MACHINE.spec.model_copy(update={"dma": MACHINE.spec.dma.model_copy(update={"setup": setup})})
    return MACHINE.model_copy(update={"memories": {"dram": memory}, "spec": spec})


TIMINGS = [retimed(*t) for t in ((1e-9, 1e12, 1), (1e-4, 1e9, 1), (1e-7, 1e8, 500), (1e-5, 1e13, 20_000))]


def bits(text: str, machine) -> bytes:
    program = parse(text)
    return simulate(program, machine, mode="full", inputs=random_inputs(program, 5)).outputs["y"].tobytes()


def test_right_programs_do_not_depend_on_time():
    assert sanitize(parse(MATMUL), MACHINE) == ()
    ticks = {simulate(parse(MATMUL), machine).timing.ticks for machine in TIMINGS}
    assert len(ticks) == len(TIMINGS)
    assert {bits(MATMUL, machine) for machine in TIMINGS} == {bits(MATMUL, MACHINE)}


def test_a_missing_wait_that_no_run_shows():
    """Nothing waits until a slot of sums has been stored. The sums take longer than the store on every machine here."""
    wrong = without(MATMUL, "wait(a_free, 1)")
    assert {bits(wrong, machine) for machine in [MACHINE, *TIMINGS]} == {bits(MATMUL, MACHINE)}
    assert "race" in {fault.kind for fault in sanitize(parse(wrong), MACHINE)}
