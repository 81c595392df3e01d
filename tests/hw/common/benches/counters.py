"""Bench of `counters`: cycles in which each input is high, from the last `clear_i` on."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from tests.hw.bins import Bins
from tests.hw.signals import begin, lanes, noise, parameters, rounds

COUNT = parameters()["Count"]


@cocotb.test()
async def each_counts_its_own_cycles(dut):
    await begin(dut)
    rng, wanted = noise(), [0] * COUNT
    bins = Bins(high=range(COUNT), low=range(COUNT), cleared=("idle", "counting"), at_once=(0, COUNT))
    for _ in range(10 * rounds()):
        high = [int(rng.integers(2)) for _ in range(COUNT)] if rng.integers(4) else [int(rng.integers(2))] * COUNT
        clear = rng.integers(16) == 0
        dut.high_i.value, dut.clear_i.value = sum(h << i for i, h in enumerate(high)), int(clear)
        bins.hit(at_once=sum(high))
        if clear:
            bins.hit(cleared="counting" if any(high) else "idle")
        for i, h in enumerate(high):
            bins.hit(**{"high" if h else "low": i})
        await ReadOnly()
        assert lanes(dut.cycles_o, 64) == wanted
        # What is high in the cycle of `clear_i` is not counted.
        wanted = [0] * COUNT if clear else [n + h for n, h in zip(wanted, high, strict=True)]
        await FallingEdge(dut.clk_i)
    bins.check()
