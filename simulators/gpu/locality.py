"""What hits in the L2: the order of the blocks decides.

Blocks that live at the same time run side by side, so what several of them read is fetched once. What one wave of
blocks has read is there for the next if what was touched in between still fits. An access whose last use lies `d`
distinct bytes back hits in a cache of `C` bytes and `w` ways with hashed sets with the probability that fewer than `w`
of those lines fell into its set: P(Poisson(w d / C) < w) (Smith, Computing Surveys 14(3), 1982, for random mapping).

The first touch of every byte comes from memory, and what is stored goes there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import pdtr

from ..formats import size_bytes
from ..machine import Machine
from ..program import Affine, Instruction, Loop, Node, Program
from .legality import shape
from .occupancy import slots
from .spec import Gpu, gpu

MOST_WAVES = 64  # looked at, the first ones; a long grid repeats itself
OPS = ("copy", "load", "store")


@dataclass(frozen=True, slots=True)
class Share:
    """Of the bytes of one instruction: the part that crosses the L2 (less where one copy serves several blocks), and
    the part that memory moves. `active`: SMs that share both; `written`: of all bytes of memory, the part stored.
    """

    cache: float
    memory: float
    active: int
    written: float


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of the transfers of one program."""

    by_identity: Mapping[int, Share]  # alike instructions in other loops have other shares

    def of(self, instruction: Instruction) -> Share:
        """Of one transfer of the program."""
        return self.by_identity[id(instruction)]


@dataclass(frozen=True, slots=True)
class _Panel:
    """What one instruction touches in one block: `own` distinct bytes, each `repeats` times; `shift` per grid variable.

    `touched` says what it is, to be compared; `again`: an instruction before it has touched the same.
    """

    instruction: Instruction
    own: float
    repeats: float
    shift: tuple[tuple[tuple[str, int], ...], ...]
    touched: tuple[object, ...]
    again: bool = False


def shares(program: Program, machine: Machine) -> Shares:
    """The shares of `program`'s transfers. Raises Unsupported where no block fits on an SM."""
    return _shares(_Same(program), machine)


class _Same:
    """A program that is known by being the very same: to compare two of them whole costs more than the answer."""

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        self.program = program

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.program is other.program

    def __hash__(self) -> int:
        return id(self.program)


@functools.lru_cache(maxsize=64)
def _shares(same: _Same, machine: Machine) -> Shares:
    program, spec = same.program, gpu(machine)
    panels = _marked([p for stream in program.streams for p in _panels(stream.body, (), program)])
    wave = machine.cores * (slots(program, machine) if program.place != "static" else 1)
    fetched = _fetched(program, panels, wave, spec)
    stored = {id(p): p.own * p.repeats for p in panels if p.instruction.op == "store"}
    read = sum(f * p.own * p.repeats for f, p in zip(fetched, panels, strict=True) if p.instruction.op != "store")
    written = sum(stored.values()) / max(sum(stored.values()) + read, 1)
    active = min(machine.cores, program.instances)
    found = {}
    for part, panel in zip(fetched, panels, strict=True):
        multicast = panel.instruction.attribute("multicast", 1)
        assert isinstance(multicast, int)
        found[id(panel.instruction)] = Share(1 / multicast, 1.0 if id(panel) in stored else part, active, written)
    return Shares(found)


def _marked(panels: list[_Panel]) -> list[_Panel]:
    """`panels`, with those marked that touch again what one before them has touched."""
    seen: set[tuple[object, ...]] = set()
    found = []
    for panel in panels:
        found.append(replace(panel, again=panel.touched in seen))
        seen.add(panel.touched)
    return found


def _panels(nodes: tuple[Node, ...], loops: tuple[Loop, ...], program: Program) -> list[_Panel]:
    found: list[_Panel] = []
    for node in nodes:
        if isinstance(node, Loop):
            found += _panels(node.body, (*loops, node), program)
        elif node.op in OPS:
            found.append(_panel(node, loops, program))
    return found


