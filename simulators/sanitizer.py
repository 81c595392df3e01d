"""Says whether a program means the same under every timing: happens-before, not luck.

`sanitize` finds races, reads of what was never written, deadlocks, leftover counts, indices out of bounds, buffers that
do not fit, outputs that are not stored. A program without faults gives the same bits whatever the latencies are. The
order is made once, by counting (`order.py`); accesses are compared in bulk (`races.py`), so a million executed
instructions take seconds.

Rules. Two accesses that share bytes, one of them a write, must be ordered: the earlier completes before the later
starts. Instructions of one stream on one engine are in order by themselves. A semaphore is signalled by one stream on
one engine and waited for by one stream: with two sources a count would not say which of them has given it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .accesses import READ, WRITE, Accesses, Grid, collect
from .coverage import Stores, is_tiled
from .family import family
from .faults import Fault
from .kinds import kinds, loops, point
from .lines import Array, issued
from .machine import Machine
from .mesh import flat, is_meshed
from .order import Order
from .program import Affine, Buffer, Loop, Program, Tensor, instructions
from .races import Race, RaceFinder
from .regions import Area, Holder

__all__ = ["Fault", "sanitize"]

MAX_MAGNITUDE = 1 << 31  # of indices and attributes, far inside int64
MAX_TENSOR_ELEMENTS = 1 << 31


def sanitize(program: Program, machine: Machine, limit: int = 10_000_000, max_faults: int = 20) -> tuple[Fault, ...]:
    """The faults of a legal program, at most `max_faults`; none means that every timing gives the same bits.

    `limit` is the number of executed instructions above which the fault is `limit`: the program was not judged.
    Kinds: limit, capacity, bounds, input-written, semaphore-shared, deadlock, leftover, overflow, race, uninitialised,
    unstored.
    """
    faults: list[Fault] = []
    judges: list[_Sanitizer] = []
    outputs = Counter(t.name for phase in program.phases for t in phase.tensors if t.role == "out")
    for phase in program.phases:
        found = [*_sizes(phase, machine, limit)]
        if not found:
            try:
                judges.append(_Sanitizer(flat(phase) if is_meshed(phase) else phase, machine, max_faults))
                found = judges[-1].run({name for name, phases in outputs.items() if phases == 1})
            except OverflowError as error:
                why = str(error) or "its regions overlap in too many ways to be judged"
                found = [Fault("limit", phase.name, why)]
        faults += found
    if not faults:
        shared = [t for t in program.tensors if outputs[t.name] > 1]
        faults += [fault for tensor in shared for fault in _judge_parts(tensor, judges)]
    return tuple(faults[:max_faults])


def _judge_parts(tensor: Tensor, judges: Sequence[_Sanitizer]) -> Iterator[Fault]:
    """Of an output that several phases store: together they store each element once, as far as is plain to see."""
    stores = [Stores(kind.order, kind.grids) for judge in judges for kind in judge.kinds]
    if not is_tiled(tensor, stores, judges[0].ops):
        detail = "the phases do not plainly store each element once"
        yield Fault("unstored", f"tensor {tensor.name}", detail)


def _sizes(program: Program, machine: Machine, limit: int) -> Iterator[Fault]:
    total = _judged(program, machine)
    if total > limit:
        yield Fault("limit", program.name, f"issues {total:,} instructions; at most {limit:,} can be judged")
    spaces = family(machine.family).spaces(machine)
    for buffer in program.buffers:
        holder = Holder.of(buffer)
        if buffer.space not in spaces:
            known = ", ".join(spaces)
            yield Fault("capacity", f"buffer {buffer.name}", f"there is no space {buffer.space}; there are: {known}")
        elif holder.end > spaces[buffer.space] or buffer.offset < 0 or buffer.slots < 1:
            detail = f"takes bytes {buffer.offset} to {holder.end} of {buffer.space}, which has {spaces[buffer.space]}"
            yield Fault("capacity", f"buffer {buffer.name}", detail)
    for held in (buffer for buffer in program.buffers if buffer.holds):
        for other in program.buffers:
            one, two = Holder.of(held), Holder.of(other)
            if other != held and other.space == held.space and one.offset < two.end and two.offset < one.end:
                yield Fault("capacity", f"buffer {other.name}", f"shares bytes with {held.name}, which is constant")
    for tensor in program.tensors:
        elements = Holder.of(tensor).tile
        if elements > MAX_TENSOR_ELEMENTS:
            detail = f"has {elements:,} elements; at most {MAX_TENSOR_ELEMENTS:,} can be judged"
            yield Fault("limit", f"tensor {tensor.name}", detail)


def _judged(program: Program, machine: Machine) -> int:
    """Instructions that are looked at: of dispatched instances, one of each kind, and all that touch outputs."""
    if program.place == "static":
        return sum(issued(stream.body) for stream in program.streams) * max(program.instances, 1)
    outputs = {t.name for t in program.tensors if t.role == "out"}
    total = 0
    for kind in kinds(program):
        rounds = -(-program.instances // machine.cores) if program.place == "persistent" else 1
        for stream in kind.program.streams:
            for instruction, times in instructions(stream.body):
                touches = any(region.name in outputs for region in instruction.operands)
                total += times * (rounds + (len(kind.instances) if touches else 0))
    return total


def _in_turn(program: Program, machine: Machine) -> Program:
    """A persistent program as one core runs it: the body of each stream goes once around for each of its instances."""
    taken = {name for name, _ in program.grid} | {loop.var for stream in program.streams for loop in loops(stream.body)}
    name = next(name for name in (f"turn{i or ''}" for i in range(len(taken) + 1)) if name not in taken)
    rounds = -(-program.instances // machine.cores)
    streams = tuple(replace(s, body=(Loop(name, rounds, s.body),)) for s in program.streams)
    return replace(program, streams=streams)


class _Instances:
    """The instances of one kind. `order` is that of one, `lasting` that in which its buffers live: of a persistent
    core, all of its instances one behind the other.
    """

    def __init__(self, program: Program, grids: list[Grid], machine: Machine) -> None:
        self.program, self.grids = program, grids
        self.order = Order(program, machine)
        self.lasting = Order(_in_turn(program, machine), machine) if program.place == "persistent" else self.order

    def differ(self) -> bool:
        """Whether instances differ in more than the parts of tensors they touch, and in numbers they compute with."""
        first = self.grids[0]
        variables = {name for name in first if any(grid[name] != first[name] for grid in self.grids)}
        affine: list[Affine] = []
        for line in self.order.lines:
            accumulate = line.instruction.attribute("accumulate")
            affine += [accumulate] if isinstance(accumulate, Affine) else []
            for region in line.instruction.operands:
                if region.slot is not None:
                    affine += [region.slot, *(dim.start for dim in region.dims)]
        return any(name in variables for a in affine for name, _ in a.terms)


class _Sanitizer:
    """One program on its way to a verdict. Instances share only tensors: each is judged alone, then all together."""

    def __init__(self, program: Program, machine: Machine, max_faults: int) -> None:
        self.program, self.ops, self.max_faults = program, family(machine.family).ops, max_faults
        self.kinds = [
            _Instances(kind.program, [point(program, i) for i in kind.instances], machine) for kind in kinds(program)
        ]
        owners: tuple[Buffer | Tensor, ...] = (*program.buffers, *program.tensors)
        self.owners = {o.name: o for o in owners}
        self.sizes = dict(program.grid)

    def run(self, outputs: Collection[str]) -> list[Fault]:
        """The faults of one phase; of its outputs, those in `outputs` are judged whole."""
        faults: list[Fault] = []
        for kind in self.kinds:
            own = [*self._out_of_bounds(kind), *kind.lasting.faults]
            faults += own
            if own and (not kind.lasting.ordered or any(f.kind in ("bounds", "input-written") for f in own)):
                return faults
        found: list[Fault] = []
        for kind in self.kinds:
            grids = kind.grids if kind.differ() else kind.grids[:1]
            for space in dict.fromkeys(b.space for b in self.program.buffers):
                area = Area([Holder.of(b) for b in self.program.buffers if b.space == space])
                for grid in grids:
                    found += self._judge(area, collect(kind.lasting, self.ops, area, grid), grid, kind.lasting)
            if found:
                break
        for tensor in self.program.tensors:
            if tensor.role == "out" and tensor.name in outputs:
                found += self._judge_output(tensor)
        return found + faults

    def _out_of_bounds(self, kind: _Instances) -> Iterator[Fault]:
        """Checked on the extremes of each affine index: complete, since loops are boxes."""
        for line in kind.order.lines:
            where = kind.order.describe(line)
            op = self.ops[line.instruction.op]
            for key, value in line.instruction.attributes:
                if isinstance(value, Affine) and max(map(abs, line.extent(self.sizes, value))) > MAX_MAGNITUDE:
                    yield Fault("bounds", where, f"attribute {key} grows beyond {MAX_MAGNITUDE}")
            for position, region in enumerate(line.instruction.operands):
                owner = self.owners[region.name]
                if isinstance(owner, Tensor) and owner.role != "out" and position == 0:
                    yield Fault("input-written", where, f"{owner.name} is an input ({owner.role})")
                if isinstance(owner, Buffer) and owner.holds and position == 0:
                    yield Fault("input-written", where, f"{owner.name} holds {owner.holds.name}, which is constant")
                if region.slot is not None and max(map(abs, line.extent(self.sizes, region.slot))) > MAX_MAGNITUDE:
                    yield Fault("bounds", where, f"the slot of {owner.name} grows beyond {MAX_MAGNITUDE}")
                if region.dims and len(region.dims) != len(owner.shape):
                    yield Fault(
                        "bounds", where, f"{owner.name} has {len(owner.shape)} dimensions, not {len(region.dims)}"
                    )
                    continue
                for axis, (dim, size) in enumerate(zip(region.dims, owner.shape, strict=False)):
                    low, high = line.extent(self.sizes, dim.start)
                    begins = isinstance(owner, Tensor) and (owner.role != "out" or low >= 0)
                    if op.clipped(position) and begins:  # outside it is read as zeros, and not stored
                        continue
                    last = high + (dim.size - 1) * dim.step
                    if low < 0 or last >= size or dim.size < 1 or dim.step < 1:
                        detail = f"touches {low} to {last} of dimension {axis} of {owner.name}, which has {size}"
                        yield Fault("bounds", where, detail)

    def _judge(self, area: Area, accesses: Accesses, grid: Grid, order: Order) -> list[Fault]:
        """Races and reads of what was never written."""
        if not len(accesses.region):
            return []
        finder = RaceFinder(order, area, accesses)
        faults: dict[tuple[int, int, str], Fault] = {}
        raced: set[int] = set()
        for race in finder.races():
            raced.add(race.region)
            one, two = (int(accesses.line[i]) for i in (race.first, race.second))
            if (one, two, race.kind) not in faults and len(faults) < self.max_faults:
                faults[one, two, race.kind] = _race(area, accesses, race, grid, order)
        held = {name for name, owner in self.owners.items() if isinstance(owner, Buffer) and owner.holds}
        return [*faults.values(), *_unwritten(area, finder, raced, grid, held)]

    def _judge_output(self, tensor: Tensor) -> list[Fault]:
        """Stores of one instance are ordered, those of two never meet, and together they cover the tensor."""
        if self.program.place != "static" and is_tiled(
            tensor, [Stores(k.order, k.grids) for k in self.kinds], self.ops
        ):
            return []
        area = Area([Holder.of(tensor)])
        each = [
            _Instance(kind.order, grid, collect(kind.order, self.ops, area, grid))
            for kind in self.kinds
            for grid in kind.grids
        ]
        first, near = area.overlaps()
        touched, stored = np.zeros((2, len(area.boxes)), np.int64)
        for instance in each:
            touched += np.bincount(instance.accesses.region, minlength=len(area.boxes))
            stored += np.bincount(instance.stored, minlength=len(area.boxes))
        regions = np.flatnonzero(stored).tolist()
        faults: list[Fault] = []
        # The common case, told apart cheaply: each region is stored once, none is read, no two share an element.
        once = not len(near) and touched.max(initial=0) <= 1 and bool((touched == stored).all())
        if not once:
            faults += self._meetings(area, each, (first, near))
            for instance in each:
                faults += self._judge(area, instance.accesses, instance.grid, instance.order)
        if not (once and sum(area.boxes[r].elements for r in regions) == area.holders[0].tile):
            zero = np.zeros(1, np.int64)
            rank = len(tensor.shape)
            whole = int(area.number(0, zero, [zero] * rank, tensor.shape, [1] * rank)[0])
            missing = area.uncovered(whole, regions)
            if missing is not None:
                faults.append(Fault("unstored", f"tensor {tensor.name}", f"element {list(missing)} is never stored"))
        return faults

    def _meetings(self, area: Area, each: list[_Instance], rows: tuple[Array, Array]) -> Iterator[Fault]:
        """The first element stored by one instance and touched by another: nothing orders instances."""
        first, near = rows
        users: dict[int, dict[int, int]] = {}  # region -> instance -> one of its accesses
        stores: dict[int, int] = {}  # region -> instance
        for number, instance in enumerate(each):
            regions, sample = np.unique(instance.accesses.region, return_index=True)
            for region, access in zip(regions.tolist(), sample.tolist(), strict=True):
                users.setdefault(region, {})[number] = access
            stores.update(dict.fromkeys(np.unique(instance.stored).tolist(), number))
        for region, writer in stores.items():
            for other in (region, *near[first[region] : first[region + 1]].tolist()):
                for number, access in users.get(other, {}).items():
                    if number != writer:
                        one = each[writer].text(users[region][writer])
                        detail = f"touches {area.text(other)}, which {one} stores on another core; nothing orders cores"
                        yield Fault("race", each[number].text(access), detail)
                        return


@dataclass(frozen=True, slots=True)
class _Instance:
    """What one instance does to one tensor."""

    order: Order
    grid: Grid
    accesses: Accesses

    @property
    def stored(self) -> Array:
        """The regions it stores, one for each store."""
        found: Array = self.accesses.region[self.accesses.flags & WRITE > 0]
        return found

    def text(self, access: int) -> str:
        """The instruction behind one access."""
        line = self.order.lines[int(self.accesses.line[access])]
        return self.order.describe(line, int(self.accesses.execution[access]), self.grid)


def _race(area: Area, accesses: Accesses, race: Race, grid: Grid, order: Order) -> Fault:
    first, second, kind = race.first, race.second, race.kind
    lines = [order.lines[int(accesses.line[i])] for i in (first, second)]
    texts = [
        order.describe(line, int(accesses.execution[i]), grid) for line, i in zip(lines, (first, second), strict=True)
    ]
    does = {"RAW": ("writes", "reads"), "WAR": ("reads", "writes"), "WAW": ("writes", "writes")}[kind]
    regions = [area.text(int(accesses.region[i])) for i in (first, second)]
    given = [name for name, queue in order.source_of.items() if queue == lines[0].queue]
    counts = [name for name in given if order.waiter_of.get(name) == lines[1].stream]
    ignored = [name for name in given if name not in order.waiter_of]
    hint = "no semaphore goes from the one to the other"
    if counts:
        hint = f"{' and '.join(counts)} counts between them, but not enough"
    elif ignored:
        hint = f"it signals {' and '.join(ignored)}, for which nothing waits"
    return Fault(
        "race",
        texts[1],
        f"{kind}: {does[1]} {regions[1]}, but nothing says that {texts[0]}, which {does[0]} {regions[0]}, "
        f"has completed; {hint}",
    )


def _unwritten(area: Area, finder: RaceFinder, raced: set[int], grid: Grid, held: set[str]) -> Iterator[Fault]:
    accesses, count = finder.accesses, len(area.boxes)
    written, read = np.full((2, count), np.iinfo(np.int64).max)
    for flag, first in ((WRITE, written), (READ, read)):
        of = accesses.flags & flag > 0
        np.minimum.at(first, accesses.region[of], accesses.moment[of])
    seen: set[int] = set()
    for region in np.flatnonzero((read < np.iinfo(np.int64).max) & (written >= read)).tolist():
        near = finder.near[finder.first[region] : finder.first[region + 1]].tolist()
        if raced.intersection((region, *near)):
            continue  # already named; whether the write comes first is what is not known
        if area.holders[area.boxes[region].holder].name in held:
            continue
        missing = area.uncovered(region, [r for r in near if written[r] < read[region]])
        if missing is None:
            continue
        at = int(np.flatnonzero((accesses.region == region) & (accesses.moment == read[region]))[0])
        line = int(accesses.line[at])
        if line not in seen:
            seen.add(line)
            where = finder.order.describe(finder.order.lines[line], int(accesses.execution[at]), grid)
            detail = f"reads {area.text(region)}, of which element {list(missing)} was never written"
            yield Fault("uninitialised", where, detail)
