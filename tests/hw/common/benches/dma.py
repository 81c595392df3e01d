"""Bench of `dma`: random boxes between a memory and a scratchpad in Python, with a link that is not always ready."""

import itertools

import cocotb
import numpy as np
from tests.hw.bins import Bins
from tests.hw.signals import Engine, begin, command, lanes, noise, operand, packed, parameters, rounds

from presil.simulators.words import COMMON_OPCODES, ERRORS

P = parameters()
STORE, PORT, BURST, IN_FLIGHT = bool(P["Store"]), P["PortBytes"], P["BurstBytes"], P["InFlightBytes"]
BYTES = 2048  # of either side


class Channel:
    """The memory and the scratchpad around a channel. `busy` is the chance that the link takes no request."""

    def __init__(self, dut, rng, latency: int, busy: float) -> None:
        self.dut, self.rng, self.latency, self.busy = dut, rng, latency, busy
        self.memory, self.scratchpad = (rng.integers(0, 256, BYTES) for _ in range(2))
        self.answers: list[tuple[int, int, int, int, int]] = []  # due, bytes, burst, last, data
        self.asked: list[int] = []  # cycles in which requests were taken
        self.outstanding = self.most = self.touched = self.runs = 0
        self.engine = Engine(dut, self.serve, self.watch, lingers=True)  # behind a short fill, for its setup

    def serve(self) -> None:
        dut = self.dut
        self.ready = self.rng.random() >= self.busy
        dut.request_ready_i.value = int(self.ready)
        dut.local_data_i.value = packed([self.scratchpad[a % BYTES] for a in lanes(dut.local_address_o, 32)], 8)
        due = self.answers and self.answers[0][0] <= self.engine.cycle
        _, count, burst, last, data = self.answers[0] if due else (0, 0, 0, 0, 0)
        dut.response_valid_i.value = int(bool(due))
        dut.response_bytes_i.value, dut.response_burst_i.value, dut.response_last_i.value = count, burst, last
        dut.response_data_i.value = data

    def watch(self) -> None:
        dut = self.dut
        if dut.response_valid_i.value and dut.response_ready_o.value:
            self.outstanding -= BURST * self.answers.pop(0)[2]
        written = dut.local_write_o.value.to_unsigned()
        for lane, (a, byte) in enumerate(zip(lanes(dut.local_address_o, 32), lanes(dut.local_data_o, 8), strict=True)):
            if written >> lane & 1:
                self.scratchpad[a] = byte
        if dut.request_valid_o.value and self.ready:
            address, count = int(dut.request_address_o.value), int(dut.request_bytes_o.value)
            assert 1 <= count <= PORT
            self.asked.append(self.engine.cycle)
            if STORE:
                self.memory[address : address + count] = lanes(dut.request_data_o, 8)[:count]
            data = packed(self.memory[address : address + count], 8)
            burst = int(dut.request_burst_o.value)
            self.outstanding += BURST * burst
            self.touched += BURST * burst
            self.most = max(self.most, self.outstanding)
            self.answers.append((self.engine.cycle + self.latency, count, burst, int(dut.request_last_o.value), data))


def box(rng, total: int, base: int) -> tuple[list[tuple[int, int]], list[int]]:
    """A box of runs with `total` bytes from `base` on, perhaps its last rows first, and its addresses in order."""
    run = int(rng.choice([d for d in range(1, total + 1) if total % d == 0]))
    rows = total // run
    outer = int(rng.choice([d for d in range(1, rows + 1) if rows % d == 0]))
    inner = rows // outer
    gap = run + int(rng.integers(3))
    dims = [(outer, inner * gap + int(rng.integers(4))), (inner, gap), (run, 1)]
    if rng.integers(4) == 0:
        n, stride = dims[0]
        base += (n - 1) * stride
        dims[0] = n, -stride
    places = [base + sum(at) for at in itertools.product(*[[i * s for i in range(n)] for n, s in dims])]
    return dims, places


