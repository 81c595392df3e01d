"""Bench of `dispatcher`: offers in random order against a queue in Python: the oldest first, of equals the lowest."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from tests.hw.bins import Bins
from tests.hw.signals import Command, begin, noise, parameters, rounds

from presil.simulators.words import pack, width

P = parameters()
STREAMS, ENGINES = P["Streams"], P["Engines"]


@cocotb.test()
async def the_oldest_offer_comes_first(dut):
    await begin(dut)
    rng = noise()
    bins = Bins(rivals=range(4), tie=(0, 1), stream=range(STREAMS))
    offers: dict[int, tuple[int, int, int]] = {}  # stream: (since, engine, opcode)
    for cycle in range(20 * rounds()):
        for stream in range(STREAMS):
            if stream not in offers and rng.integers(4) == 0:
                offers[stream] = (cycle, int(rng.integers(ENGINES)), int(rng.integers(1, 200)))
        ready = int(rng.integers(1 << ENGINES))
        dut.ready_i.value = ready
        dut.offered_i.value = sum(1 << s for s in offers)
        dut.engine_i.value = sum(engine << 4 * s for s, (_, engine, _) in offers.items())
        dut.command_i.value = sum(pack(Command(code)) << width(Command) * s for s, (*_, code) in offers.items())
        await ReadOnly()
        accepted = 0
        for engine in range(ENGINES):
            rivals = sorted((since, s) for s, (since, wanted, _) in offers.items() if wanted == engine)
            bins.hit(rivals=len(rivals), tie=int(len(rivals) > 1 and rivals[0][0] == rivals[1][0]))
            assert bool(dut.valid_o.value.to_unsigned() >> engine & 1) == bool(rivals)
            if rivals:
                chosen = rivals[0][1]
                found = dut.command_o.value.to_unsigned() >> width(Command) * engine & (1 << width(Command)) - 1
                assert found == pack(Command(offers[chosen][2])), f"engine {engine}: not that of stream {chosen}"
                if ready >> engine & 1:
                    accepted |= 1 << chosen
                    bins.hit(stream=chosen)
        assert dut.accepted_o.value.to_unsigned() == accepted
        for stream in [s for s in offers if accepted >> s & 1]:
            del offers[stream]
        await FallingEdge(dut.clk_i)
    bins.check()
