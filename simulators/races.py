"""Finds accesses to shared bytes that nothing orders.

For each access b and each other queue it is enough to look at the last access a of that queue before b in *one* order
that all timings agree with: a queue completes in order, so if a is known complete when b starts, all before a are too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .accesses import READ, WRITE, Accesses
from .lines import Array
from .order import Order
from .regions import Area

MAX_ENTRIES = 120_000_000
LOOKED_AT = 64  # unordered accesses looked at closely, per pair of queues


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses that nothing orders, as numbers of accesses. `first` should have been first."""

    kind: str  # RAW, WAR, WAW
    first: int
    second: int
    region: int


class RaceFinder:
    """The accesses to one memory, sorted by the bytes they touch and then by moment."""

    def __init__(self, order: Order, area: Area, accesses: Accesses) -> None:
        self.order, self.accesses = order, accesses
        self.first, self.near = area.overlaps()
        a = accesses
        count = len(area.boxes)
        self.written = np.zeros(count, bool)
        self.written[a.region[a.flags & WRITE > 0]] = True
        source, target = self._entries(count)
        sorting = _sorted_by(target, a.moment[source], count)
        self.source, self.target = source[sorting], target[sorting]
        self.own = a.region[self.source] == self.target

    def _entries(self, count: int) -> tuple[Array, Array]:
        """(access, region it touches): its own region, and every other one that shares bytes and is in question."""
        a = self.accesses
        every = np.arange(len(a.region))
        sources, targets = [every], [a.region]
        owner = np.repeat(np.arange(count), np.diff(self.first))
        for wanted, keep in (
            (a.flags & WRITE > 0, np.ones(len(self.near), bool)),
            (a.flags & WRITE == 0, self.written[self.near]),
        ):
            near = self.near[keep]
            first = np.zeros(count + 1, np.int64)
            np.cumsum(np.bincount(owner[keep], minlength=count), out=first[1:])
            chosen = every[wanted]
            times = np.diff(first)[a.region[chosen]]
            if times.sum() > MAX_ENTRIES:
                raise OverflowError
            at = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
            sources.append(np.repeat(chosen, times))
            targets.append(near[at + np.repeat(first[a.region[chosen]], times)])
        return np.concatenate(sources), np.concatenate(targets)

    def races(self) -> Iterator[Race]:
        """Races, at least one for each line that is in one."""
        a, source = self.accesses, self.source
        queue, index, flags = a.queue[source], a.index[source], a.flags[source]
        change = np.ones(len(source), bool)
        change[1:] = self.target[1:] != self.target[:-1]
        base = np.cumsum(change) * (int(index.max(initial=0)) + 1)
        for q in np.unique(queue):
            by_q = queue == q
            others = np.flatnonzero(self.own & ~by_q)
            known = self.order.clock[q][a.segment[source[others]]]
            for access in (WRITE, READ):
                done = by_q & (flags & access > 0)
                if not done.any():
                    continue
                last = np.maximum.accumulate(base + np.where(done, index, 0))[others] - base[others]
                bad = last > known
                if access == READ:
                    bad &= flags[others] & WRITE > 0
                if bad.any():
                    yield from self._explain(others[bad], known[bad], done, access)

    def _explain(self, bad: Array, known: Array, done: Array, access: int) -> Iterator[Race]:
        """For each entry in `bad`: the earliest entry in `done` that it is not ordered behind."""
        moments = self.accesses.moment[self.source[bad]]
        by_moment = np.argsort(moments, kind="stable")
        lines = self.accesses.line[self.source[bad[by_moment]]]
        chosen = set(np.unique(lines, return_index=True)[1].tolist()) | set(range(min(LOOKED_AT, len(bad))))
        for i in by_moment[sorted(chosen)]:
            entry = int(bad[i])
            begin = int(np.searchsorted(self.target, self.target[entry], "left"))
            candidates = begin + np.flatnonzero(done[begin:entry])
            late = candidates[self.accesses.index[self.source[candidates]] > known[i]]
            yield self._race(int(late[0]), entry, access)

    def _race(self, one: int, other: int, access: int) -> Race:
        a, target = self.accesses, int(self.target[other])
        first, second = int(self.source[one]), int(self.source[other])
        if access == WRITE and not a.flags[second] & READ:
            return Race("WAW", first, second, target)
        writer, reader = (first, second) if access == WRITE else (second, first)
        if self._round(writer, reader, target):
            return Race("RAW", writer, reader, target)
        return Race("WAR", reader, writer, target)

    def _round(self, writer: int, reader: int, target: int) -> bool:
        """Whether the read is meant to see the write: it is in the same round of use of these bytes, or in a later one.

        Without order between them, only counting says so: of W writes and R reads, write w and read r belong together
        where w / W and r / R fall into the same of gcd(W, R) rounds.
        """
        a = self.accesses
        begin, end = np.searchsorted(self.target, [target, target + 1], "left")
        group = self.source[begin:end]
        writes = np.sort(a.index[group[(a.queue[group] == a.queue[writer]) & (a.flags[group] & WRITE > 0)]])
        reads = np.sort(a.index[group[(a.queue[group] == a.queue[reader]) & (a.flags[group] & READ > 0)]])
        rounds = int(np.gcd(len(writes), len(reads)))
        write = int(np.searchsorted(writes, a.index[writer])) * rounds // len(writes)
        read = int(np.searchsorted(reads, a.index[reader])) * rounds // len(reads)
        return read >= write


def _sorted_by(target: Array, moment: Array, count: int) -> Array:
    """The order by `target`, of which there are `count`, then by `moment`.

    Moments come in ascending runs, one per line, which a stable sort merges; few targets fit into 16 bits, which it
    counts.
    """
    by_moment = np.argsort(moment, kind="stable")
    narrow = np.uint16 if count <= 1 << 16 else np.int64
    return by_moment[np.argsort(target[by_moment].astype(narrow), kind="stable")]
