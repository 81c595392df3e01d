"""The roofline: a time that no execution can beat.

No program can take less than its multiply-adds at the peak rate of all arrays, nor less than the bytes that must cross
each memory link at its effective bandwidth (Williams, Waterman and Patterson, Roofline, CACM 52(4), 2009).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from .machine import Machine
from .timing import TICKS_PER_CYCLE


class Peak(Protocol):
    """The part of a family's specification that the roofline needs."""

    def peak_multiply_adds_per_cycle(self, dtype: str) -> float:
        """Of one core, for input `dtype`; 0 where it cannot multiply it."""


def peak_multiply_adds_per_cycle(dtype: str, machine: Machine) -> float:
    """Of the whole chip. 0 where the machine cannot multiply `dtype`."""
    spec: Any = machine.spec
    return float(machine.cores * spec.peak_multiply_adds_per_cycle(dtype))


def lower_bound_ticks(multiply_adds: int, dtype: str, traffic_bytes: Mapping[str, int], machine: Machine) -> int:
    """Ticks no execution beats. `traffic_bytes`: bytes that must cross the link of each memory."""
    peak = peak_multiply_adds_per_cycle(dtype, machine)
    compute = int(multiply_adds * TICKS_PER_CYCLE / peak) if multiply_adds and peak else 0
    links = (
        int(moved * TICKS_PER_CYCLE * machine.clock_hz / (m.bandwidth * m.efficiency))
        for name, moved in traffic_bytes.items()
        for m in (machine.memories[name],)
    )
    return max(compute, *links, 0)