@cocotb.test()
async def every_byte_arrives_and_no_other_changes(dut):
    await begin(dut)
    rng = noise()
    # A small window of outstanding bytes is met, a large one is not; a channel that stores has no fill.
    bins = Bins(
        run=("short", "long"),
        aligned=(0, 1),
        full=(int(IN_FLIGHT <= 64),),
        fill=(0,) if STORE else (0, 1, 4),
        back=(0, 1),
    )
    channel = Channel(dut, rng, latency=9, busy=0.3)
    for _ in range(rounds() // 2):
        commands, memory, scratchpad, touched = [], channel.memory.copy(), channel.scratchpad.copy(), 0
        for slot in range(4):  # transfers that do not touch each other's bytes
            base, total = slot * (BYTES // 4), int(rng.integers(1, 81))
            local, there = box(rng, total, base + int(rng.integers(8)))
            if not STORE and rng.integers(4) == 0:
                wide = 4 if total % 4 == 0 and PORT % 4 == 0 else 1
                value = int(rng.integers(-(1 << 31), 1 << 31) if wide == 4 else rng.integers(-128, 128))
                scratchpad[there] = [value >> 8 * (i % wide) & 255 for i in range(total)]
                commands.append(
                    command(
                        COMMON_OPCODES["fill"], operand("scratchpad", wide, there[0], *local), number=slot,
                        immediate0=value, immediate1=total,
                    )
                )  # fmt: skip
                bins.hit(fill=wide)
            else:
                remote, here = box(rng, total, base + int(rng.integers(8)))
                if STORE:
                    memory[here] = scratchpad[there]
                else:
                    scratchpad[there] = memory[here]
                (outer, _), (inner, _), (run, _) = remote
                touched += outer * inner * -(-run // BURST) * BURST
                sides = operand("memory", 1, here[0], *remote), operand("scratchpad", 1, there[0], *local)
                first, second = sides if STORE else sides[::-1]
                commands.append(command(COMMON_OPCODES["store" if STORE else "load"], first, second, number=slot))
                bins.hit(back=int(min(remote[0][1], local[0][1]) < 0))
                bins.hit(run="short" if run < PORT else "long", aligned=int(here[0] % 8 == 0), fill=0)
        channel.touched = 0
        await channel.engine.run(commands, [int(rng.integers(6)) for _ in commands])
        assert np.array_equal(channel.memory, memory)
        assert np.array_equal(channel.scratchpad, scratchpad)
        assert channel.touched == touched
        assert channel.most <= IN_FLIGHT
        bins.hit(full=int(channel.most == IN_FLIGHT))
    bins.check()


@cocotb.test()
async def runs_and_transfers_keep_their_cycles(dut):
    """A link that is always ready, answers a cycle later: setup, a run every so many cycles, a beat a cycle."""
    await begin(dut)
    channel = Channel(dut, noise(1), latency=1, busy=0.0)
    for rows, beats in ((1, 1), (5, 1), (4, 3), (1, 4)):
        run = beats * PORT
        sides = [operand(space, 1, 0, (rows, run), (run, 1)) for space in ("memory", "scratchpad")]
        channel.asked = []
        given = command(COMMON_OPCODES["store" if STORE else "load"], *(sides if STORE else sides[::-1]))
        await channel.engine.run([given])
        free, wanted = 0, []
        for row in range(rows):
            # The descriptor stage puts a run out in the cycle named; the mover asks from the next one on.
            free = max(free, channel.engine.accepted[-1] + P["Setup"] + row * P["RowSetup"] + 1)
            wanted += range(free, free + beats)
            free += beats
        assert channel.asked == wanted
        # The last answer comes a cycle behind its request, the signals a cycle behind that.
        assert channel.engine.done[-1] == wanted[-1] + 2


@cocotb.test()
async def a_fill_takes_the_port_for_its_bytes(dut):
    """The next command is taken when the port has written all of a long fill, or after the setup of a short one."""
    await begin(dut)
    if STORE:
        return
    channel = Channel(dut, noise(2), latency=1, busy=0.0)
    for beats in (1, P["Setup"], P["Setup"] + 5):
        fill = command(
            COMMON_OPCODES["fill"], operand("scratchpad", 1, 0, (beats * PORT, 1)), immediate0=7,
            immediate1=beats * PORT,
        )  # fmt: skip
        await channel.engine.run([fill, fill])
        first, second = channel.engine.accepted[-2:]
        assert second - first == max(P["Setup"], beats)
        assert set(channel.scratchpad[: beats * PORT]) == {7}


@cocotb.test()
async def what_is_not_of_this_channel_is_an_error(dut):
    await begin(dut)
    channel = Channel(dut, noise(), latency=1, busy=0.0)
    byte, there = operand("scratchpad", 1, 0, (1, 1)), operand("memory", 1, 0, (1, 1))
    pair = (there, byte) if STORE else (byte, there)
    own, other = ("store", "load") if STORE else ("load", "store")
    assert await channel.engine.error(command(200, *pair)) == ERRORS.index("opcode")
    assert await channel.engine.error(command(COMMON_OPCODES[other], *pair[::-1])) == ERRORS.index("engine")
    wrong = tuple(operand("accumulator", 4, 0, (1, 4)) if side is byte else side for side in pair)
    assert await channel.engine.error(command(COMMON_OPCODES[own], *wrong)) == ERRORS.index("operand")
