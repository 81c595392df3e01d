"""What hits in the L2: the order of the blocks decides.

Blocks that live at the same time run side by side, so what several of them read is fetched once. What one wave of
blocks has read is there for the next if what was touched in between still fits. An access whose last use lies `d`
distinct bytes back hits in a cache of `C` bytes and `w` ways with hashed sets with the probability that fewer than `w`
of those lines fell into its set: P(Poisson(w d / C) < w) (Smith, Computing Surveys 14(3), 1982, for random mapping).

The first touch of every byte comes from memory, and what is stored goes there.

What a table says is not known, so a gather is taken to name the entries of its pool in turn: element i of the table
names entry i modulo their number. No table has more first touches, or more entries between two uses of one, so none
misses more often; one that names an entry twice (a shared prefix, tiles of one expert) is charged as if it did not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import pdtr

from ..family import POOL
from ..formats import size_bytes
from ..lookup import boxed
from ..machine import Machine
from ..program import Affine, Dim, Instruction, Loop, Node, Program, Region, Tensor
from .occupancy import slots
from .spec import Cache, gpu

MOST_WAVES = 64  # looked at, the first ones; a long grid repeats itself
_Shift = tuple[tuple[tuple[str, int], ...], ...]
OPS = ("copy", "gather", "load", "store")


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

    `touched` says what it is, to be compared; `again`: an instruction before it has touched the same. Where `cycle` is
    not 0, indices of the first dimension that are as far apart are the same.
    """

    instruction: Instruction
    own: float
    repeats: float
    shift: _Shift
    touched: tuple[object, ...]
    cycle: int = 0
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
    program = same.program
    wave = machine.cores * slots(program, machine)
    panels, fetched = _fetched(same, wave, gpu(machine).cache)
    stored = sum(p.own * p.repeats for p in panels if p.instruction.op == "store")
    read = sum(f * p.own * p.repeats for f, p in zip(fetched, panels, strict=True) if p.instruction.op != "store")
    active = min(machine.cores, program.instances)
    found = {}
    for part, panel in zip(fetched, panels, strict=True):
        multicast = panel.instruction.attribute("multicast", 1)
        assert isinstance(multicast, int)
        found[id(panel.instruction)] = Share(1 / multicast, part, active, stored / max(stored + read, 1))
    return Shares(found)


def box(instruction: Instruction, program: Program) -> tuple[Region, Tensor]:
    """What a transfer moves, and the tensor that it is a part of; for a gather see `lookup.boxed`."""
    if instruction.op == "gather":
        return boxed(instruction, program)
    region = instruction.operands[0 if instruction.op == "store" else 1]
    tensor = program.tensor(region.name)
    assert tensor is not None  # legality
    return region, tensor


def sector_bytes(region: Region, tensor: Tensor, sector: int) -> int:
    """Bytes that move for the part of a region that can lie inside its tensor: whole sectors for each run of it."""
    moved, size = inside_bytes(region, tensor), size_bytes(tensor.dtype)
    last = region.dims[-1] if region.dims else None
    if last is None or (last.step == 1 and last.size >= tensor.shape[-1]):
        return moved  # whole rows: one run
    run = min(last.size, tensor.shape[-1]) * size if last.step == 1 else size
    return moved // run * -(-run // sector) * sector


def inside_bytes(region: Region, tensor: Tensor) -> int:
    """Bytes of a region that can lie inside its tensor: what is clipped is not moved."""
    sizes = [dim.size for dim in region.dims] or list(tensor.shape)
    return math.prod(map(min, sizes, tensor.shape)) * size_bytes(tensor.dtype)


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
    region, tensor = box(instruction, program)
    trips = {loop.var: _mean_trips(loop, program) for loop in loops}
    sizes = dict(program.grid)
    dims = zip(region.dims, tensor.shape, strict=False)
    own = float(math.prod(_reached(dim, extent, trips, sizes) for dim, extent in dims) if region.dims else 0)
    own = own * size_bytes(tensor.dtype) or float(inside_bytes(region, tensor))
    cycle = 0
    if instruction.op == "gather":
        pool = program.tensor(instruction.operands[POOL].name)
        assert pool is not None
        cycle = pool.shape[0]
        own = min(own, cycle * own / _reached(region.dims[0], tensor.shape[0], trips, sizes))
    variables = {name for name, _ in program.grid}
    shift = tuple(_grid_terms(dim.start, variables) for dim in region.dims)
    turns = {loop.var: (loop.trips, loop.terms) for loop in loops}
    walks = (tuple(sorted((turns[v], c) for v, c in dim.start.terms if v in turns)) for dim in region.dims)
    boxes = tuple((d.start.base, d.size, d.step, walk) for d, walk in zip(region.dims, walks, strict=True))
    repeats = inside_bytes(region, tensor) * math.prod(trips.values()) / own
    return _Panel(instruction, own, repeats, shift, (region.name, boxes, shift), cycle)


