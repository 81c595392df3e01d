"""Functional memories: the numbers of a program come out of its own instructions.

All memory starts as noise and as invalid. A read of a byte that nothing wrote, or whose write is still under way, is an
error. Operands are sampled when an instruction starts; its destination is invalid until it completes. Only where an
operand is the result of an instruction still ahead on the same engine is it sampled later, in the moment in which that
one completes: instructions of one engine see each other's results.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .compiled import CompiledProgram, Issue
from .engine import StreamState
from .errors import BadInput, Undefined, Unsupported
from .family import Op, attribute_values, family
from .formats import DTYPES, size_bytes
from .kinds import point
from .lookup import POOL, TABLE
from .machine import Machine
from .mesh import reached
from .program import Affine, Buffer, Program, Region, Tensor

MOST_BYTES = 4 << 30  # of values; validity doubles it
OLD = -1  # index of the old value of a destination among the sources
_WORDS: Mapping[int, type[np.unsignedinteger[Any]]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_FULL = {np.dtype(word): int(np.iinfo(word).max) for word in _WORDS.values()}
_MOST_KEPT = 4096  # views of one region of the text


@dataclass(frozen=True, slots=True, eq=False)
class _Storage:
    """The values and the validity of one tensor or buffer (of one slot). Both have a leading slot axis for buffers."""

    values: np.ndarray
    valid: np.ndarray  # same shape, one word per element, all bits set where valid
    slots: int  # 0: a tensor


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """A concrete region. `inside`: where it lies in a region that reaches beyond its tensor, whose shape is `whole`."""

    values: np.ndarray
    valid: np.ndarray
    inside: tuple[slice, ...] | None = None
    whole: tuple[int, ...] = ()

    def read(self) -> np.ndarray:
        """A copy; zeros outside of the tensor."""
        if self.inside is None:
            return self.values.copy()
        padded = np.zeros(self.whole, self.values.dtype)
        padded[self.inside] = self.values
        return padded

    def write(self, op: Op, sources: list[np.ndarray | None], attributes: Mapping[str, Any]) -> None:
        """Store what `op` makes of the sources; what lies outside of the tensor is not stored."""
        if self.inside is None:
            self.values[...] = op.meaning(self.values, sources, attributes)  # type: ignore[arg-type]
        else:
            self.values[...] = op.meaning(self.read(), sources, attributes)[self.inside]  # type: ignore[arg-type]


@dataclass(slots=True, eq=False)
class _Place:
    """A region of the text in one slot, with the views made of it so far: a loop comes back to the same few."""

    region: Region
    storage: _Storage
    indices: tuple[Affine, ...]  # slot, then starts
    clips: bool
    views: dict[tuple[int, ...], _View]


@dataclass(slots=True, eq=False)
class _Late:
    """An operand that is not sampled yet: results of `ahead` instructions are still to come into it."""

    index: int  # of the source; OLD: the destination, which is added to
    view: _View
    name: str
    ahead: list[_Started]


@dataclass(slots=True, eq=False)
class _Started:
    """An instruction under way."""

    issue: Issue
    op: Op
    targets: tuple[_View, ...]
    overwrites: bool
    sources: list[np.ndarray | None]
    late: list[_Late]
    attributes: Mapping[str, Any]
    written: str  # tensor written, or ""

    def touches(self, valid: np.ndarray) -> bool:
        """Whether it writes to what `valid` is the validity of."""
        return any(np.may_share_memory(valid, target.valid) for target in self.targets)


def check_size(compiled: CompiledProgram) -> None:
    """Raises Unsupported, before anything is allocated, for a program whose data are too large to hold here."""
    program = compiled.program
    check_tensors(program, compiled.cores * compiled.slots * sum(_used(program).values()))


def check_tensors(program: Program, others: int = 0) -> None:
    """As `check_size`, where on-chip memories take `others` bytes."""
    total = sum(math.prod(t.shape) * size_bytes(t.dtype) for t in program.tensors) + others
    if total > MOST_BYTES:
        raise Unsupported(
            f"{program.name}: tensors and on-chip memories of {total:,} bytes; "
            f"at most {MOST_BYTES:,} can be executed on data"
        )


def given(tensor: Tensor, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """The input of a tensor. Raises BadInput where there is none of its shape and dtype."""
    if tensor.name not in inputs:
        raise BadInput(f"no input for tensor {tensor.name}; given: {', '.join(inputs) or 'none'}")
    found = inputs[tensor.name]
    if found.shape != tensor.shape or found.dtype != DTYPES[tensor.dtype]:
        raise BadInput(
            f"input {tensor.name}: {found.dtype}{list(found.shape)}, "
            f"but the program says {tensor.dtype}{list(tensor.shape)}"
        )
    return found


class FunctionalMemory:
    """Observer of an `Engine` that executes every instruction on data.

    `inputs` maps each `in` and `const` tensor to an array of its shape and dtype; they are copied.
    Raises BadInput where they do not match.
    """

    def __init__(
        self, compiled: CompiledProgram, machine: Machine, inputs: Mapping[str, np.ndarray], poison_seed: int
    ) -> None:
        self.program = program = compiled.program
        self.ops = family(machine.family).ops
        noise = np.random.Generator(np.random.PCG64(poison_seed))
        self.tensors = {t.name: _tensor(t, inputs, noise) for t in program.tensors}
        spaces = _used(program)
        self.buffers: list[dict[str, _Storage]] = []  # of each slot
        for _ in range(compiled.cores * compiled.slots):
            raw = {s: noise.integers(0, 256, n, np.uint8) for s, n in spaces.items()}
            valid = {s: np.zeros(n, np.uint8) for s, n in spaces.items()}
            self.buffers.append({b.name: _buffer(b, raw[b.space], valid[b.space]) for b in program.buffers})
        self.places: dict[tuple[int, int], _Place] = {}  # by slot and identity of the region
        self.points: dict[int, dict[str, int]] = {}  # grid values by instance
        self.pending: dict[tuple[int, int], list[_Started]] = {}  # under way on (core, engine), in order of completion
        self.stored_bytes = dict.fromkeys((t.name for t in program.tensors if t.role == "out"), 0)

    def begin(self, slot: int, instance: int, fresh: bool) -> None:
        """Nothing is left of the instance that was in the slot before; buffers hold what they hold from the start."""
        if fresh:
            for storage in self.buffers[slot].values():
                storage.valid[...] = 0
        values = point(self.program, instance)
        for buffer in self.program.buffers:
            if buffer.holds is not None:
                storage, tensor = self.buffers[slot][buffer.name], self.tensors[buffer.holds.name].values
                box = tuple(slice(at := dim.start.at(values), at + dim.size) for dim in buffer.holds.dims)
                storage.values[...] = tensor[box or ...].reshape(storage.values.shape)
                storage.valid[...] = _FULL[storage.valid.dtype]

    def start(self, stream: StreamState, issue: Issue, now: int) -> _Started | None:
        """Sample the operands, make the destination invalid."""
        instruction = issue.instruction
        if not instruction.operands:
            return None
        at = self.points.get(stream.instance)
        if at is None:
            at = self.points[stream.instance] = point(self.program, stream.instance)
        values = {**at, **dict(zip(issue.variables, stream.counters, strict=False))}
        op = self.ops[instruction.op]
        attributes = {"accumulate": 0, **attribute_values(instruction.attributes, values)}
        views = [
            (view, region.name)
            for i, region in enumerate(instruction.operands)
            for view in self._views(stream.slot, region, values, issue, op.clipped(i))
        ]
        if op.lookup:
            chosen = _chosen(views[POOL][0], views[TABLE][0], values, issue)
            views[POOL:] = [(chosen, views[POOL][1])]
        overwrites, name = op.access(attributes) == "w", instruction.operands[0].name
        to = len(views) - 1 if op.spreads else 1
        sources: list[np.ndarray | None] = [None] * (len(views) - to)
        written = name if name in self.stored_bytes else ""
        targets = tuple(view for view, _ in views[:to])
        started = _Started(issue, op, targets, overwrites, sources, [], attributes, written)
        queue = self.pending.setdefault((stream.core, issue.engine), [])
        for index in range(0 if overwrites else OLD, len(sources)):
            view, read = views[index + to]
            ahead = [other for other in queue if other.touches(view.valid)]
            operand = _Late(index, view, read, ahead)
            if ahead:
                started.late.append(operand)
            else:
                _sample(started, operand)
        for target in targets if overwrites else ():
            target.valid[...] = 0
        queue.append(started)
        return started

    def complete(self, core: int, issue: Issue, started: object) -> None:
        """Write the result, make it valid."""
        if started is None:
            return
        assert isinstance(started, _Started)
        with np.errstate(all="ignore"):  # a machine overflows to infinity, it does not trap
            for target in started.targets:
                target.write(started.op, started.sources, started.attributes)
                target.valid[...] = _FULL[target.valid.dtype]
        if started.written:
            self.stored_bytes[started.written] += started.targets[0].values.nbytes
        queue = self.pending[core, issue.engine]
        queue.pop(0)
        for other in queue:
            for operand in [late for late in other.late if started in late.ahead]:
                operand.ahead.remove(started)
                if not operand.ahead:
                    _sample(other, operand)
                    other.late.remove(operand)
            for target in other.targets if other.overwrites else ():
                if started.touches(target.valid):
                    target.valid[...] = 0  # it has started: what has just become valid is on its way out

    def outputs(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Every `out` tensor, and which of its elements were stored."""
        outs = [t.name for t in self.program.tensors if t.role == "out"]
        return {n: self.tensors[n].values for n in outs}, {n: self.tensors[n].valid != 0 for n in outs}

    def _views(self, slot: int, region: Region, values: Mapping[str, int], issue: Issue, clips: bool) -> list[_View]:
        """A region as numpy views, one for each instance that it reaches."""
        cores = (slot,) if region.core is None else reached(region.core)
        return [self._view(core, region, values, issue, clips) for core in cores]

    def _view(self, slot: int, region: Region, values: Mapping[str, int], issue: Issue, clips: bool) -> _View:
        """A region as numpy views. Raises Undefined out of bounds, unless it is clipped."""
        place = self.places.get((slot, id(region)))
        if place is None:
            storage = self.tensors.get(region.name) or self.buffers[slot][region.name]
            indices = (region.slot or Affine(), *(dim.start for dim in region.dims))
            place = self.places[slot, id(region)] = _Place(region, storage, indices, clips and not storage.slots, {})
        at = []
        for affine in place.indices:
            value = affine.base
            for name, coefficient in affine.terms:
                value += coefficient * values[name]
            at.append(value)
        if place.storage.slots:
            at[0] %= place.storage.slots
        key = tuple(at)
        found = place.views.get(key)
        if found is None:
            found = _cut(place, key, issue)
            if len(place.views) < _MOST_KEPT:
                place.views[key] = found
        return found


