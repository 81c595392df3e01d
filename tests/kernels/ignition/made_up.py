"""A made-up emitter whose cycles are a closed form, so that searches of thousands of candidates take no time.

The form is that of a tiled matmul on an array with a DRAM link: tiles, loop order, buffers and splits, with overlap of
transfers and compute that depends on the buffers. The prior knows less than it: no latencies, no overlap, no edges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from presil.kernels.ignition.candidates import Evaluator, Measured
from presil.kernels.operators import Workload, parse_workload
from presil.kernels.space import Axis, Schedule, Space
from presil.simulators.errors import Undefined
from presil.simulators.machine import Machine, load_machine
from presil.simulators.program import Program, Stream, Tensor

SIZE, BYTES_PER_CYCLE, LATENCY, SCRATCHPAD = 32, 24, 400, 128 * 1024
TILES = (16, 32, 48, 64, 96, 128, 192, 256)


MACHINE = load_machine("tpu-v1")
"""Stands for any machine: its array is larger and its memory faster than the form's, so no bound is ever beaten."""


def workload(m: int, n: int, k: int) -> Workload:
    return parse_workload(f"matmul:m={m},n={n},k={k},dtype=int8")


def program(ticks: int, bound: int) -> Program:
    """A program whose name says how long it takes, and what a bound would say."""
    tensor = Tensor("y", "int32", (1, 16, 16), "out", next(iter(MACHINE.memories)))
    return Program(f"{ticks} {bound}", MACHINE.name, "matmul", (tensor,), (), (), (Stream("s", ()),))


@dataclass(frozen=True)
class MadeUp:
    operator: str = "matmul"
    wrong_prior: bool = False
    deadlocks: bool = False

    def space(self, workload: Workload, machine: Machine) -> Space:
        return Space(
            (
                Axis("bm", tuple(t for t in TILES if t <= max(16, workload.int("m")))),
                Axis("bn", tuple(t for t in TILES if t <= max(16, workload.int("n")))),
                Axis("bk", tuple(t for t in TILES if t <= max(16, workload.int("k")))),
                Axis("order", ("mnk", "nmk", "knm"), ordered=False),
                Axis("xslots", (1, 2, 3)),
                Axis("wslots", (1, 2)),
                Axis("flow", ("ws", "os"), ordered=False),
            )
        )

    def legal(self, workload: Workload, machine: Machine, schedule: Schedule) -> str | None:
        bm, bn, bk = (int(schedule[a]) for a in ("bm", "bn", "bk"))
        need = bm * bk * int(schedule["xslots"]) + bk * bn * int(schedule["wslots"]) + 4 * bm * bn
        return "tiles do not fit the scratchpad" if need > SCRATCHPAD else None

    def prior_cycles(self, workload: Workload, machine: Machine, schedule: Schedule) -> float:
        if self.wrong_prior:
            return 1000.0 + sum(map(ord, str(schedule))) % 97
        compute, load, _ = _parts(workload, schedule)
        return max(compute, load)

    def lower(self, workload: Workload, machine: Machine, schedule: Schedule) -> Program:
        if self.deadlocks and schedule["order"] == "nmk":
            raise Undefined("deadlock", "stream matrix", "nobody signals")
        return program(true_ticks(workload, schedule), round(1024 * max(_parts(workload, schedule)[:2])))


def _parts(workload: Workload, schedule: Schedule) -> tuple[float, float, int]:
    m, n, k = (workload.int(a) for a in ("m", "n", "k"))
    bm, bn, bk = (int(schedule[a]) for a in ("bm", "bn", "bk"))
    tm, tn, tk = math.ceil(m / bm), math.ceil(n / bn), math.ceil(k / bk)
    flow, order = schedule["flow"], schedule["order"]
    lanes = math.ceil(bk / SIZE) * math.ceil(bn / SIZE) if flow == "ws" else math.ceil(bm / SIZE) * math.ceil(bn / SIZE)
    long = bm if flow == "ws" else bk
    compute = tm * tn * tk * lanes * (long + SIZE / 2)
    x_times, w_times = {"mnk": (tn, tm), "nmk": (tn, tm), "knm": (1 if tk == 1 else tn, 1)}[str(order)]
    spill = 8 * m * n * (tk - 1) if order == "knm" and tk > 1 else 0
    if tk == 1 and order == "mnk":
        x_times = 1
    if tk == 1 and order == "nmk":
        w_times = 1
    load = (m * k * x_times + k * n * w_times + m * n + spill) / BYTES_PER_CYCLE
    return compute, load, tm * tn * tk


def true_ticks(workload: Workload, schedule: Schedule) -> int:
    """The right value, in ticks."""
    compute, load, steps = _parts(workload, schedule)
    slots = int(schedule["xslots"]) + int(schedule["wslots"])
    hidden = {2: 0.0, 3: 0.6, 4: 0.9, 5: 1.0}[slots]
    total = max(compute, load) + (1 - hidden) * min(compute, load) + (1.2 - hidden) * LATENCY * steps
    if schedule["flow"] == "ws" and int(schedule["wslots"]) == 1:
        total += SIZE * steps
    bank = (int(schedule["bm"]) * 7 + int(schedule["bn"]) * 3 + int(schedule["bk"])) % 11
    return round(1024 * (total * (1 + 0.004 * bank) + LATENCY))


def measure(program: Program, machine: Machine, ceiling: int | None = None) -> Measured:
    ticks, bound = map(int, program.name.split())
    return Measured(bound, "pruned") if ceiling is not None and bound > ceiling else Measured(ticks)


def evaluator(work: Workload, emitter: MadeUp | None = None) -> Evaluator:
    chosen = emitter or MadeUp()
    return Evaluator(chosen, work, MACHINE, chosen.space(work, MACHINE), measure)
