"""Measures on the RTL what the event model has to be told: small programs, each of which isolates one cost.

Two figures are in no parameter of the chip: how often a sequencer issues, and how long a signal takes to be seen. They
go to `calibration.yaml`, which machine descriptions that say `calibrated: true` take them from. All other costs follow
from the shape of the chip (`cost.py`); the same programs measure those too, beside what the model says.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ruamel.yaml import YAML

from ..assembly import parse
from ..machine import Machine
from ..program import instructions
from ..rtl.run import run_rtl
from ..timing import TICKS_PER_CYCLE
from . import cost
from .spec import systolic

FEW, MANY = 16, 48  # repetitions: what is the same in both drops out of the difference

# What is calibrated: two buffers of every space, sized for the largest probe on an array of R rows and C columns.
_DECLARATIONS = """
program "calibration" on "{machine}"
workload "none"
tensor t: int8[64, 64] in @dram
tensor long: int8[1024] in @dram
tensor y: int8[64, 64] out @dram
buffer s: int8[64, 64] x1 @scratchpad+0
buffer line: int8[1024] x1 @scratchpad+4096
buffer x: int8[24, {rows}] x1 @scratchpad+5120
buffer w: int8[{rows}, {columns}] x1 @scratchpad+5888
buffer column: int8[{rows}, 24] x1 @scratchpad+6400
buffer wide: int8[24, {columns}] x1 @scratchpad+6912
buffer a: int32[24, {columns}] x1 @accumulator+0
buffer plane: int8[{rows}, {columns}] x2 @planes+0
buffer result: int32[{rows}, {columns}] x2 @results+0
semaphore ping = 0
semaphore pong = 0
"""

PROBES = (
    "shift plane{0}, w{0}",
    "matmul a{0}[0 +: 5, 0 +: C], x{0}[0 +: 5, 0 +: R], plane{0} accumulate=0",
    "matmul a{0}, x{0}, plane{0} accumulate=1",
    "mac result{0}, column{0}[0 +: R, 0 +: 7], wide{0}[0 +: 7, 0 +: C] accumulate=0",
    "mac result{0}, column{0}, wide{0} accumulate=1",
    "drain a{0}[0 +: R, 0 +: C], result{0} accumulate=0",
    "relu s{0}[0 +: 1, 0 +: 1], s{0}[8 +: 1, 0 +: 1]",
    "add s{0}[0 +: 3, 0 +: 21], s{0}[8 +: 3, 0 +: 21], s{0}[4 +: 3, 0 +: 21]",
    "requantize s{0}[0 +: 5, 0 +: C], a{0}[0 +: 5, 0 +: C] multiplier=3 shift=4",
    "load s{0}[0 +: 1, 0 +: 16], t[0 +: 1, 0 +: 16]",
    "load s{0}[0 +: 9, 0 +: 5], t[0 +: 9, 0 +: 5]",
    "load s{0}[0 +: 20, 0 +: 48], t[0 +: 20, 0 +: 48]",
    "load line{0}, long",
    "fill s{0}[0 +: 2, 0 +: 3] value=0",
    "fill s{0} value=0",
    "store y[0 +: 1, 0 +: 16], s{0}[0 +: 1, 0 +: 16]",
    "store y[0 +: 9, 0 +: 5], s{0}[0 +: 9, 0 +: 5]",
    "store y, s{0}",
)
HOP = PROBES[6]  # the instruction that is paired with every other


@dataclass(frozen=True, slots=True)
class Probe:
    """One instruction: cycles from start to start, and from start to result, on the RTL and in the model."""

    instruction: str
    interval_cycles: float
    model_interval_cycles: float
    latency_cycles: float
    model_latency_cycles: float

    @property
    def agrees(self) -> bool:
        """Whether the model has both to the cycle."""
        return (self.interval_cycles, self.latency_cycles) == (self.model_interval_cycles, self.model_latency_cycles)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured on the chip of `machine`."""

    machine: str
    issue_cycles: float
    semaphore_cycles: float
    probes: tuple[Probe, ...]

    def to_yaml(self) -> str:
        """The text of `calibration.yaml`."""
        hop = "two streams that signal each other, a relu of one element each"
        figures = {
            "issue": {
                "value": _whole(self.issue_cycles),
                "source": f"measured on {self.machine}: cycles from sync to sync in one stream, {MANY} against {FEW}",
            },
            "semaphore": {
                "value": _whole(self.semaphore_cycles),
                "source": f"measured on {self.machine}: {hop}, less issue and the vector unit's latency and cycle",
            },
        }
        probes = [
            {
                "instruction": p.instruction,
                "interval_cycles": {"rtl": p.interval_cycles, "model": p.model_interval_cycles},
                "latency_cycles": {"rtl": p.latency_cycles, "model": p.model_latency_cycles},
            }
            for p in self.probes
        ]
        out = io.StringIO()
        out.write("# Written by `presil calibrate systolic`: do not edit. Machine descriptions take `figures`.\n")
        yaml = YAML(typ="safe", pure=True)
        yaml.default_flow_style, yaml.width = False, 200
        yaml.dump({"figures": {"systolic": figures}, "probes": probes}, out)
        return out.getvalue()


