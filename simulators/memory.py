"""Functional memories: the numbers of a program come out of its own instructions.

All memory starts as noise and as invalid. A read of a byte that nothing wrote, or whose write is still under way, is an
error. Operands are sampled when an instruction starts; its destination is invalid until it completes. Only where an
operand is the result of an instruction still ahead on the same engine is it read later, when that one has completed:
instructions of one engine see each other's results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .compiled import CompiledProgram, Issue
from .errors import BadInput, Undefined
from .family import Op, attribute_values, family
from .formats import DTYPES
from .machine import Machine
from .program import Affine, Buffer, Program, Region, Tensor

VALID = 0xFF  # of every byte that holds a value
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True, slots=True, eq=False)
class _Storage:
    """The values and the validity of one tensor or buffer (of one core). Both have a leading slot axis for buffers."""

    values: np.ndarray
    valid: np.ndarray  # same shape, one word per element, all bits set where valid
    slots: int  # 0: a tensor


@dataclass(slots=True, eq=False)
class _Started:
    """An instruction under way."""

    op: Op
    destination: tuple[np.ndarray, np.ndarray]
    sources: list[np.ndarray | None]
    late: list[tuple[int, np.ndarray, np.ndarray, str]]  # (index, values, valid, name) read at completion
    attributes: Mapping[str, Any]
    written: str  # tensor written, or ""


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
        spaces = family(machine.family).spaces(machine)
        self.buffers: list[dict[str, _Storage]] = []
        for _ in range(compiled.cores):
            raw = {s: noise.integers(0, 256, n, np.uint8) for s, n in spaces.items()}
            valid = {s: np.zeros(n, np.uint8) for s, n in spaces.items()}
            self.buffers.append({b.name: _buffer(b, raw[b.space], valid[b.space]) for b in program.buffers})
        self.grid = [_grid_values(program, core) for core in range(compiled.cores)]
        self.pending: dict[tuple[int, int], list[np.ndarray]] = {}  # validity of results ahead, per (core, engine)
        self.stored_bytes = dict.fromkeys((t.name for t in program.tensors if t.role == "out"), 0)

    def start(self, core: int, stream: int, issue: Issue, counters: list[int], now: int) -> _Started | None:
        """Sample the operands, make the destination invalid."""
        instruction = issue.instruction
        if not instruction.operands:
            return None
        values = {**self.grid[core], **dict(zip(issue.variables, counters, strict=False))}
        op = self.ops[instruction.op]
        attributes = {"accumulate": 0, **attribute_values(instruction.attributes, values)}
        ahead = self.pending.setdefault((core, issue.engine), [])
        sources: list[np.ndarray | None] = []
        late = []
        for i, region in enumerate(instruction.operands[1:]):
            data, valid = self._view(core, region, values, issue)
            if any(np.may_share_memory(valid, other) for other in ahead):
                sources.append(None)
                late.append((i, data, valid, region.name))
            else:
                sources.append(_read(data, valid, region.name, issue))
        name = instruction.operands[0].name
        destination = self._view(core, instruction.operands[0], values, issue)
        if op.access(attributes) == "w":
            destination[1][...] = 0
        ahead.append(destination[1])
        return _Started(op, destination, sources, late, attributes, name if name in self.stored_bytes else "")

    def complete(self, core: int, issue: Issue, started: object) -> None:
        """Write the result, make it valid."""
        if started is None:
            return
        assert isinstance(started, _Started)
        for i, data, valid, name in started.late:
            started.sources[i] = _read(data, valid, name, issue)
        values, valid = started.destination
        if started.op.access(started.attributes) == "rw":
            _require(valid, issue.instruction.operands[0].name, issue)
        values[...] = started.op.meaning(values, started.sources, started.attributes)  # type: ignore[arg-type]
        valid[...] = np.iinfo(valid.dtype).max
        self.pending[core, issue.engine].pop(0)
        if started.written:
            self.stored_bytes[started.written] += values.nbytes

    def outputs(self) -> dict[str, np.ndarray]:
        """Every `out` tensor. Raises Undefined for one with an element that nothing stored."""
        found = {}
        for tensor in self.program.tensors:
            if tensor.role != "out":
                continue
            storage = self.tensors[tensor.name]
            missing = np.argwhere(storage.valid == 0)
            if len(missing):
                detail = f"{len(missing):,} of {storage.valid.size:,} elements were never stored"
                raise Undefined("unstored", f"{tensor.name}{missing[0].tolist()}", detail)
            found[tensor.name] = storage.values
        return found

    def _view(self, core: int, region: Region, values: Mapping[str, int], issue: Issue) -> tuple[np.ndarray, np.ndarray]:
        """(values, validity) of a region as numpy views. Raises Undefined out of bounds."""
        storage = self.tensors.get(region.name) or self.buffers[core][region.name]
        data, valid = storage.values, storage.valid
        if storage.slots:
            slot = (region.slot or Affine()).at(values) % storage.slots
            data, valid = data[slot], valid[slot]
        if not region.dims:
            return data, valid
        box = []
        for dim, extent in zip(region.dims, data.shape, strict=True):
            start = dim.start.at(values)
            stop = start + (dim.size - 1) * dim.step + 1
            if start < 0 or stop > extent:
                raise Undefined("bounds", issue.text, f"{region.name}: {start}..{stop - 1} of 0..{extent - 1}")
            box.append(slice(start, stop, dim.step))
        return data[tuple(box)], valid[tuple(box)]


def _grid_values(program: Program, core: int) -> dict[str, int]:
    """The values of the grid variables of instance `core` (row-major)."""
    values = {}
    for name, size in reversed(program.grid):
        core, values[name] = divmod(core, size)
    return values


def _require(valid: np.ndarray, name: str, issue: Issue) -> None:
    if not (valid == np.iinfo(valid.dtype).max).all():
        detail = f"{name} is read where nothing was written yet, or while its write is under way"
        raise Undefined("uninitialised", issue.text, detail)


def _read(values: np.ndarray, valid: np.ndarray, name: str, issue: Issue) -> np.ndarray:
    _require(valid, name, issue)
    return values.copy()


def _tensor(tensor: Tensor, inputs: Mapping[str, np.ndarray], noise: np.random.Generator) -> _Storage:
    dtype = DTYPES[tensor.dtype]
    word = _WORDS[dtype.itemsize]
    if tensor.role == "out":
        raw = noise.integers(0, 256, (*tensor.shape, dtype.itemsize), np.uint8)
        values = raw.view(dtype).reshape(tensor.shape)
        return _Storage(values, np.zeros(tensor.shape, word), 0)
    if tensor.name not in inputs:
        raise BadInput(f"no input for tensor {tensor.name}; given: {', '.join(inputs) or 'none'}")
    given = inputs[tensor.name]
    if given.shape != tensor.shape or given.dtype != dtype:
        raise BadInput(
            f"input {tensor.name}: {given.dtype}{list(given.shape)}, but the program says {tensor.dtype}{list(tensor.shape)}"
        )
    return _Storage(given.copy(), np.full(tensor.shape, np.iinfo(word).max, word), 0)


def _buffer(buffer: Buffer, raw: np.ndarray, valid: np.ndarray) -> _Storage:
    dtype = DTYPES[buffer.dtype]
    shape = (buffer.slots, *buffer.shape)
    count = int(np.prod(shape)) * dtype.itemsize
    span = slice(buffer.offset, buffer.offset + count)
    return _Storage(
        raw[span].view(dtype).reshape(shape), valid[span].view(_WORDS[dtype.itemsize]).reshape(shape), buffer.slots
    )
