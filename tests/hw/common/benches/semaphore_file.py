"""Bench of `semaphore_file`: random waits and signals against counters in Python."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from tests.hw.bins import Bins
from tests.hw.signals import begin, noise, parameters, rounds

from presil.simulators.words import COUNTS, MOST_UNITS, CountField, pack, width

P = parameters()
SEMAPHORES, STREAMS, ENGINES = P["Semaphores"], P["Streams"], P["Engines"]
EACH = width(CountField)


def counts(rows: list[list[CountField]]) -> int:
    """The bits of an array of groups of counts."""
    flat = [count for row in rows for count in (*row, *(CountField(),) * (COUNTS - len(row)))]
    return sum(pack(count) << EACH * i for i, count in enumerate(flat))


async def set_counts(dut, values: list[int]) -> None:
    dut.set_i.value = 1
    for number, amount in enumerate(values):
        dut.set_semaphore_i.value, dut.set_amount_i.value = number, amount
        await FallingEdge(dut.clk_i)
    dut.set_i.value = 0


@cocotb.test()
async def takes_in_order_and_gives_a_cycle_later(dut):
    await begin(dut)
    rng = noise()
    bins = Bins(granted=range(COUNTS + 1), refused=(0, 1), twice=(0, 1), gives=range(4))
    have = [int(rng.integers(4)) for _ in range(SEMAPHORES)]
    await set_counts(dut, have)
    for _ in range(8 * rounds()):
        waits = [
            [
                CountField(int(rng.integers(3) > 0), int(rng.integers(SEMAPHORES)), int(rng.integers(1, 4)))
                for _ in range(COUNTS)
            ]
            for _ in range(STREAMS)
        ]
        given = [
            [CountField(1, int(rng.integers(SEMAPHORES)), int(rng.integers(1, 3))) for _ in range(rng.integers(4))]
            for _ in range(ENGINES)
        ]
        valid = [int(rng.integers(2)) for _ in range(ENGINES)]
        dut.waits_i.value, dut.given_i.value = counts(waits), counts(given)
        dut.given_valid_i.value = sum(v << i for i, v in enumerate(valid))
        wanted = 0
        for s, stream in enumerate(waits):
            taken = []
            for w, wait in enumerate(stream):
                if not wait.valid:
                    continue
                if have[wait.semaphore] < wait.amount:
                    bins.hit(refused=1)
                    break
                have[wait.semaphore] -= wait.amount
                wanted |= 1 << COUNTS * s + w
                taken.append(wait.semaphore)
            bins.hit(granted=len(taken), refused=0, twice=int(len(set(taken)) < len(taken)))
        await ReadOnly()
        assert dut.granted_o.value.to_unsigned() == wanted
        assert not dut.overflow_o.value
        for engine, group in enumerate(given):
            for count in group if valid[engine] else ():
                have[count.semaphore] += count.amount
            bins.hit(gives=len(group))
        await FallingEdge(dut.clk_i)
    bins.check()


@cocotb.test()
async def more_than_a_count_can_be_is_an_error_that_stays(dut):
    await begin(dut)
    await set_counts(dut, [MOST_UNITS - 1] * SEMAPHORES)
    dut.given_i.value, dut.given_valid_i.value = counts([[CountField(1, 1, 1)]]), 1
    await FallingEdge(dut.clk_i)
    await ReadOnly()
    assert not dut.overflow_o.value  # exactly the most
    await FallingEdge(dut.clk_i)
    dut.given_valid_i.value = 0
    for _ in range(3):
        await ReadOnly()
        assert dut.overflow_o.value
        await FallingEdge(dut.clk_i)