def _cut(place: _Place, at: tuple[int, ...], issue: Issue) -> _View:
    data, valid = place.storage.values, place.storage.valid
    if place.storage.slots:
        data, valid = data[at[0]], valid[at[0]]
    if not place.region.dims:
        return _View(data, valid)
    if place.clips:
        return _clipped(place, at)
    box = []
    for dim, start, extent in zip(place.region.dims, at[1:], data.shape, strict=True):
        stop = start + (dim.size - 1) * dim.step + 1
        if start < 0 or stop > extent:
            detail = f"{place.region.name}: {start}..{stop - 1} of 0..{extent - 1}"
            raise Undefined("bounds", issue.text, detail)
        box.append(slice(start, stop, dim.step))
    return _View(data[tuple(box)], valid[tuple(box)])


def _clipped(place: _Place, at: tuple[int, ...]) -> _View:
    """The part of a region that lies inside its tensor."""
    data, valid = place.storage.values, place.storage.valid
    box, inside = [], []
    for dim, start, extent in zip(place.region.dims, at[1:], data.shape, strict=True):
        first = min(dim.size, max(0, -(start // dim.step)))
        last = min(dim.size, max(first, -(-(extent - start) // dim.step)))
        inside.append(slice(first, last))
        begin = start + first * dim.step
        box.append(slice(begin, begin + (last - first) * dim.step, dim.step))
    whole = tuple(dim.size for dim in place.region.dims)
    found = _View(data[tuple(box)], valid[tuple(box)])
    if found.values.shape == whole:
        return found
    return _View(found.values, found.valid, tuple(inside), whole)


def _chosen(pool: _View, table: _View, values: Mapping[str, int], issue: Issue) -> _View:
    """The entries of a pool that a table names. Raises Undefined for one that the pool does not have."""
    numbers, entries = table.values.reshape(-1), pool.values.shape[0]
    wrong = np.flatnonzero((numbers < 0) | (numbers >= entries))
    if len(wrong):
        name, dims = issue.instruction.operands[TABLE].name, issue.instruction.operands[TABLE].dims
        at = np.unravel_index(int(wrong[0]), table.values.shape)
        element = [int(i) + (dims[axis].start.at(values) if dims else 0) for axis, i in enumerate(at)]
        detail = f"{name}{element} is {numbers[wrong[0]]}; {issue.instruction.operands[POOL].name} has entries 0 to"
        raise Undefined("bounds", issue.text, f"{detail} {entries - 1}")
    found = _View(pool.values[numbers], pool.valid[numbers])
    if pool.inside is None:
        return found
    return replace(found, inside=(slice(0, len(numbers)), *pool.inside[1:]), whole=(len(numbers), *pool.whole[1:]))


def _sample(started: _Started, operand: _Late) -> None:
    """Read an operand now. Raises Undefined where it is not valid."""
    valid = operand.view.valid
    if valid.size and valid.min() != _FULL[valid.dtype]:
        detail = f"{operand.name} is read where nothing was written yet, or while its write is under way"
        raise Undefined("uninitialised", started.issue.text, detail)
    if operand.index != OLD:  # what is added to stays where it is until the sum is written
        started.sources[operand.index] = operand.view.read()


def _used(program: Program) -> dict[str, int]:
    """Bytes of each space that the buffers of a program reach."""
    found: dict[str, int] = {}
    for b in program.buffers:
        end = b.offset + b.slots * math.prod(b.shape) * size_bytes(b.dtype)
        found[b.space] = max(found.get(b.space, 0), end)
    return found


def _tensor(tensor: Tensor, inputs: Mapping[str, np.ndarray], noise: np.random.Generator) -> _Storage:
    dtype = DTYPES[tensor.dtype]
    word = _WORDS[dtype.itemsize]
    if tensor.role == "out":
        raw = noise.integers(0, 256, (*tensor.shape, dtype.itemsize), np.uint8)
        values = raw.view(dtype).reshape(tensor.shape)
        return _Storage(values, np.zeros(tensor.shape, word), 0)
    return _Storage(given(tensor, inputs).copy(), np.full(tensor.shape, np.iinfo(word).max, word), 0)


def _buffer(buffer: Buffer, raw: np.ndarray, valid: np.ndarray) -> _Storage:
    dtype = DTYPES[buffer.dtype]
    shape = (buffer.slots, *buffer.shape)
    count = int(np.prod(shape)) * dtype.itemsize
    span = slice(buffer.offset, buffer.offset + count)
    return _Storage(
        raw[span].view(dtype).reshape(shape), valid[span].view(_WORDS[dtype.itemsize]).reshape(shape), buffer.slots
    )
