"""Bench of `sequencer`: words of random loop nests against `words.commands`, the reference in Python."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from tests.hw.bins import Bins
from tests.hw.signals import Command, Operand, begin, noise, parameters, rounds

from presil.simulators.words import (
    COUNTS,
    DIMS,
    ERRORS,
    MAX_LOOPS,
    OPERANDS,
    CountField,
    OperandField,
    Word,
    commands,
    pack,
    steps,
    width,
)  # fmt: skip
from presil.simulators.words import Command as Issued

P = parameters()
INSTRUCTIONS, ENGINES, SEMAPHORES = P["Instructions"], P["Engines"], P["Semaphores"]


def random_words(rng) -> list[Word]:
    """A stream of a few nests, each instruction with running addresses, a ring and waits."""
    words: list[Word] = []

    def nest(depth: int, around: tuple[tuple[int, int], ...]) -> None:
        start = len(words)
        inner = (*around, (int(rng.integers(1, 4)), start))
        for _ in range(int(rng.integers(1, 3))):
            if depth < 3 and rng.integers(2) and len(words) < INSTRUCTIONS // 2:
                nest(depth + 1, inner)
            else:
                words.append(instruction(inner))
        words[-1] = replaced(words[-1], ends=words[-1].ends + 1)

    def instruction(around: tuple[tuple[int, int], ...]) -> Word:
        trips = [n for n, _ in around]
        idle = MAX_LOOPS - len(trips)
        operands = []
        for _ in range(OPERANDS):
            ring = int(rng.integers(1, 6)) * 8
            along = [int(rng.integers(-9, 10)) for _ in trips]
            slots = [int(rng.integers(0, 9)) * 8 for _ in trips]
            operands.append(
                OperandField(
                    space=int(rng.integers(1, 8)),
                    element_bytes=int(rng.integers(1, 5)),
                    address=5000 + int(rng.integers(99)),
                    ring=int(rng.integers(ring)) // 8 * 8,
                    ring_bytes=ring,
                    size=tuple(rng.integers(1, 1 << 24, DIMS).tolist()),
                    stride=tuple(rng.integers(-(1 << 31), 1 << 31, DIMS).tolist()),
                    step=steps(along, trips),
                    ring_step=tuple(s % ring for s in steps(slots, trips)),
                )
            )
        waits = [CountField(1, int(rng.integers(SEMAPHORES)), 1) for _ in range(rng.integers(3))]
        signals = [CountField(1, int(rng.integers(SEMAPHORES)), int(rng.integers(99))) for _ in range(rng.integers(3))]
        return Word(
            opcode=int(rng.integers(1, 30)),
            engine=int(rng.integers(ENGINES)),
            depth=len(trips),
            trips=(*trips, *(1,) * idle),
            start=(*(first for _, first in around), *(0,) * idle),
            waits=(*waits, *(CountField(),) * (COUNTS - len(waits))),
            signals=(*signals, *(CountField(),) * (COUNTS - len(signals))),
            operands=tuple(operands),
            immediate0=int(rng.integers(-(1 << 31), 1 << 31)),
            immediate1=int(rng.integers(1 << 32)),
            accumulate=int(rng.integers(2)),
            accumulate_step=steps([int(rng.integers(2)) for _ in trips], trips),
        )

    for _ in range(int(rng.integers(1, 4))):
        nest(0, ())
    words[-1] = replaced(words[-1], last=1)
    return words


def replaced(word: Word, **changes: int) -> Word:
    return Word(**{name: changes.get(name, getattr(word, name)) for name in Word.__dataclass_fields__})


def whole(wanted: Issued) -> Command:
    """What the engine is to be told."""
    word = wanted.word
    operands = tuple(
        Operand(given.space, given.element_bytes, address & 0xFFFFFFFF, given.size, given.stride)
        for given, address in zip(word.operands, wanted.addresses, strict=True)
    )
    accumulate = int(wanted.accumulate != 0)
    return Command(word.opcode, operands, accumulate, word.immediate0, word.immediate1, word.signals)


async def load(dut, words: list[Word]) -> None:
    dut.write_i.value = 1
    for pc, word in enumerate(words):
        dut.write_pc_i.value, dut.write_word_i.value = pc, pack(word)
        await FallingEdge(dut.clk_i)
    dut.write_i.value = 0
    dut.enable_i.value, dut.start_i.value = 1, 1
    await FallingEdge(dut.clk_i)
    dut.start_i.value = 0


@cocotb.test()
async def issues_what_the_reference_issues(dut):
    await begin(dut)
    rng = noise()
    bins = Bins(depth=range(1, 5), waited=(0, 1), stalled=(0, 1), accumulate=(0, 1))
    for _ in range(max(4, rounds() // 4)):
        words = random_words(rng)
        if len(words) > INSTRUCTIONS:
            continue
        await load(dut, words)
        for wanted in commands(words):
            while True:
                ready = int(rng.integers(3) > 0)
                grant = int(rng.integers(1 << COUNTS))
                await ReadOnly()
                asked = sum(
                    (dut.waits_o.value.to_unsigned() >> i * width(CountField) + width(CountField) - 1 & 1) << i
                    for i in range(COUNTS)
                )
                await FallingEdge(dut.clk_i)
                dut.granted_i.value, dut.command_ready_i.value = grant & asked, ready
                await ReadOnly()
                if dut.command_valid_o.value and ready:
                    accumulate = int(wanted.accumulate != 0)
                    assert dut.command_o.value.to_unsigned() == pack(whole(wanted))
                    assert int(dut.command_engine_o.value) == wanted.word.engine
                    bins.hit(depth=wanted.word.depth, accumulate=accumulate, stalled=0)
                    bins.hit(waited=int(any(w.valid for w in wanted.word.waits)))
                    await FallingEdge(dut.clk_i)
                    dut.granted_i.value = dut.command_ready_i.value = 0
                    break
                bins.hit(stalled=1)
                await FallingEdge(dut.clk_i)
                dut.granted_i.value = dut.command_ready_i.value = 0
        await ReadOnly()
        assert not dut.busy_o.value
        await FallingEdge(dut.clk_i)
    bins.check()


@cocotb.test()
async def illegal_words_are_told(dut):
    await begin(dut)
    for changes, error in (
        ({"opcode": 0}, "opcode"),
        ({"engine": ENGINES}, "engine"),
        ({"ends": 1}, "loop"),
        ({"waits": (CountField(1, SEMAPHORES, 1), *(CountField(),) * 3)}, "semaphore"),
    ):
        await load(dut, [replaced(Word(opcode=1, last=1), **changes)])
        for _ in range(3):
            await FallingEdge(dut.clk_i)
        await ReadOnly()
        assert ERRORS[int(dut.error_o.value)] == error
        assert not dut.command_valid_o.value
        await FallingEdge(dut.clk_i)
