"""What a simulation returns. Time is an integer number of ticks, 1/1024 of a cycle of the machine's clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

TICKS_PER_CYCLE = 1024
Fidelity = Literal["bound", "event", "rtl"]
Mode = Literal["full", "skip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTime:
    """Where the time of one engine went, in ticks.

    `stall_ticks` is keyed by reason: a semaphore, `link NAME`, `issue`, `done`; on the RTL, which counts none, `idle`.
    """

    busy_ticks: int
    stall_ticks: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The time of one program on one machine.

    Engines are keyed `NAME`, or `coreN.NAME` where a machine has several cores. Traffic is in bytes per memory.
    """

    ticks: int
    clock_hz: float
    fidelity: Fidelity
    mode: Mode | None
    engines: Mapping[str, EngineTime] = field(default_factory=dict)
    traffic_bytes: Mapping[str, int] = field(default_factory=dict)
    executed_instructions: int = 0  # instructions the simulator stepped through (skip mode: fewer than issued)
    issued_instructions: int = 0  # instructions the machine issued
    multiply_adds: int = 0
    kept_clock_hz: float | None = None  # where power held the chip below its full clock; ticks are of the full clock

    @property
    def cycles(self) -> float:
        """Cycles of the machine's clock; a multiple of 1/1024."""
        return self.ticks / TICKS_PER_CYCLE

    @property
    def seconds(self) -> float:
        """Wall time on the machine."""
        return self.cycles / self.clock_hz


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """A timed run: its timing and, in `full` mode, the output tensors by name and the bytes stored to each.

    `stored` says which elements of each output were stored: all, unless the run was stopped early.
    """

    timing: Timing
    stored: Mapping[str, np.ndarray] = field(default_factory=dict)
    outputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    stored_bytes: Mapping[str, int] = field(default_factory=dict)