def _reached(dim: Dim, extent: int, trips: Mapping[str, float], sizes: Mapping[str, int]) -> float:
    """Distinct indices that a block adds along one dimension: overlaps with itself and with the next block count once.

    Boxes that overlap are taken to leave no gaps between them (the taps of a convolution).
    """
    count, span = float(dim.size), float((dim.size - 1) * dim.step + 1)
    for coefficient, times in sorted((abs(c), trips[name]) for name, c in dim.start.terms if name in trips):
        whole = span + coefficient * (times - 1)
        count = count * times if coefficient >= span else min(count * times, whole)
        span = whole
    shifts = [float(abs(c)) for name, c in dim.start.terms if sizes.get(name, 1) > 1]
    return min([count, float(extent), *shifts])


def _mean_trips(loop: Loop, program: Program) -> float:
    """Over all blocks."""
    sizes = dict(program.grid)
    return loop.trips + sum(c * (sizes[name] - 1) / 2 for name, c in loop.terms)


def _grid_terms(start: Affine, variables: set[str]) -> tuple[tuple[str, int], ...]:
    return tuple((name, c) for name, c in start.terms if name in variables)


@functools.lru_cache(maxsize=64)  # the same at every clock
def _fetched(same: _Same, wave: int, cache: Cache) -> tuple[list[_Panel], list[float]]:
    """The transfers of a program, and of the bytes that each moves the part that memory moves."""
    program = same.program
    panels = _marked([p for stream in program.streams for p in _panels(stream.body, (), program)])
    looked = min(program.instances, wave * MOST_WAVES)
    values = _grid_values(program, looked)
    waves = np.arange(looked) // wave
    count = int(waves[-1]) + 1
    loads = [p for p in panels if p.instruction.op != "store"]
    places = {(p.shift, p.cycle) for p in loads}
    uses = {place: _Uses.of(_keys(*place, values, looked), waves) for place in places}
    # Distinct bytes of each wave: of two instructions that read the same, the first counts.
    touched = np.bincount(waves, minlength=count) * sum(p.own for p in panels if p.instruction.op == "store")
    for panel in loads:
        if not panel.again:
            touched = touched + np.bincount(uses[panel.shift, panel.cycle].wave, minlength=count) * panel.own
    before = np.concatenate([[0.0], np.cumsum(touched)])
    lost = float(np.mean(1 - _hit(touched, cache)))  # of what a wave comes back to
    found = []
    for panel in panels:
        if panel.instruction.op == "store":
            found.append(1.0)
            continue
        use = uses[panel.shift, panel.cycle]
        again = len(use.wave) / looked * lost
        first = again if panel.again else use.missed(before, cache) / looked
        found.append((first + (panel.repeats - 1) * again) / panel.repeats)
    return panels, found


@dataclass(frozen=True, slots=True)
class _Uses:
    """Panels of one instruction, each once a wave: `wave` in which it is used, `last` before that, or -1."""

    wave: np.ndarray
    last: np.ndarray

    @staticmethod
    def of(keys: np.ndarray, waves: np.ndarray) -> _Uses:
        """Of the blocks of `waves`, which use the panels `keys`."""
        count = int(waves[-1]) + 1
        key, wave = np.divmod(np.unique(keys * count + waves), count)  # by key, then by wave
        again = np.concatenate([[False], key[1:] == key[:-1]])
        return _Uses(wave, np.where(again, np.concatenate([[0], wave[:-1]]), -1))

    def missed(self, before: np.ndarray, cache: Cache) -> float:
        """Panels fetched in all waves: where there was no last use, or where it is too far back."""
        # From the start of the last use to that of this one.
        distance = before[self.wave] - before[np.maximum(self.last, 0)]
        return float(np.where(self.last >= 0, 1 - _hit(distance, cache), 1.0).sum())


def _hit(distance: np.ndarray, cache: Cache) -> np.ndarray:
    """The probability that what was last used `distance` bytes ago is still there."""
    found: np.ndarray = pdtr(cache.ways - 1, cache.ways * distance / cache.capacity)
    return found


def _keys(shift: _Shift, cycle: int, values: Mapping[str, np.ndarray], looked: int) -> np.ndarray:
    """One number for each block: the same where it touches the same part of the tensor."""
    key = np.zeros(looked, np.int64)
    for axis, terms in enumerate(shift):
        part = sum((c * values[name] for name, c in terms), np.zeros(looked, np.int64))
        if cycle and not axis:
            part %= cycle
        key = key * (int(part.max(initial=0)) - int(part.min(initial=0)) + 1) + part - part.min(initial=0)
    return np.unique(key, return_inverse=True)[1].reshape(-1)


def _grid_values(program: Program, looked: int) -> dict[str, np.ndarray]:
    """The values of the grid variables of the first `looked` instances (row-major)."""
    left = np.arange(looked, dtype=np.int64)
    values = {}
    for name, size in reversed(program.grid):
        left, values[name] = np.divmod(left, size)
    return values
