"""Bench of `delay`: what enters leaves so many cycles later; zeros before."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from tests.hw.bins import Bins
from tests.hw.signals import begin, noise, parameters, rounds

P = parameters()
WIDTH, CYCLES = P["Width"], P["Cycles"]


@cocotb.test()
async def what_enters_leaves_after_its_cycles(dut):
    await begin(dut)
    rng, inside = noise(), [0] * CYCLES
    bins = Bins(bit=range(WIDTH), same=(0, 1))
    for _ in range(4 * rounds()):
        value = inside[-1] if inside and rng.integers(4) == 0 else int(rng.integers(1 << WIDTH))
        bins.hit(same=int(bool(inside) and value == inside[-1]) if CYCLES else int(rng.integers(2)))
        for bit in range(WIDTH):
            if value >> bit & 1:
                bins.hit(bit=bit)
        dut.data_i.value = value
        inside.append(value)
        await ReadOnly()
        assert dut.data_o.value.to_unsigned() == inside.pop(0)
        await FallingEdge(dut.clk_i)
    bins.check()


@cocotb.test()
async def reset_empties_it(dut):
    await begin(dut)
    dut.data_i.value = (1 << WIDTH) - 1
    for _ in range(CYCLES + 1):
        await FallingEdge(dut.clk_i)
    await ReadOnly()
    assert dut.data_o.value.to_unsigned() == (1 << WIDTH) - 1
    await FallingEdge(dut.clk_i)
    dut.rst_ni.value = dut.data_i.value = 0
    for _ in range(CYCLES + 1):
        await ReadOnly()
        assert dut.data_o.value.to_unsigned() == 0
        await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
