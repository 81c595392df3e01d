"""Schedules: finite mixed-radix spaces of the choices that turn an operator into a program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from presil.simulators.machine import Machine
from presil.simulators.program import Program

from .operators.operator import Workload

Choice = int | str


@dataclass(frozen=True, slots=True)
class Axis:
    """One choice of a schedule. `ordered` choices form a ladder: neighbours are alike."""

    name: str
    choices: tuple[Choice, ...]
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class Schedule:
    """One choice per axis, in the order of the axes. Prints as `bm=128 bn=256 ...`."""

    choices: tuple[tuple[str, Choice], ...]

    def __getitem__(self, axis: str) -> Choice:
        return dict(self.choices)[axis]

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.choices)


@dataclass(frozen=True, slots=True)
class Space:
    """The product of its axes. Index 0 is the first choice on every axis; the last axis counts fastest."""

    axes: tuple[Axis, ...]

    def count(self) -> int:
        """The number of schedules, legal or not."""
        return math.prod(len(axis.choices) for axis in self.axes)

    def unrank(self, index: int) -> Schedule:
        """The schedule of that index. Raises IndexError outside [0, count)."""
        if not 0 <= index < self.count():
            raise IndexError(index)
        digits: list[tuple[str, Choice]] = []
        for axis in reversed(self.axes):
            index, digit = divmod(index, len(axis.choices))
            digits.append((axis.name, axis.choices[digit]))
        return Schedule(tuple(reversed(digits)))

    def rank(self, schedule: Schedule) -> int:
        """The index of a schedule. Raises ValueError for a choice that is not on its axis."""
        index = 0
        for axis, (_, choice) in zip(self.axes, schedule.choices, strict=True):
            index = index * len(axis.choices) + axis.choices.index(choice)
        return index


class Emitter(Protocol):
    """Turns schedules of one operator into programs of one family. One file in `emitters/FAMILY/` defines EMITTER."""

    @property
    def operator(self) -> str:
        """The operator it is for."""

    def space(self, workload: Workload, machine: Machine) -> Space:
        """The schedule space. Raises Unsupported where the machine cannot run the operator."""

    def legal(self, workload: Workload, machine: Machine, schedule: Schedule) -> str | None:
        """Why the schedule cannot be (a short reason, counted by the search), or None. Cheap: no program is made."""

    def prior_cycles(self, workload: Workload, machine: Machine, schedule: Schedule) -> float:
        """A closed-form guess of the cycles of a legal schedule; ranks proposals before any is simulated."""

    def lower(self, workload: Workload, machine: Machine, schedule: Schedule) -> Program:
        """The program. Total on legal schedules."""


def describe(schedule: Schedule) -> Mapping[str, Choice]:
    """The schedule as a JSON object."""
    return dict(schedule.choices)
