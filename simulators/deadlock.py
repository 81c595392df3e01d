"""Explains deadlocks: runs the streams of one instance against each other, without time, until none can go on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import ModelError
from .faults import Fault
from .lines import Array, Line, counted, describe
from .program import Program

NEVER = 1 << 62
Clock = list[int]
Table = tuple[list[int], ...]


@dataclass(slots=True, eq=False)
class Waits:
    """The waits of one stream, in order, each with the signal that fills it. `source` is a stream."""

    place: Array
    source: Array
    source_place: Array
    queue: Array
    index: Array
    semaphore: Array
    need: Array  # how many units must have been given in all


def explain(program: Program, lines: list[Line], lengths: list[int], waits: list[Waits]) -> Fault:
    """Who waits on what, and which signal would free it. `lengths` are instructions per stream."""
    cursor = advance(tables(waits, lengths), 0)[1]
    stops = [int(np.append(w.place, n)[i]) for w, i, n in zip(waits, cursor, lengths, strict=True)]
    parts, where = [], ""
    for stream, (wait, i) in enumerate(zip(waits, cursor, strict=True)):
        if i == len(wait.place):
            continue
        blocked = describe(program, *_at(lines, stream, stops[stream]))
        where = where or blocked
        name = program.semaphores[int(wait.semaphore[i])].name
        source = int(wait.source[i])
        signals = [(x, c.n) for x in lines for c in x.instruction.signals if c.semaphore == name]
        place, _, given = counted(signals)
        before = int(np.searchsorted(place, stops[source]))
        have = int(given[before - 1]) if before else 0
        text = f"{blocked} waits for {name}, of which it lacks {int(wait.need[i]) - have}"
        if wait.source_place[i] == NEVER:
            parts.append(f"{text}; no signal is left that could free it")
        else:
            giver = describe(program, *_at(lines, source, int(wait.source_place[i])))
            parts.append(f"{text}; the signal of {giver} would free it, but is not reached")
    if not parts:
        raise ModelError(f"{program.name}: streams wait in a circle, yet none is stuck")
    return Fault("deadlock", where, "; ".join(parts))


def _at(lines: list[Line], stream: int, place: int) -> tuple[Line, int]:
    for line in lines:
        if line.stream == stream:
            at = int(np.searchsorted(line.place, place))
            if at < len(line.place) and line.place[at] == place:
                return line, at
    raise LookupError((stream, place))


def tables(waits: list[Waits], lengths: list[int]) -> list[Table]:
    """The waits as plain lists, which are quicker one by one."""
    bounds = [np.concatenate([np.zeros(1, np.int64), np.unique(w.place)]) for w in waits]
    found = []
    for wait, length in zip(waits, lengths, strict=True):
        segment = np.zeros(len(wait.place), np.int64)
        for source in np.unique(wait.source):
            of = wait.source == source
            segment[of] = np.searchsorted(bounds[source], wait.source_place[of], "right") - 1
        columns = (wait.source, wait.source_place, segment, wait.queue, wait.index, np.append(wait.place, length))
        found.append(tuple(column.tolist() for column in columns))
    return found


def advance(tables: list[Table], queues: int) -> tuple[list[list[Clock]], list[int]]:
    """Lets each stream run until it blocks, over and over.

    Returns the clocks of the segments of each stream (if there are `queues`; `order.py` says what they are, and has
    them without running) and how many waits each stream took.
    """
    now: list[Clock] = [[0] * queues for _ in tables]
    clocks = [[clock] for clock in now]
    progress = [table[5][0] for table in tables]  # the first place a stream has not reached
    cursor, moved = [0] * len(tables), True
    while moved:
        moved = False
        for s, (source, source_place, segment, queue, index, place) in enumerate(tables):
            i, count = cursor[s], len(source)
            if i == count or source_place[i] >= progress[source[i]]:
                continue
            moved, clock, log = True, now[s], clocks[s]
            while i < count and source_place[i] < progress[source[i]]:
                if queues and clock[queue[i]] < index[i]:
                    # A completion brings all that was known when it started, and itself.
                    clock = list(map(max, clock, clocks[source[i]][segment[i]]))
                    clock[queue[i]] = index[i]
                i += 1
                if place[i] != place[i - 1]:
                    log.append(clock)
                    progress[s] = place[i]
            cursor[s], now[s] = i, clock
    return clocks, cursor
