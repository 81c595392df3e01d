"""Bench of `dram`: bytes, order, bandwidth and latency, by hand and against exact fractions of a cycle."""

from collections import deque
from fractions import Fraction
from math import ceil

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from tests.hw.bins import Bins
from tests.hw.signals import begin, lanes, noise, packed, parameters, rounds

P = parameters()
BYTES, PORT, BURST, LATENCY = P["Bytes"], P["PortBytes"], P["BurstBytes"], P["Latency"]
CHANNELS, REQUESTS = P["Channels"], P["Requests"]
RATE = Fraction(P["BytesPer1024Cycles"], 1024)  # bytes a cycle
TAKES = BURST / RATE  # cycles of the link that a burst takes


class Link:
    """Memory in Python, a cycle at a time."""

    def __init__(self, dut) -> None:
        self.dut, self.cycle, self.free, self.due, self.touched = dut, 0, Fraction(0), 0, 0
        self.cells = [0] * BYTES
        self.answers: deque[tuple[int, int, int, int, int, list[int] | None]] = deque()
        self.accepted: list[int] = []
        self.answered: list[int] = []

    async def step(  # noqa: PLR0917 - the ports of a request
        self, address=None, data=None, count=PORT, burst=1, last=0, channel=0, ready=-1
    ) -> bool:
        """One cycle: a request at `address`, of a write if there is `data`. Returns whether it was accepted."""
        dut = self.dut
        dut.request_valid_i.value = address is not None
        dut.request_write_i.value = data is not None
        dut.request_address_i.value = address or 0
        dut.request_bytes_i.value, dut.request_burst_i.value = count, burst
        dut.request_last_i.value, dut.request_channel_i.value = last, channel
        dut.request_data_i.value = packed(data or [0], 8)
        dut.response_ready_i.value = ready % (1 << CHANNELS)
        await ReadOnly()
        self.answer(ready)
        full = len(self.answers) + self.popped == REQUESTS
        takes = not full and (not burst or self.free - self.cycle < 1)
        assert bool(dut.request_ready_o.value) == takes, f"ready in cycle {self.cycle}"
        assert dut.touched_bytes_o.value.to_unsigned() == self.touched
        accepted = takes and address is not None
        if accepted:
            self.accepted.append(self.cycle)
            self.take(address, data, count, burst, last, channel)
        await FallingEdge(dut.clk_i)
        self.cycle += 1
        return accepted

    def answer(self, ready: int) -> None:
        dut, self.popped = self.dut, 0
        if not self.answers or self.answers[0][0] > self.cycle:
            assert dut.response_valid_o.value.to_unsigned() == 0
            return
        _, channel, count, burst, last, data = self.answers[0]
        assert dut.response_valid_o.value.to_unsigned() == 1 << channel
        assert int(dut.response_bytes_o.value) == count
        assert (dut.response_burst_o.value, dut.response_last_o.value) == (burst, last)
        if data is not None:
            assert lanes(dut.response_data_o, 8)[:count] == data
        if ready >> channel & 1:
            self.answers.popleft()
            self.answered.append(self.cycle)
            self.popped = 1

    def take(self, address, data, count, burst, last, channel) -> None:  # noqa: PLR0917 - the ports of a request
        if burst:
            self.free = max(self.free, Fraction(self.cycle)) + TAKES
            self.due = ceil(self.free) + LATENCY
            self.touched += BURST
        there = slice(address, address + count)
        self.answers.append((self.due, channel, count, burst, last, self.cells[there] if data is None else None))
        if data is not None:
            self.cells[there] = data[:count]


async def quiet(link: Link) -> None:
    """Until all is answered."""
    while link.answers:
        await link.step()


async def written(link: Link, rng) -> None:
    """Every byte has a value."""
    for address in range(0, BYTES, PORT):
        data = [int(n) for n in rng.integers(0, 256, PORT)]
        while not await link.step(address, data, burst=int(address % BURST == 0)):
            pass
    await quiet(link)


@cocotb.test()
async def a_burst_takes_the_link_for_its_time_and_answers_a_latency_later(dut):
    """8 bytes at 3 a cycle, 7 cycles away: bursts are through after 2.67, 5.33 and 8 cycles, answered in 10, 13, 15."""
    await begin(dut)
    link = Link(dut)
    while len(link.accepted) < 6:
        await link.step(0)
    await quiet(link)
    if (BURST, LATENCY, RATE) == (8, 7, 3):
        assert link.accepted == [0, 2, 5, 8, 10, 13]
        assert link.answered == [10, 13, 15, 18, 21, 23]
    else:
        assert link.answered == [max(ceil(TAKES * (i + 1)), i + ceil(TAKES)) + LATENCY for i in range(6)]
    for _ in range(50):  # the link rests: what it could have moved is not saved up
        await link.step()
    first, rested = len(link.answered), link.cycle
    await link.step(0)
    await quiet(link)
    assert link.answered[first] == rested + LATENCY + ceil(TAKES)


@cocotb.test()
async def it_moves_its_bandwidth_and_no_more(dut):
    await begin(dut)
    link, cycles = Link(dut), 400
    while link.cycle < cycles:
        await link.step(0)
    moved, most = len(link.accepted) * BURST, cycles * min(RATE, Fraction(BURST))
    assert most - BURST <= moved <= most + BURST + RATE
    await quiet(link)


@cocotb.test()
async def random_requests_of_all_channels_are_answered_in_order(dut):
    await begin(dut)
    rng, link = noise(), Link(dut)
    bins = Bins(
        channel=range(CHANNELS),
        kind=("read", "write"),
        count=range(1, PORT + 1),
        aligned=(0, 1),
        burst=(0, 1),
        full=(0, 1),
        blocked=(0, 1),
        idle=(0, 1),
    )
    await written(link, rng)
    for _ in range(rounds()):
        patient, eager = rng.random(), rng.random()  # chances that an answer is taken, that something is asked for
        for _ in range(20):
            ready = sum(int(rng.random() < patient) << c for c in range(CHANNELS))
            address = count = None
            if rng.random() < eager:
                count = int(rng.integers(1, PORT + 1))
                address = int(rng.integers(BYTES - count + 1))
            channel, burst = int(rng.integers(CHANNELS)), int(rng.integers(2))
            data = [int(n) for n in rng.integers(0, 256, PORT)] if rng.integers(2) else None
            last = int(rng.integers(2))
            full = len(link.answers) == REQUESTS
            due = bool(link.answers) and link.answers[0][0] <= link.cycle
            blocked = due and not ready >> link.answers[0][1] & 1
            accepted = await link.step(address, data, count or 1, burst, last, channel, ready)
            bins.hit(full=int(full), blocked=int(blocked), idle=int(address is None))
            if accepted:
                bins.hit(channel=channel, kind="read" if data is None else "write", count=count, burst=burst)
                bins.hit(aligned=int(address % PORT == 0))
    await quiet(link)
    bins.check()
