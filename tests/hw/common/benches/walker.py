"""Bench of `walker`: random boxes, walked in random strides, against numpy's order of a box."""

import itertools

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from tests.hw.bins import Bins
from tests.hw.signals import begin, lanes, noise, operand, parameters, rounds

from presil.simulators.words import pack

LANES = parameters()["Lanes"]


@cocotb.test()
async def boxes_are_walked_in_row_major_order(dut):
    await begin(dut)
    rng = noise()
    bins = Bins(dims=range(1, 5), advance=range(LANES + 1), ends_in_lane=range(LANES), backwards=(0, 1))
    for _ in range(rounds()):
        dims = int(rng.integers(1, 5))
        box = [(int(rng.integers(1, 5)), int(rng.integers(-40, 41))) for _ in range(dims)]
        start = 4096 + int(rng.integers(1024))
        offsets = itertools.product(*[[i * stride for i in range(n)] for n, stride in box])
        wanted = [start + sum(at) for at in offsets]
        dut.load_i.value, dut.box_i.value = 1, pack(operand("scratchpad", 1, start, *box))
        dut.advance_i.value = int(rng.integers(LANES + 1))  # a box that is taken comes first
        await FallingEdge(dut.clk_i)
        dut.load_i.value = dut.advance_i.value = 0
        bins.hit(dims=dims, backwards=int(any(stride < 0 for _, stride in box)))
        at = 0
        while at < len(wanted):
            await ReadOnly()
            here = wanted[at : at + LANES]
            valid, last = dut.valid_o.value.to_unsigned(), dut.last_o.value.to_unsigned()
            assert valid == (1 << len(here)) - 1
            assert lanes(dut.address_o, 32)[: len(here)] == here
            ends = len(wanted) - at - 1
            assert last == (1 << ends if ends < LANES else 0)
            if ends < LANES:
                bins.hit(ends_in_lane=ends)
            await FallingEdge(dut.clk_i)
            step = int(rng.integers(LANES + 1))
            dut.advance_i.value = step
            bins.hit(advance=step)
            at += step
            await FallingEdge(dut.clk_i)
            dut.advance_i.value = 0
        await ReadOnly()
        assert dut.valid_o.value.to_unsigned() == 0
        await FallingEdge(dut.clk_i)
    bins.check()
