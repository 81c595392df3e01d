"""Exact jumps over steady state, so that a simulation costs what the shape of its loops costs.

At a loop's back edge the state of the machine is taken relative to now: where each stream stands, what it waits for,
the remaining time of every engine and link, every pending completion. Loop counters and semaphores are left out and
compared by rule:

* No stream may have moved in more than one loop of its nest. Then the stretch between the two visits repeats until a
  moved loop runs out of trips.
* A semaphore may have drifted if it was only taken (it repeats while enough is left) or only signalled (it repeats
  until it would free the stream that is blocked on it). Tile loops do both: each of K steps signals once, and the
  consumer of the sum waits for K.

So when a state comes again, jump over as many whole periods as all rules allow, adding time and statistics as often.
A visit is a fact about the run, and a jump lands where the run would have been: what was seen before stays true after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Engine, StreamState

MAX_VISITS = 1 << 14  # remembered states; a program that never repeats must not eat the memory

NO_LIMIT = 1 << 62

State = tuple[object, ...]
Counters = tuple[tuple[int, ...], ...]
StatisticKey = tuple[str, int, str]


@dataclass(frozen=True, slots=True)
class _Visit:
    ticks: int
    counters: Counters
    idle_since: tuple[int, ...]  # per engine, then per stream: when it fell idle, was blocked; not relative to now
    signalled: tuple[int, ...]  # units given to each semaphore so far
    taken: tuple[int, ...]
    statistics: dict[StatisticKey, int]


class SteadyState:
    """Watches the back edges of one engine and jumps."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.seen: dict[State, _Visit] = {}

    def visit(self, stream: StreamState) -> None:
        """`stream` is about to begin another trip of a loop."""
        state = self._state(stream)
        visit = self._now()
        before = self.seen.get(state)
        if before is not None:
            periods = min(self._loop_periods(before.counters, visit.counters), self._semaphore_periods(before, visit))
            if periods > 0 and self._idles_alike(before, visit):
                self._jump(before, visit, periods)
                visit = self._now()
        elif len(self.seen) >= MAX_VISITS:
            self.seen.clear()
        self.seen[state] = visit

    def _now(self) -> _Visit:
        engine = self.engine
        codes = engine.program.codes
        counters = tuple(tuple(s.counters[: codes[s.code].depth_at[s.pc]]) for s in engine.streams)
        skipped = engine.skipped_ticks
        since = [s.since if s.blocked_on >= 0 else -skipped for s in engine.streams]
        idle = tuple(ticks + skipped for ticks in (*engine.engine_free, *since))
        signalled, taken = tuple(engine.signalled), tuple(engine.taken)
        return _Visit(int(engine.env.now) + skipped, counters, idle, signalled, taken, dict(engine.statistics))

    def _state(self, stream: StreamState) -> State:
        engine = self.engine
        now = int(engine.env.now)
        return (
            stream.priority,
            tuple((s.pc, s.taken, s.blocked_on, s.resume_at - now if s.resume_at >= 0 else -1) for s in engine.streams),
            tuple(max(free - now, 0) for free in engine.engine_free),
            tuple(max(free - now, 0) for free in engine.link_free),
            tuple(tuple((done - now, id(issue)) for done, issue, _ in queue) for queue in engine.in_flight),
        )

    def _loop_periods(self, before: Counters, after: Counters) -> int:
        """How many whole periods fit before a moved loop ends; 0 where a stream moved in more than one loop."""
        engine = self.engine
        fit: int | None = None
        for stream, old, new in zip(engine.streams, before, after, strict=True):
            if old == new:
                continue
            moved = [d for d, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
            if len(moved) != 1:
                return 0
            depth = moved[0]
            trips = engine.program.codes[stream.code].open_trips[stream.pc][depth]
            step = new[depth] - old[depth]
            if step < 0:
                return 0
            periods = (trips - 1 - new[depth]) // step
            fit = periods if fit is None else min(fit, periods)
        return fit or 0

    def _semaphore_periods(self, before: _Visit, now: _Visit) -> int:
        """How many whole periods fit before a drifting semaphore would run dry or free a stream."""
        engine = self.engine
        fit = NO_LIMIT
        for i, count in enumerate(engine.semaphores):
            given, took = now.signalled[i] - before.signalled[i], now.taken[i] - before.taken[i]
            if given == took:
                continue
            if given and took:
                return 0
            if took:
                fit = min(fit, count // took)
            for stream in engine.waiting[i] if given else ():
                fit = min(fit, (engine.needed(stream) - 1 - count) // given)
        return fit

    @staticmethod
    def _idles_alike(before: _Visit, now: _Visit) -> bool:
        """Whether the stall an engine is charged at its next start repeats too: the state holds no idle times."""
        return all(
            new in (old, old + now.ticks - before.ticks)
            for old, new in zip(before.idle_since, now.idle_since, strict=True)
        )

    def _jump(self, before: _Visit, now: _Visit, periods: int) -> None:
        engine = self.engine
        for i in range(len(engine.semaphores)):
            given, took = now.signalled[i] - before.signalled[i], now.taken[i] - before.taken[i]
            engine.signalled[i] += periods * given
            engine.taken[i] += periods * took
            engine.semaphores[i] += periods * (given - took)
        jumped = periods * (now.ticks - before.ticks)
        engine.skipped_ticks += jumped
        engines = len(engine.engine_free)
        for i, (old, new) in enumerate(zip(before.idle_since, now.idle_since, strict=True)):
            if old != new:
                continue
            if i < engines:  # not used in the period: it is idle over the jump too
                engine.engine_free[i] -= jumped
            else:  # blocked in all of the period
                stream = engine.streams[i - engines]
                stream.since -= jumped
                stream.waited[:] = [(reason, begin - jumped, end - jumped) for reason, begin, end in stream.waited]
        for stream, was, here in zip(engine.streams, before.counters, now.counters, strict=True):
            for depth, (a, b) in enumerate(zip(was, here, strict=True)):
                stream.counters[depth] += periods * (b - a)
        for key, value in now.statistics.items():
            engine.statistics[key] = value + periods * (value - before.statistics.get(key, 0))
