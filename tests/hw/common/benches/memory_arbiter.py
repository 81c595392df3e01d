"""Bench of `memory_arbiter`: transfers of several channels; one holds the link while it has something to ask for."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from tests.hw.bins import Bins
from tests.hw.signals import begin, noise, parameters, rounds

CHANNELS = parameters()["Channels"]


@cocotb.test()
async def a_transfer_holds_the_link_and_lets_guests_in(dut):
    await begin(dut)
    rng = noise()
    bins = Bins(holder=range(CHANNELS), guest=(0, 1), turn=(0, 1), quiet=(0, 1))
    left = [0] * CHANNELS  # requests of the transfer that a channel has begun
    holder, held, last_holder = 0, False, 0
    for _ in range(20 * rounds()):
        for channel in range(CHANNELS):
            if not left[channel] and rng.integers(4) == 0:
                left[channel] = int(rng.integers(1, 6))
        valid = [bool(n) and rng.integers(4) > 0 for n in left]
        ready = bool(rng.integers(3))
        dut.valid_i.value = sum(1 << c for c, v in enumerate(valid) if v)
        dut.last_i.value = sum(1 << c for c, n in enumerate(left) if n == 1)
        dut.ready_i.value = int(ready)
        await ReadOnly()
        bins.hit(quiet=int(not any(valid)))
        if not any(valid):
            assert not dut.valid_o.value
            assert dut.ready_o.value.to_unsigned() == 0
        else:
            turns = [(last_holder + i) % CHANNELS for i in range(1, CHANNELS + 1)]
            chosen = holder if held and valid[holder] else next(c for c in turns if valid[c])
            assert dut.valid_o.value
            assert int(dut.channel_o.value) == chosen
            assert dut.ready_o.value.to_unsigned() == (1 << chosen if ready else 0)
            guest = held and chosen != holder
            bins.hit(guest=int(guest), turn=int(sum(valid) > 1))
            if not guest:
                holder = last_holder = chosen
                held = not (ready and left[chosen] == 1)
                bins.hit(holder=chosen)
            if ready:
                left[chosen] -= 1
        await FallingEdge(dut.clk_i)
    bins.check()
