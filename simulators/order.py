"""What must happen before what, for all timings at once.

Order comes from three things: a stream starts its instructions in the order of its text, the instructions of one stream
on one engine complete in order, and a wait is taken only after the signal that makes its count full. A *queue* is one
stream on one engine. Since a queue completes in order, all that is known to be complete is one number per queue: the
*clock*. A clock changes only where a stream waits; the stretch up to its next wait is a *segment*.

A semaphore has one queue that signals it and one stream that waits for it, so which signal fills which wait is fixed by
counting, whatever the timing. Nothing here is run on data or on time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .deadlock import NEVER, Waits, explain
from .faults import Fault
from .legality import MAX_COUNT
from .lines import Array, Line, counted, describe, read_lines
from .machine import Machine
from .program import Program

MAX_CLOCKS = 200_000_000  # entries of all clocks
MAX_STEPS = 1_500_000_000  # entries that news of completions passes through on its way


@dataclass(slots=True, eq=False)
class _Link:
    """The waits of one stream on one semaphore: the segments they open, and the signals that fill them."""

    source: int
    queue: int
    index: Array
    segment: Array
    source_segment: Array


@dataclass(slots=True, eq=False)
class _Counts:
    """The lines that signal a semaphore and that wait for it, each with its count."""

    signals: list[tuple[Line, int]]
    waits: list[tuple[Line, int]]


class Order:
    """The order of one instance of a program.

    `faults` says what is wrong with semaphores (`semaphore-shared`, `deadlock`, `leftover`, `overflow`); after the
    first two there is no order. `clock[queue, segment]` is known complete before any start of the segment.
    Raises OverflowError, with why, where so many streams wait so often that it would take too long or too much memory.
    """

    def __init__(self, program: Program, machine: Machine) -> None:
        self.program = program
        self.lines, self.lengths, self.queues = read_lines(program, machine)
        self.faults: list[Fault] = []
        self.source_of: dict[str, int] = {}  # semaphore -> queue that signals it
        self.waiter_of: dict[str, int] = {}  # semaphore -> stream that waits for it
        waits = self._match()
        self.ordered = not self.faults
        if self.ordered:
            self._leftover()
            self._clocks(waits)
        if self.ordered:
            self._overflow()

    def describe(self, line: Line, execution: int | None = None, grid: dict[str, int] | None = None) -> str:
        """`stream loadx: load xb{m}, ... (m=3)`."""
        return describe(self.program, line, execution, grid)

    def moments(self, line: Line) -> tuple[Array, Array]:
        """(position in one order that all others agree with, segment) of each execution of a line."""
        first = self.first_segment[line.stream]
        local = np.searchsorted(self.bounds[line.stream], line.place, "right") - 1
        return self.position[first + local] + line.place - self.bounds[line.stream][local], first + local

    def find(self, queue: int, index: int) -> tuple[Line, int]:
        """The line and execution that is number `index` of `queue`."""
        for line in self.lines:
            if line.queue == queue:
                at = int(np.searchsorted(line.index, index))
                if at < len(line.index) and line.index[at] == index:
                    return line, at
        raise LookupError((queue, index))

    def _match(self) -> list[Waits]:
        """Finds for each wait the signal that makes its count full."""
        columns: list[list[tuple[Array, ...]]] = [[] for _ in self.lengths]
        self.counts = {s.name: _Counts([], []) for s in self.program.semaphores}
        for line in self.lines:
            for c in line.instruction.signals:
                self.counts[c.semaphore].signals.append((line, c.n))
            for c in line.instruction.waits:
                self.counts[c.semaphore].waits.append((line, c.n))
        for number, semaphore in enumerate(self.program.semaphores):
            name = semaphore.name
            signals, waits = self.counts[name].signals, self.counts[name].waits
            if self._shared(name, {x.queue for x, _ in signals}, {x.stream for x, _ in waits}):
                continue
            given_place, given_index, given = counted(signals)
            place, _, need = counted(waits)
            need = need - semaphore.initial
            keep = need > 0
            place, need = place[keep], need[keep]
            if not len(place):
                continue
            filled = np.searchsorted(given, need, "left")
            known = filled < len(given)
            at = np.minimum(filled, max(len(given) - 1, 0))
            stream, queue = waits[0][0].stream, signals[0][0].queue if signals else 0
            source = signals[0][0].stream if signals else stream
            never = np.full(len(place), NEVER)
            same = np.ones(len(place), np.int64)
            columns[stream].append(
                (
                    place,
                    same * source,
                    np.where(known, given_place[at], never) if signals else never,
                    same * queue,
                    given_index[at] if signals else same,
                    same * number,
                    need,
                )
            )
        return [_merge(parts) for parts in columns]

    def _shared(self, name: str, sources: set[int], waiters: set[int]) -> bool:
        names = [self.program.streams[s].name for s in sorted(waiters)]
        givers = [f"{self.program.streams[s].name} on {e}" for s, e in (self.queues[q] for q in sorted(sources))]
        if len(sources) > 1:
            detail = f"signalled by {' and '.join(givers)}: they run in no order, so a count does not say who gave it"
            self.faults.append(Fault("semaphore-shared", f"semaphore {name}", detail))
        if len(waiters) > 1:
            detail = f"waited for by streams {' and '.join(names)}: either could take what is meant for the other"
            self.faults.append(Fault("semaphore-shared", f"semaphore {name}", detail))
        self.source_of.update(dict.fromkeys([name] if sources else [], min(sources, default=0)))
        self.waiter_of.update(dict.fromkeys([name] if waiters else [], min(waiters, default=0)))
        return len(sources) > 1 or len(waiters) > 1

    def _leftover(self) -> None:
        if self.program.place == "dispatch":  # each instance finds its semaphores as they are at first
            return
        for semaphore in self.program.semaphores:
            of = self.counts[semaphore.name]
            change = sum(n * len(line.place) for line, n in of.signals) - sum(
                n * len(line.place) for line, n in of.waits
            )
            if change:
                end = semaphore.initial + change
                detail = f"starts at {semaphore.initial} and ends at {end}; it must end as it starts"
                self.faults.append(Fault("leftover", f"semaphore {semaphore.name}", detail))

    def _overflow(self) -> None:
        """A count is highest where all is given that can be, and of the waits only those are taken that must have been:
        those of the waiter up to the last of its instructions that is known complete when the signalling one starts.
        """
        for semaphore in self.program.semaphores:
            of = self.counts[semaphore.name]
            place, _, given = counted(of.signals)
            if not len(given) or semaphore.initial + int(given[-1]) <= MAX_COUNT:
                continue
            source = of.signals[0][0].stream
            segment = self.first_segment[source] + np.searchsorted(self.bounds[source], place, "right") - 1
            taken = np.zeros_like(given)
            if of.waits:
                waiter = of.waits[0][0].stream
                reached = place if waiter == source else np.full_like(place, -1)
                for queue, (stream, _) in enumerate(self.queues):
                    if stream == waiter:
                        places = np.sort(np.concatenate([x.place for x in self.lines if x.queue == queue]))
                        known = self.clock[queue][segment]
                        reached = np.maximum(reached, np.where(known > 0, places[known - 1], -1))
                wait_place, _, need = counted(of.waits)
                taken = np.append(0, need)[np.searchsorted(wait_place, reached, "right")]
            most = semaphore.initial + int((given - taken).max())
            if most > MAX_COUNT:
                detail = f"can grow to {most:,} where its signals are early; the most it can hold is {MAX_COUNT:,}"
                self.faults.append(Fault("overflow", f"semaphore {semaphore.name}", detail))

    def _clocks(self, waits: list[Waits]) -> None:
        """Fills `clock` and `position`, or reports a deadlock.

        News of a completion travels from stream to stream by signals and stays where it has come. The shortest way for
        it visits no stream twice, so as many rounds as there are streams suffice, unless streams wait in a circle.
        """
        self.bounds = [np.concatenate([np.zeros(1, np.int64), _distinct(w.place)]) for w in waits]
        self.first_segment = np.cumsum([0] + [len(b) for b in self.bounds])
        self._check_clocks()
        clocks = [np.zeros((len(b), len(self.queues)), np.int32) for b in self.bounds]
        links = [self._links(w) for w in waits]
        for clock, of in zip(clocks, links, strict=True):
            for link in of:
                clock[link.segment, link.queue] = np.maximum(clock[link.segment, link.queue], link.index)
            np.maximum.accumulate(clock, axis=0, out=clock)
        calm = False
        steps = sum(len(link.segment) for of in links for link in of) * len(self.queues)
        for number in range(len(clocks) + 1):
            if number * steps > MAX_STEPS:
                raise OverflowError("news of completions takes too many ways between its streams to be judged")
            calm = True
            for clock, of in zip(clocks, links, strict=True):
                before = clock.copy()
                for link in of:
                    clock[link.segment] = np.maximum(clock[link.segment], clocks[link.source][link.source_segment])
                np.maximum.accumulate(clock, axis=0, out=clock)
                calm = calm and np.array_equal(before, clock)
            if calm:
                break
        if not calm or any((w.source_place == NEVER).any() for w in waits) or self._circular(clocks):
            self.ordered = False
            self.faults.append(explain(self.program, self.lines, self.lengths, waits))
            return
        self.clock = np.ascontiguousarray(np.concatenate(clocks).T)
        self._positions()

    def _check_clocks(self) -> None:
        total = int(self.first_segment[-1]) * len(self.queues)
        if total > MAX_CLOCKS:
            raise OverflowError(
                f"{len(self.queues):,} streams on engines and {int(self.first_segment[-1]):,} waits make {total:,} "
                f"pairs; at most {MAX_CLOCKS:,} can be judged"
            )

    def _links(self, waits: Waits) -> list[_Link]:
        found = []
        for semaphore in np.unique(waits.semaphore):
            of = waits.semaphore == semaphore
            source, queue = int(waits.source[of][0]), int(waits.queue[of][0])
            segment = (
                np.searchsorted(
                    self.bounds[int(self.waiter_of[self.program.semaphores[semaphore].name])], waits.place[of], "right"
                )
                - 1
            )
            source_segment = np.searchsorted(self.bounds[source], waits.source_place[of], "right") - 1
            found.append(_Link(source, queue, waits.index[of], segment, source_segment))
        return found

    def _circular(self, clocks: list[Array]) -> bool:
        """Whether some start comes after a completion of its own stream that it comes before."""
        of_queue: list[list[Array]] = [[] for _ in self.queues]
        for line in self.lines:
            of_queue[line.queue].append(line.place)
        for queue, (stream, _) in enumerate(self.queues):
            places = np.sort(np.concatenate(of_queue[queue]))
            if (clocks[stream][:, queue] > np.searchsorted(places, self.bounds[stream], "left")).any():
                return True
        return False

    def _positions(self) -> None:
        """Puts all segments in one order: by how much is known to be complete, which grows along every wait."""
        ends = [np.append(b[1:], n) for b, n in zip(self.bounds, self.lengths, strict=True)]
        sizes = np.concatenate([e - b for e, b in zip(ends, self.bounds, strict=True)])
        ranking = np.argsort(self.clock.sum(axis=0, dtype=np.int64), kind="stable")
        self.position = np.empty(len(sizes), np.int64)
        self.position[ranking] = np.cumsum(sizes[ranking]) - sizes[ranking]


def _merge(parts: list[tuple[Array, ...]]) -> Waits:
    if not parts:
        return Waits(*(np.zeros(0, np.int64) for _ in range(7)))
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.argsort(joined[0], kind="stable")
    return Waits(*(column[order] for column in joined))


def _distinct(ascending: Array) -> Array:
    """Each value once; `np.unique` would not see that they are sorted."""
    new = np.ones(len(ascending), bool)
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    return ascending[new]
