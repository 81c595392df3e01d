"""What a family of machines must bring, and how families are found.

A family is a folder here with `spec.py` (its part of the YAML), `isa.py` (what instructions mean and which are legal)
and `cost.py` (what they cost). Outside packages add one through the entry point group `presil.families`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from pydantic import BaseModel

from .errors import BadInput, nearest
from .program import Attribute, Instruction, Program, Role

Access = Literal["r", "w", "rw"]
POOL, TABLE = 1, 2  # operands of a lookup


@dataclass(frozen=True, slots=True)
class Cost:
    """The price of one instruction, in ticks.

    The engine is taken for `occupancy`; results and signals come `latency` after the start (latency >= occupancy > 0).
    The stream can issue its next instruction `issue` after the start: sooner than the engine is free again, or, where
    it has to wait for the result, later.
    Each link in `links` is taken for its ticks from the start. `traffic` is in bytes per memory.
    """

    engine: str
    occupancy: int
    latency: int
    links: tuple[tuple[str, int], ...] = ()
    traffic: tuple[tuple[str, int], ...] = ()
    multiply_adds: int = 0
    issue: int = 0
    operations: int = 0  # of vector lanes, one an element


@dataclass(frozen=True, slots=True)
class Activity:
    """What a chip does in `seconds`, as far as it takes power: multiply-adds by the dtype that is multiplied,
    operations of vector lanes, bytes of memory.
    """

    seconds: float
    multiply_adds: Mapping[str, int]
    operations: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Op:
    """An instruction of a family: its name, its text, its meaning in numpy.

    `operands` names the operands, destination first; a name that ends in `?` may be missing.
    `attributes` maps each attribute to its kind: `int`, `float`, `affine` or a tuple of the allowed words.
    `meaning(out, sources, attributes)` returns the new value of the destination (same shape as `out`, which holds its
    old value); an affine attribute arrives as its int value.
    `access(attributes)` says how the destination is touched: `w`, or `rw` where it accumulates.
    """

    name: str
    summary: str
    engine: str
    operands: tuple[str, ...]
    attributes: Mapping[str, str | tuple[str, ...]]
    meaning: Callable[[np.ndarray, Sequence[np.ndarray], Mapping[str, Any]], np.ndarray]
    access: Callable[[Mapping[str, Any]], Access]
    _: KW_ONLY
    spreads: bool = False  # all operands but the last are destinations
    clips: bool = False  # what a region of a tensor has outside it reads as zero, and is not stored
    lookup: bool = False  # see `lookup.py`; `meaning` is given the entries that the table names, one behind the other

    def clipped(self, position: int) -> bool:
        """Whether an operand may reach beyond its tensor. A table may not: what it does not have names no entry."""
        return self.clips and not (self.lookup and position == TABLE)


class Family(Protocol):
    """The seam between the engine and a family. All of it is pure."""

    name: str
    spec_model: type[BaseModel]
    ops: Mapping[str, Op]

    def spaces(self, machine: Any) -> Mapping[str, int]:
        """Bytes of each on-chip space of one core."""

    def links(self, machine: Any) -> tuple[str, ...]:
        """The links between cores; empty where cores do not reach each other."""

    def tensor_memory(self, role: Role, machine: Any) -> str:
        """The memory that tensors of a role lie in: the machine's choice, never the program's."""

    def engines(self, machine: Any) -> tuple[str, ...]:
        """Names of the engines of one core, in the order in which they complete within a tick."""

    def legal(self, instruction: Instruction, unit: int, program: Program, machine: Any) -> str | None:
        """Why this instruction cannot exist on the machine, or None. Shapes, dtypes, spaces; not bounds, not order."""

    def whole(self, program: Program, machine: Any) -> str | None:
        """Why the program as a whole cannot be, where no single instruction shows it; or None."""

    def cost(self, instruction: Instruction, unit: int, program: Program, machine: Any) -> Cost:
        """What it costs. The same for each execution of one instruction of the text."""

    def slots(self, program: Program, machine: Any) -> int:
        """Instances that a core holds at once where they are dispatched. Raises Unsupported where not one fits."""

    def launch_ticks(self, program: Program, machine: Any) -> tuple[int, int]:
        """Of a dispatched grid: ticks until its first instances start, and from a free slot to its next instance."""

    def sustained_clock_hz(self, activity: Activity, machine: Any) -> float:
        """The clock that power allows for what takes `activity.seconds` at the machine's clock, its full one."""

    opcodes: Mapping[str, int]  # of the RTL

    def encode(self, instruction: Instruction, unit: int, program: Program, machine: Any) -> Any:
        """What the RTL is told of it (an `encoding.Body`). Raises Unsupported where the RTL cannot execute it."""

    def elaborate(self, machine: Any) -> Mapping[str, int]:
        """The parameters of the RTL. Raises Unsupported for a machine that it does not build."""


@functools.cache
def family(name: str) -> Family:
    """The family of that name. Raises BadInput for an unknown one."""
    if name in family_names():
        outside = [e for e in entry_points(group="presil.families") if e.name == name]
        found: Family = outside[0].load() if outside else importlib.import_module(f".{name}", __package__).FAMILY
        return found
    raise BadInput(f"unknown family '{name}'{nearest(name, family_names())}; there are: {', '.join(family_names())}")


def family_names() -> tuple[str, ...]:
    """The names of all families: folders here with an `isa.py`, and entry points."""
    inside = {path.parent.name for path in Path(__file__).parent.glob("*/isa.py")}
    return tuple(sorted(inside | {e.name for e in entry_points(group="presil.families")}))


def attribute_values(attributes: tuple[tuple[str, Attribute], ...], values: Mapping[str, int]) -> dict[str, Any]:
    """Attributes with each affine one replaced by its value."""
    return {k: v if isinstance(v, int | float | str) else v.at(values) for k, v in attributes}
