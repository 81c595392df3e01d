"""Runs a program on the RTL: same result as `simulate`, with cycles counted by the chip."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..encoding import Image, encode
from ..errors import BadInput, Undefined, Unsupported
from ..family import family
from ..formats import DTYPES
from ..legality import check_legality
from ..machine import Machine
from ..memory import given
from ..program import Program, instructions
from ..simulate import random_inputs
from ..timing import TICKS_PER_CYCLE, EngineTime, Execution, Timing
from ..words import ERRORS, INSTRUCTIONS, MEMORY_BYTES, SEMAPHORES, STREAMS, Word, pack, width
from .build import Waves, build

MAX_CYCLES = 100_000_000
SLICE_CYCLES = 1 << 17  # between two looks at Ctrl-C
DONE, ERROR = 1, 2
WORDS = -(-width(Word) // 32)


def run_rtl(
    program: Program,
    machine: Machine,
    *,
    inputs: Mapping[str, np.ndarray] | None = None,
    poison_seed: int = 0,
    waves: Path | None = None,
    verilator: str | None = None,
    max_cycles: int = MAX_CYCLES,
    library: Path | None = None,
) -> Execution:
    """Execute `program` on the chip of `machine`, on `inputs` (drawn at random where None).

    `waves` records every signal in a .vcd or .fst file. `library` is a chip built already, for tests.
    Raises BadInput, Unsupported or Undefined as `simulate` does; Undefined too where the chip stops with an error or
    does not end within `max_cycles` or stands still.
    """
    check_legality(program, machine)
    parameters = family(machine.family).elaborate(machine)
    image = encode(program, machine)
    _check_room(program, image)
    arrays = random_inputs(program) if inputs is None else inputs
    kind = _format(waves)
    if waves is not None:
        waves.open("wb").close()  # raises OSError where the driver could say nothing
    built = library or build(machine.family, parameters, waves=kind, verilator=verilator)
    chip = Chip(built, len(family(machine.family).engines(machine)), poison_seed, waves)
    try:
        for tensor in program.tensors:
            if tensor.role != "out":
                chip.write(image.bases[tensor.name], given(tensor, arrays))
        chip.load(image)
        chip.run([stream.name for stream in program.streams], max_cycles)
        outputs = {
            t.name: chip.read(image.bases[t.name], t.shape, DTYPES[t.dtype]) for t in program.tensors if t.role == "out"
        }
        return Execution(timing=_timing(chip, program, machine), outputs=outputs)
    finally:
        chip.close()


def _check_room(program: Program, image: Image) -> None:
    longest = max(len(words) for words in image.streams)
    for what, have, most in (
        ("streams", len(image.streams), STREAMS),
        ("instructions in a stream", longest, INSTRUCTIONS),
        ("semaphores", len(image.initial), SEMAPHORES),
        ("bytes of tensors", image.memory_bytes, MEMORY_BYTES),
    ):
        if have > most:
            raise Unsupported(f"{program.name}: {have:,} {what}; the RTL holds {most:,}")


def _format(waves: Path | None) -> Waves:
    if waves is None:
        return "none"
    if waves.suffix == ".vcd":
        return "vcd"
    if waves.suffix == ".fst":
        return "fst"
    raise BadInput(f"waves go to a .vcd or .fst file, not {waves.name}")


def _timing(chip: Chip, program: Program, machine: Machine) -> Timing:
    names = family(machine.family).engines(machine)
    cycles, touched, *_ = counters = chip.counters()
    busy, issued = counters[5 : 5 + len(names)], counters[5 + len(names) :]
    engines = {
        name: EngineTime(busy_ticks=n * TICKS_PER_CYCLE, stall_ticks={"idle": (cycles - n) * TICKS_PER_CYCLE})
        for name, n in zip(names, busy, strict=True)
    }
    memory = next(iter(machine.memories))
    return Timing(
        ticks=cycles * TICKS_PER_CYCLE,
        clock_hz=machine.clock_hz,
        fidelity="rtl",
        mode=None,
        engines=engines,
        traffic_bytes={memory: touched},
        executed_instructions=sum(issued),
        issued_instructions=sum(issued),
        multiply_adds=sum(
            times * family(machine.family).cost(instruction, stream.unit, program, machine).multiply_adds
            for stream in program.streams
            for instruction, times in instructions(stream.body)
        ),
    )


class Chip:
    """A chip under the C interface of driver.cpp."""

    def __init__(self, library: Path, engines: int, seed: int = 0, waves: Path | None = None) -> None:
        self.engines = engines
        self._library = ctypes.CDLL(str(library))
        self._library.presil_new.restype = ctypes.c_void_p
        self._library.presil_new.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
        self._library.presil_run.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint64]
        self._handle = ctypes.c_void_p(self._library.presil_new(seed, str(waves).encode() if waves else None))

    def close(self) -> None:
        """Free it."""
        self._library.presil_delete(self._handle)

    def write(self, address: int, array: np.ndarray) -> None:
        """Bytes into memory."""
        self._library.presil_write(self._handle, address, array.tobytes(), array.nbytes)

    def read(self, address: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """A tensor out of memory."""
        found = np.empty(shape, dtype)
        self._library.presil_read(
            self._handle, address, found.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8)), found.nbytes
        )
        return found

    def load(self, image: Image) -> None:
        """Words and semaphores."""
        for stream, words in enumerate(image.streams):
            for pc, word in enumerate(words):
                self.write_word(stream, pc, pack(word))
        for semaphore, amount in enumerate(image.initial):
            self._library.presil_semaphore(self._handle, semaphore, amount)

    def write_word(self, stream: int, pc: int, bits: int) -> None:
        """The bits of one word."""
        self._library.presil_word(self._handle, stream, pc, bits.to_bytes(4 * WORDS, "little"))

    def run(self, streams: Sequence[str], max_cycles: int) -> None:
        """To the end of the streams of these names. Raises Undefined where the chip stops or stands still."""
        before: list[int] = []
        for first in range(0, max_cycles, SLICE_CYCLES):
            some = min(SLICE_CYCLES, max_cycles - first)
            end = self._library.presil_run(self._handle, (1 << len(streams)) - 1, first == 0, some)
            if end == DONE:
                return
            _, _, code, stream, pc, *now = self.counters()
            if end == ERROR:
                where = f"stream {streams[stream]}, word {pc}" if ERRORS[code] != "overflow" else "a semaphore"
                raise Undefined("stopped", where, f"the chip stopped with error {code}: {ERRORS[code]}")
            if now == before:
                raise Undefined("deadlock", ", ".join(streams), f"nothing has happened for {some:,} cycles of the RTL")
            before = now
        raise Undefined("endless", ", ".join(streams), f"not ended after {max_cycles:,} cycles of the RTL")

    def counters(self) -> list[int]:
        """Cycles, bytes of memory, error, its stream, its word; busy cycles of each engine; what each stream issued."""
        out = (ctypes.c_uint64 * (5 + self.engines + STREAMS))()
        self._library.presil_counters(self._handle, out, self.engines, STREAMS)
        return list(out)
