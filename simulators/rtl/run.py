"""Runs a program on the RTL: same result as `simulate`, with cycles counted by the chip."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..encoding import Image, encode
from ..errors import BadInput, Undefined, Unsupported
from ..family import family
from ..formats import DTYPES
from ..legality import check_legality
from ..machine import Machine
from ..program import Program
from ..simulate import random_inputs
from ..timing import TICKS_PER_CYCLE, EngineTime, Execution, Timing
from ..words import ERRORS, INSTRUCTIONS, MEMORY_BYTES, SEMAPHORES, STREAMS, Word, pack, width
from .build import Waves, build

MAX_CYCLES = 100_000_000
SLICE_CYCLES = 1 << 20  # between two looks at Ctrl-C
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
    does not end within `max_cycles`.
    """
    check_legality(program, machine)
    parameters = family(machine.family).elaborate(machine)
    image = encode(program, machine)
    _check_room(program, image)
    chip = _Chip(
        library or build(machine.family, parameters, waves=_format(waves), verilator=verilator), poison_seed, waves
    )
    try:
        given = random_inputs(program) if inputs is None else inputs
        for tensor in program.tensors:
            if tensor.role != "out":
                chip.write(image.bases[tensor.name], np.ascontiguousarray(given[tensor.name]))
        chip.load(image)
        chip.run(len(image.streams), max_cycles, program)
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


def _timing(chip: _Chip, program: Program, machine: Machine) -> Timing:
    names = family(machine.family).engines(machine)
    cycles, touched, *_ = counters = chip.counters(len(names))
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
    )


class _Chip:
    """A chip under the C interface of driver.cpp."""

    def __init__(self, library: Path, seed: int, waves: Path | None) -> None:
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

    def run(self, streams: int, max_cycles: int, program: Program) -> None:
        """To the end."""
        for first in range(0, max_cycles, SLICE_CYCLES):
            some = min(SLICE_CYCLES, max_cycles - first)
            end = self._library.presil_run(self._handle, (1 << streams) - 1, first == 0, some)
            if end == DONE:
                return
            if end == ERROR:
                _, _, code, stream, pc = self.counters(0)[:5]
                name = program.streams[stream].name if stream < len(program.streams) else str(stream)
                kind = ERRORS[code] if code < len(ERRORS) else str(code)
                raise Undefined("stopped", f"stream {name}, word {pc}", f"the chip stopped with error {code}: {kind}")
        raise Undefined("endless", program.name, f"not ended after {max_cycles:,} cycles of the RTL")

    def counters(self, engines: int) -> list[int]:
        """See driver.cpp."""
        out = (ctypes.c_uint64 * (5 + engines + STREAMS))()
        self._library.presil_counters(self._handle, out, engines, STREAMS)
        return list(out)
