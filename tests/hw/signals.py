"""What benches share: clock and reset, ports that are arrays, commands as bits, and the driver of one engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

from presil.simulators.words import COUNTS, DIMS, OPERANDS, SPACES, CountField, bits, group, pack, width

MOST_CYCLES = 200_000  # of one bench


@dataclass(frozen=True, slots=True)
class Operand:
    """`operand_t`."""

    space: int = bits(3, "number of the space")
    element_bytes: int = bits(3, "1 or 4")
    address: int = bits(32, "of the first element")
    size: tuple[int, ...] = bits(24, "elements", count=DIMS)
    stride: tuple[int, ...] = bits(32, "bytes", count=DIMS, signed=True)


@dataclass(frozen=True, slots=True)
class Command:
    """`command_t`."""

    opcode: int = bits(8, "what to do")
    operands: tuple[Operand, ...] = group(Operand, "destination first", OPERANDS)
    accumulate: int = bits(1, "add to the destination")
    immediate0: int = bits(32, "multiplier", signed=True)
    immediate1: int = bits(32, "shift, relu")
    signals: tuple[CountField, ...] = group(CountField, "given at the end", COUNTS)


def operand(space: str, element_bytes: int, address: int, *box: tuple[int, int]) -> Operand:
    """An operand; `box` is (elements, bytes from one to the next), outermost first."""
    dims = ((1, 0),) * (DIMS - len(box)) + box
    return Operand(
        SPACES.index(space), element_bytes, address, tuple(n for n, _ in dims), tuple(stride for _, stride in dims)
    )


def command(opcode: int, *operands: Operand, number: int = 0, **fields: int) -> Command:
    """A command whose signals say its `number`, so that it is known again when it is done."""
    signals = tuple(CountField(1, (number + i) % 64, number % (1 << 21)) for i in range(COUNTS))
    return Command(opcode, (*operands, *(Operand(),) * (OPERANDS - len(operands))), signals=signals, **fields)


def signals_of(value: Command) -> int:
    """The bits of `done_signals_o` when the command is done."""
    each = width(CountField)
    return sum(pack(signal) << each * i for i, signal in enumerate(value.signals))


def parameters() -> dict[str, int]:
    """The parameters of the module under test."""
    return {k: int(v) for k, v in (pair.split("=") for pair in os.environ["PRESIL_PARAMETERS"].split())}


def rounds(default: int = 40) -> int:
    """How many random cases to try."""
    return int(os.environ.get("PRESIL_ROUNDS", default))


def noise(extra: int = 0) -> np.random.Generator:
    """The random numbers of this run."""
    return np.random.default_rng(int(os.environ.get("PRESIL_SEED", "1")) * 1000 + extra)


def lanes(handle: Any, bits_each: int, *, signed: bool = False) -> list[int]:
    """The elements of a packed array, element 0 first."""
    total = handle.value.to_unsigned()
    mask = (1 << bits_each) - 1
    found = [total >> bits_each * i & mask for i in range(len(handle) // bits_each)]
    return [n - (mask + 1) if signed and n >> bits_each - 1 else n for n in found]


def packed(values: Sequence[int], bits_each: int) -> int:
    """The bits of a packed array of `values`, element 0 least significant."""
    mask = (1 << bits_each) - 1
    return sum((int(value) & mask) << bits_each * i for i, value in enumerate(values))


async def begin(dut: Any) -> None:
    """Start the clock, all inputs at 0, and leave reset, if there is one."""
    for handle in dut:
        if handle._name.endswith(("_i", "_ni")):
            handle.value = 0
    Clock(dut.clk_i, 2, "step").start()
    await FallingEdge(dut.clk_i)
    await FallingEdge(dut.clk_i)
    if hasattr(dut, "rst_ni"):
        dut.rst_ni.value = 1
    await FallingEdge(dut.clk_i)


class Engine:
    """Offers commands to an engine and notes when each is accepted and done.

    In every cycle `serve` answers what the engine reads, before the clock edge; then `watch` sees what settles. An
    engine that `lingers` may be busy for some cycles after all is done.
    """

    def __init__(
        self, dut: Any, serve: Callable[[], None], watch: Callable[[], None], *, lingers: bool = False
    ) -> None:
        self.dut, self.serve, self.watch, self.lingers = dut, serve, watch, lingers
        self.cycle = 0
        self.accepted: list[int] = []
        self.done: list[int] = []
        self.given: list[Command] = []

    async def run(self, commands: Sequence[Command], gaps: Sequence[int] | None = None) -> None:
        """Run all of them, each offered so many cycles after the one before was accepted; then all must be quiet."""
        dut, left, wait = self.dut, list(commands), list(gaps or [0] * len(commands))
        end, free = len(self.done) + len(left), self.cycle
        self.given += left
        while len(self.done) < end:
            offers = bool(left) and self.cycle >= free + wait[0]
            dut.command_valid_i.value = offers
            dut.command_i.value = pack(left[0]) if offers else 0
            self.serve()
            await ReadOnly()
            self.watch()
            busy, undone = bool(dut.busy_o.value), len(self.accepted) > len(self.done)
            assert busy == undone or (busy and self.lingers), f"busy in cycle {self.cycle}"
            if dut.done_valid_o.value:
                wanted = signals_of(self.given[len(self.done)])
                assert dut.done_signals_o.value.to_unsigned() == wanted, "signals of another command"
                self.done.append(self.cycle)
            if offers and dut.command_ready_o.value:
                assert not dut.error_o.value, f"error {dut.error_o.value}"
                self.accepted.append(self.cycle)
                left.pop(0)
                wait.pop(0)
                free = self.cycle + 1
            self.cycle += 1
            assert self.cycle < MOST_CYCLES
            await FallingEdge(dut.clk_i)
        dut.command_valid_i.value = 0
        await ReadOnly()
        assert self.lingers or not dut.busy_o.value
        while dut.busy_o.value:
            self.cycle += 1
            assert self.cycle < MOST_CYCLES
            await FallingEdge(dut.clk_i)
            await ReadOnly()
        await FallingEdge(dut.clk_i)

    async def error(self, value: Command) -> int:
        """The error that the command is answered with."""
        self.dut.command_valid_i.value = 1
        self.dut.command_i.value = pack(value)
        await ReadOnly()
        found = int(self.dut.error_o.value)
        await FallingEdge(self.dut.clk_i)
        return found