def _panel(instruction: Instruction, loops: tuple[Loop, ...], program: Program) -> _Panel:
    region = instruction.operands[0 if instruction.op == "store" else 1]
    tensor = program.tensor(region.name)
    assert tensor is not None  # legality
    named = {name for dim in region.dims for name, _ in dim.start.terms}
    trips = [(_mean_trips(loop, program), loop.var in named) for loop in loops]
    box = math.prod(shape(region, program)) * size_bytes(tensor.dtype)
    distinct = math.prod(n for n, moves in trips if moves)
    repeats = math.prod(n for n, moves in trips if not moves)
    variables = {name for name, _ in program.grid}
    shift = tuple(_grid_terms(dim.start, variables) for dim in region.dims)
    turns = {loop.var: (loop.trips, loop.terms) for loop in loops}
    walks = (tuple(sorted((turns[v], c) for v, c in dim.start.terms if v in turns)) for dim in region.dims)
    boxes = tuple((d.start.base, d.size, d.step, walk) for d, walk in zip(region.dims, walks, strict=True))
    own = min(box * distinct, math.prod(tensor.shape) * size_bytes(tensor.dtype))
    return _Panel(instruction, float(own), float(repeats), shift, (region.name, boxes, shift))


def _mean_trips(loop: Loop, program: Program) -> float:
    """Over all blocks."""
    sizes = dict(program.grid)
    return loop.trips + sum(c * (sizes[name] - 1) / 2 for name, c in loop.terms)


def _grid_terms(start: Affine, variables: set[str]) -> tuple[tuple[str, int], ...]:
    return tuple((name, c) for name, c in start.terms if name in variables)


def _fetched(program: Program, panels: list[_Panel], wave: int, spec: Gpu) -> list[float]:
    """Of the bytes that each panel's instruction moves, the part that comes from memory."""
    instances = program.instances
    looked = min(instances, wave * MOST_WAVES)
    values = _grid_values(program, looked)
    waves = np.arange(looked) // wave
    count = int(waves[-1]) + 1
    loads = [p for p in panels if p.instruction.op != "store"]
    fresh = [p for p in loads if not p.again]
    keys = {id(p): _keys(p, values, program) for p in loads}
    # Distinct bytes of each wave: of two instructions that read the same tensor, each counts.
    footprint = sum((_distinct(keys[id(p)], waves, count) * p.own for p in fresh), np.zeros(count))
    stores = sum(p.own for p in panels if p.instruction.op == "store")
    touched = footprint + np.bincount(waves, minlength=count) * stores
    before = np.concatenate([[0.0], np.cumsum(touched)])
    found = []
    for panel in panels:
        if panel.instruction.op == "store":
            found.append(1.0)
            continue
        sharing = _distinct(keys[id(panel)], waves, count).sum() / looked
        again = sharing * float(np.mean(1 - _hit(touched, spec)))
        first = again if panel.again else _missed(keys[id(panel)], waves, before, spec) / looked
        found.append((first + (panel.repeats - 1) * again) / panel.repeats)
    return found


def _missed(keys: np.ndarray, waves: np.ndarray, before: np.ndarray, spec: Gpu) -> float:
    """Panels fetched over all waves: each once a wave where its last use is too far back."""
    distinct = np.unique(np.stack([keys, waves]), axis=1)  # sorted by key, then by wave
    key, wave = distinct
    again = np.concatenate([[False], key[1:] == key[:-1]])
    last = np.concatenate([[0], wave[:-1]])
    distance = before[wave] - before[last]  # from the start of the last use to that of this one
    miss = np.where(again, 1 - _hit(distance, spec), 1.0)
    return float(miss.sum())


def _hit(distance: np.ndarray, spec: Gpu) -> np.ndarray:
    """The probability that what was last used `distance` bytes ago is still there."""
    found: np.ndarray = pdtr(spec.cache.ways - 1, spec.cache.ways * distance / spec.cache.capacity)
    return found


def _distinct(keys: np.ndarray, waves: np.ndarray, count: int) -> np.ndarray:
    """Distinct panels of each wave."""
    pairs = np.unique(np.stack([waves, keys]), axis=1)
    return np.bincount(pairs[0], minlength=count)


def _keys(panel: _Panel, values: Mapping[str, np.ndarray], program: Program) -> np.ndarray:
    """One number for each block: the same where it touches the same part of the tensor."""
    looked = len(next(iter(values.values()))) if values else program.instances
    key = np.zeros(looked, np.int64)
    for terms in panel.shift:
        part = sum((c * values[name] for name, c in terms), np.zeros(looked, np.int64))
        key = key * (int(part.max(initial=0)) - int(part.min(initial=0)) + 1) + part - part.min(initial=0)
    return key


def _grid_values(program: Program, looked: int) -> dict[str, np.ndarray]:
    """The values of the grid variables of the first `looked` instances (row-major)."""
    left = np.arange(looked, dtype=np.int64)
    values = {}
    for name, size in reversed(program.grid):
        left, values[name] = np.divmod(left, size)
    return values
