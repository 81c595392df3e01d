"""What a report reads: runs, machines, layers, scores and validation rows, as plain frozen facts.

The report knows nothing else. `load.py` fills these from stored runs; tests fill them by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["right", "wrong", "none", "unsupported", "failed", "pending"]

Standing = Literal["published", "derived", "chosen", "unconfirmed"]

RUNS = "timed runs on data, outputs compared"  # the key of `Layer.checks` for them

STATUS_MEANING: Mapping[Status, str] = {
    "right": "the best kernel passed every check",
    "wrong": "a kernel was kept that a later check refused",
    "none": "no candidate passed the checks within the budget",
    "unsupported": "the machine cannot run the operator, or presil has not built it",
    "failed": "the work stopped with an error",
    "pending": "the run was stopped before this work was done",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One stored run. Dates are ISO 8601, `finished` is empty where it was killed; `budget` is per workload."""

    name: str
    suite: str
    title: str
    started: str
    finished: str
    seed: int | None
    budget: int | None
    fidelity: str
    planned: int
    done: int
    interrupted: bool = False
    versions: Mapping[str, str] = field(default_factory=dict)
    command: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a machine description, its text as described, and where it comes from."""

    path: str
    value: str
    source: str

    @property
    def standing(self) -> Standing:
        """What the source is worth, from the words that machine descriptions use for what nobody has published."""
        text = self.source.lower()
        if "not confirmed" in text:
            return "unconfirmed"
        if "chosen" in text or "assumed" in text or "unknown" in text:
            return "chosen"
        return "derived" if "derived" in text else "published"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine as the run saw it. `key` tells it from the others of the report; peaks are multiply-adds per second."""

    key: str
    name: str
    title: str
    family: str
    clock_hz: float
    cores: int
    peaks: Mapping[str, float]
    bandwidths: Mapping[str, float]  # bytes per second that each memory can sustain
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a kernel is wrong, or why there is none."""

    kind: str
    where: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One workload of one group on one machine: its best kernel, or why there is none.

    `count` is how often the model has this shape. `seconds`, `cycles` are of one execution. `bound_ratio` is cycles
    over the roofline bound (1 is the bound). Figures are None where there is no right kernel.
    """

    group: str
    name: str
    count: int
    workload: str
    operator: str
    dtype: str
    machine: str  # Machine.key
    status: Status
    fidelity: str
    cycles: float | None = None
    seconds: float | None = None
    utilization: float | None = None
    bound_ratio: float | None = None
    bound_by: str = ""  # what sets the bound: `compute` or `memory`
    bottleneck: str = ""
    schedule: str = ""
    first_cycles: float | None = None
    space_size: int = 0  # schedules there are; `evaluated` of them were timed
    evaluated: int = 0
    refused: int = 0
    multiply_adds: int = 0
    traffic_bytes: Mapping[str, int] = field(default_factory=dict)
    checks: Mapping[str, int] = field(default_factory=dict)
    instructions: int = 0
    executed_instructions: int = 0  # of `instructions`, on data, in the first of the timed runs
    elements: int = 0  # of the outputs
    compared_elements: int = 0  # of `elements`, with the reference, in that run
    reasons: tuple[Reason, ...] = ()

    @property
    def total_seconds(self) -> float:
        """Seconds of all executions of this shape in one pass of the model; 0 without a right kernel."""
        return (self.seconds or 0.0) * self.count if self.status == "right" else 0.0

    @property
    def partial(self) -> bool:
        """Whether there was time to run only the kernel's beginning on data."""
        return self.compared_elements < self.elements

    @property
    def gain(self) -> float | None:
        """How many times faster the best kernel is than the first right one."""
        if self.status != "right" or not self.cycles or not self.first_cycles:
            return None
        return self.first_cycles / self.cycles


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A model at a phase and batch: what one score is about."""

    key: str
    title: str
    score: str  # `inferences/s`, `tokens/s`
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The ranked figure of a group on a machine. `value` is None where a layer has no right kernel."""

    group: str
    machine: str  # Machine.key
    value: float | None
    fidelity: str
    covered: int
    layers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """One published figure beside ours. `error_percent` is (ours - published) / published * 100."""

    row: str
    machine: str
    workload: str
    metric: str
    published: float
    ours: float
    error_percent: float
    unit: str = ""
    evidence: str = ""
    source: str = ""
    note: str = ""
    given: bool = False  # the machine was described from it, so that it tests nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class RtlKernel:
    """One kernel in the event model and on the RTL. `equal`: numpy, event model and RTL have the same bits."""

    row: str
    machine: str
    workload: str
    schedule: str
    event_cycles: float
    rtl_cycles: float
    equal: bool

    @property
    def error_percent(self) -> float:
        """Of the event model's cycles against the RTL's."""
        return 100 * (self.event_cycles / self.rtl_cycles - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """Cells of a module of the RTL: `fixed + per_unit` for each `unit`, within `worst_fit_percent` where counted."""

    family: str
    module: str
    unit: str
    fixed: float
    per_unit: float
    worst_fit_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All that one report is about. Orders are the orders of the report."""

    runs: tuple[Run, ...]
    machines: tuple[Machine, ...]
    groups: tuple[Group, ...]
    layers: tuple[Layer, ...]
    scores: tuple[Score, ...]
    validations: tuple[Validation, ...] = ()
    rtl: tuple[RtlKernel, ...] = ()
    areas: tuple[Area, ...] = ()

    def score(self, group: str, machine: str) -> Score | None:
        """The score of a group on a machine, or None where the group was not run there."""
        return next((s for s in self.scores if s.group == group and s.machine == machine), None)

    def layers_of(self, group: str | None, machine: str) -> tuple[Layer, ...]:
        """The layers of a group (of all groups for None) on a machine, in order."""
        return tuple(x for x in self.layers if x.machine == machine and group in (None, x.group))