def calibrate(machine: Machine, progress: Callable[[int, int], None] | None = None) -> Calibration:
    """Measure on the chip of `machine`. Raises Unsupported for a machine without RTL."""
    bench = _Bench(machine)
    issue = bench.slope(lambda n: _stream("one", n, "sync"))
    hop = bench.slope(lambda n: _pair(n, HOP, HOP)) / 2
    semaphore = hop - 1 - systolic(machine).vector.latency - issue
    probes = []
    for i, text in enumerate(PROBES):
        probes.append(bench.probe(text, hop, issue + semaphore))
        if progress is not None:
            progress(i + 1, len(PROBES))
    return Calibration(machine.name, issue, semaphore, tuple(probes))


class _Bench:
    """Runs small programs on one chip."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        array = systolic(machine).array
        self.sizes = {"R": str(array.rows), "C": str(array.columns)}
        self.head = _DECLARATIONS.format(machine=machine.name, rows=array.rows, columns=array.columns)

    def slope(self, streams: Callable[[int], str]) -> float:
        """Cycles that one more repetition takes."""
        few, many = (self._cycles(streams(n)) for n in (FEW, MANY))
        return (many - few) / (MANY - FEW)

    def probe(self, template: str, hop: float, signalling: float) -> Probe:
        """Interval and latency of one instruction; `hop` is a round trip with the other taken off, in cycles."""
        text = " ".join(self._sized(word) for word in template.split(" "))
        interval = self.slope(lambda n: _stream("one", n, text))
        latency = self.slope(lambda n: _pair(n, text, HOP)) - hop - signalling
        program = parse(self.head + _stream("one", 1, text))
        instruction, _ = next(iter(instructions(program.streams[0].body)))
        price = cost.cost(instruction, 0, program, self.machine)
        issue = systolic(self.machine).issue  # in the latency of the model, and here in `signalling`
        return Probe(
            text,
            interval,
            price.occupancy / TICKS_PER_CYCLE,
            latency,
            price.latency / TICKS_PER_CYCLE - issue,
        )

    def _sized(self, word: str) -> str:
        """Rows and columns in a word such as `R]`."""
        bare = word.rstrip("],")
        return self.sizes.get(bare, bare) + word[len(bare) :]

    def _cycles(self, streams: str) -> float:
        return run_rtl(parse(self.head + streams), self.machine).timing.cycles


def _stream(name: str, repetitions: int, instruction: str) -> str:
    return f"stream {name} unit 0 {{\n    loop i {repetitions} {{\n        {instruction}\n    }}\n}}\n"


def _pair(repetitions: int, one: str, other: str) -> str:
    """Two streams, one instruction each, that wait for each other: `one` first."""
    first = f"{one} wait(pong, 1) signal(ping, 1)"
    second = f"{other} wait(ping, 1) signal(pong, 1)"
    streams = _stream("one", repetitions, first) + _stream("other", repetitions, second)
    return "".join(_started(streams))


def _started(streams: str) -> Iterator[str]:
    """A third stream gives the first unit."""
    yield streams
    yield "stream start unit 0 {\n    sync signal(pong, 1)\n}\n"


def _whole(cycles: float) -> int | float:
    return int(cycles) if cycles == int(cycles) else cycles
