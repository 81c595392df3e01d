"""Bench of `scratchpad`: random reads and writes of all lanes against a list in Python."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from tests.hw.bins import Bins
from tests.hw.signals import begin, lanes, noise, packed, parameters, rounds

P = parameters()
ELEMENTS, WIDTH, READS, WRITES = P["Elements"], P["Width"], P["ReadLanes"], P["WriteLanes"]


@cocotb.test()
async def every_lane_reads_and_writes_where_it_likes(dut):
    await begin(dut)
    rng, cells = noise(), [0] * ELEMENTS
    bins = Bins(lanes=range(WRITES + 1), same=(0, 1) if WRITES > 1 else (0,), ends=(0, ELEMENTS - 1), forward=(0, 1))
    for address in range(0, ELEMENTS, WRITES):  # every element has a value
        there = [(address + lane) % ELEMENTS for lane in range(WRITES)]
        data = [int(n) for n in rng.integers(0, 1 << WIDTH, WRITES)]
        for a, value in zip(there, data, strict=True):
            cells[a] = value
        dut.write_valid_i.value, dut.write_address_i.value = (1 << WRITES) - 1, packed(there, 32)
        dut.write_data_i.value = packed(data, WIDTH)
        await FallingEdge(dut.clk_i)
    for _ in range(8 * rounds()):
        near = int(rng.choice([2, ELEMENTS]))  # few addresses, or all
        reads = [int(rng.integers(near)) for _ in range(READS)]
        writes = [int(rng.integers(near)) for _ in range(WRITES)]
        data = [int(n) for n in rng.integers(0, 1 << WIDTH, WRITES)]
        valid = [lane for lane in range(WRITES) if rng.integers(2)]
        dut.read_address_i.value, dut.write_address_i.value = packed(reads, 32), packed(writes, 32)
        dut.write_valid_i.value, dut.write_data_i.value = sum(1 << lane for lane in valid), packed(data, WIDTH)
        await ReadOnly()
        # What is written in this cycle is read in the next.
        assert lanes(dut.read_data_o, WIDTH) == [cells[a] for a in reads]
        written = [writes[lane] for lane in valid]
        bins.hit(lanes=len(valid), same=int(len(set(written)) < len(written)))
        bins.hit(forward=int(bool(set(written) & set(reads))))
        for address in reads:
            bins.hit(ends=address)
        for lane in valid:
            cells[writes[lane]] = data[lane]
        await FallingEdge(dut.clk_i)
    bins.check()
