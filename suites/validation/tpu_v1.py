"""TPU v1: shares of cycles and throughput of three of Google's six applications (rows SYS-TPU1).

What is known of the applications is Table 1 of Jouppi 2017; the shapes here are the plainest that fit it:
  MLP0    5 fully connected layers, 20M weights, batch 200: 5 of 2000 x 2000;
  LSTM0   24 fully connected layers, 52M weights, batch 64: 24 of 1472 x 1472; its 34 vector layers are left out;
  CNN0    16 convolutions, 8M weights, 8 x 361 uses of each weight: 16 of 3x3, 256 channels, on 8 boards of 19 x 19 (its
          counters say that all 256 rows and columns are in use).
Layers run one after the other, as programs of their own. A convolution is written as the matrix product that the array
sees (rows of the unified buffer at each kernel position); the emitter for convolutions wants whole blocks of weights.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from presil.kernels.emitters import emitter
from presil.kernels.operators import parse_workload
from presil.kernels.space import Choice, Schedule
from presil.simulators.machine import load_machine
from presil.simulators.simulate import simulate
from presil.simulators.timeline import Timeline
from presil.simulators.timing import TICKS_PER_CYCLE

from .published import MACHINES, PublishedRow, ValidationRow, compared

PREFIX = "SYS-TPU1-"
RESIDENT, FAST = "tpu-v1-resident", "tpu-v1-fast-weights"
WHAT_IF = "weighted_mean_speedup"
# Shares of Google's inference load, Table 1 of Jouppi 2017: MLPs 61%, LSTMs 29%, CNNs 5%.
LOAD: Mapping[str, float] = {"MLP0": 0.61, "LSTM0": 0.29, "CNN0": 0.05}


@dataclass(frozen=True, slots=True)
class Application:
    """`layers` times one layer, under one schedule."""

    workload: str
    layers: int
    rows: int  # of x in a block
    x_keep: int
    note: str

    @property
    def schedule(self) -> Schedule:
        """Tiles of the array, four tiles of weights ahead (the FIFO), two blocks of sums."""
        choices: dict[str, Choice] = {
            "dataflow": "ws",
            "bm": self.rows,
            "bn": 256,
            "bk": 256,
            "order": "mn",
            "x_keep": self.x_keep,
            "w_keep": 0,
            "x_slots": 2 - self.x_keep,
            "w_slots": 4,
            "acc_slots": 2,
            "y_slots": 2,
            "edge": "peel",
            "cores": "1",
        }
        return Schedule(tuple(choices.items()))


APPLICATIONS: Mapping[str, Application] = {
    "MLP0": Application(
        "matmul:m=200,n=2000,k=2000,dtype=int8,out=int8,activation=relu", 5, 200, 1, "5 of 2000 x 2000"
    ),
    "LSTM0": Application(
        "matmul:m=64,n=1472,k=1472,dtype=int8,out=int8", 24, 64, 1, "24 of 1472 x 1472, no vector layers"
    ),
    "CNN0": Application(
        "matmul:m=2888,n=256,k=2304,dtype=int8,out=int8,activation=relu",
        16,
        1444,
        0,
        "16 of 3x3 x 256 x 256 on 19 x 19",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What the hardware counters of the paper count, in percent of all cycles, and throughput."""

    array_active_cycles: float
    useful_macs_of_peak: float
    weight_stall_cycles: float  # the array waits for weights that are not on the chip yet
    weight_shift_cycles: float  # ... that are being shifted in
    non_matrix_cycles: float  # all else
    delivered_teraops: float
    seconds: float  # of all layers


@functools.cache
def counters(application: str, machine_name: str) -> Counters:
    """The counters of an application on a machine of `machines/`."""
    app = APPLICATIONS[application]
    machine = load_machine(MACHINES / f"{machine_name}.yaml")
    workload = parse_workload(app.workload)
    program = emitter(workload.operator, machine.family).lower(workload, machine, app.schedule)
    slices = Slices()
    timing = simulate(program, machine, timeline=slices).timing
    percent = 100 / timing.ticks
    busy = timing.engines["matrix"].busy_ticks
    waiting = timing.engines["matrix"].stall_ticks.get("plane_full", 0)
    shift = min(waiting, slices.alone("weights", "matrix"))
    peak = 65536 * timing.ticks / TICKS_PER_CYCLE
    return Counters(
        array_active_cycles=busy * percent,
        useful_macs_of_peak=100 * timing.multiply_adds / peak,
        weight_stall_cycles=(waiting - shift) * percent,
        weight_shift_cycles=shift * percent,
        non_matrix_cycles=100 - (busy + waiting) * percent,
        delivered_teraops=2 * timing.multiply_adds / timing.seconds / 1e12,
        seconds=app.layers * timing.seconds,
    )


class Slices(Timeline):
    """Keeps when each engine was taken."""

    def __init__(self) -> None:
        super().__init__(max_events=0)
        self.taken: dict[str, list[tuple[int, int]]] = {}

    def record(  # noqa: PLR0917 - as in Timeline
        self, core: int, engine: str, op: str, start_ticks: int, end_ticks: int, stream: str, detail: str = ""
    ) -> None:
        """See `Timeline.record`."""
        self.taken.setdefault(engine, []).append((start_ticks, end_ticks))

    def alone(self, engine: str, other: str) -> int:
        """Ticks in which `engine` is taken and `other` is not."""
        total = sum(end - start for start, end in self.taken[engine])
        both = (min(e, f) - max(s, t) for s, e in self.taken[engine] for t, f in self.taken[other])
        return total - sum(max(0, ticks) for ticks in both)


def compare(row: PublishedRow) -> ValidationRow | None:
    """The row's counter; None where the counter has no counterpart here (host, serving, overlapping stalls)."""
    if row.metric == WHAT_IF:
        return _what_if(row)
    if row.workload not in APPLICATIONS or row.metric not in Counters.__dataclass_fields__:
        return None
    app = APPLICATIONS[row.workload]
    ours = getattr(counters(row.workload, RESIDENT), row.metric)
    return compared(
        row, ours, machine=RESIDENT, workload=app.workload, note=f"{app.note} (assumed); activations stay on the chip"
    )


def speedup(application: str) -> float:
    """What four times the weight bandwidth gives an application."""
    return counters(application, RESIDENT).seconds / counters(application, FAST).seconds


def _what_if(row: PublishedRow) -> ValidationRow:
    mean = sum(share * speedup(app) for app, share in LOAD.items()) / sum(LOAD.values())
    note = "three of the six applications, weighted by the load of their kind"
    return compared(row, mean, machine=FAST, workload=", ".join(APPLICATIONS), note=note)
