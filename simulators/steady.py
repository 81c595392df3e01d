"""Exact jumps over steady state, so that a simulation costs what the shape of its loops costs.

At a loop's back edge the state of the machine is taken relative to now: where each stream stands, what it waits for,
the remaining time of every engine and link, every pending completion. What happens next depends on that, on semaphores
and on loop counters, and on nothing else. When a state comes again, the stretch in between is a *period*. It repeats

* until a loop in which a stream moved runs out of trips. Every stream may have moved in one loop of its nest only, and
  the loops inside that one must stand where they stood;
* as long as semaphores allow: one that was both taken and signalled must have the count it had; one that was only taken
  must have enough left; one that was only signalled must not free a stream that is blocked on it. (Tile loops do all
  three: K steps signal once each, and the consumer of their sum waits for K.)

So jump over as many whole periods as fit, adding time and counts as often. A period is a fact about the machine: it
holds again whenever its state comes back, in the next trip of an outer loop too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .compiled import NO_LIMIT, PARKED
from .legality import MAX_COUNT

if TYPE_CHECKING:
    from .engine import Engine, StreamState

FEWEST_EXECUTED = 16  # instructions of all its trips: to look costs as much as to step through a few
FEWEST_TRIPS = 4  # of a loop that is worth looking at
MAX_STATES = 1 << 14  # remembered; a program that never repeats must not eat the memory
PATIENCE = 64  # back edges of other streams before theirs are looked at

State = tuple[int, ...]
Waited = tuple[tuple[str, int, int], ...]  # what was waited for, from, to: in ticks
History = tuple[int, Waited]  # since when something is idle, and what was waited for before
StallKey = tuple[int, str]


@dataclass(slots=True)
class _Visit:
    """The run so far, when a state was seen. Ticks are of the engine's clock: `skipped` comes on top.

    Not frozen, and what is compared is worked out later: most states never come again.
    """

    now: int
    skipped: int
    counters: list[tuple[int, ...]]  # of each stream, those of closed loops too
    idle_since: list[History]  # per engine, then per stream
    signalled: tuple[int, ...]  # units given to each semaphore so far
    taken: tuple[int, ...]
    issued: tuple[int, ...]
    stalls: dict[StallKey, int]
    left: int  # instances that are not handed out yet


@dataclass(frozen=True, slots=True)
class _Move:
    """A stream went `step` trips on in the loop at `depth`; the loops inside stood at `inner`."""

    stream: int
    pc: int
    depth: int
    trips: int
    step: int
    inner: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Period:
    """What happens between two visits of a state."""

    ticks: int
    moves: tuple[_Move, ...]
    semaphores: tuple[tuple[int, int, int, int], ...]  # (semaphore, given, taken, count) of those that were touched
    idle: tuple[tuple[int, History], ...]  # (engine or stream, history relative to now) of those not idle throughout
    unused: tuple[int, ...]  # engines and streams that were
    issued: tuple[tuple[int, int], ...]
    stalls: tuple[tuple[StallKey, int], ...]
    handed: int  # instances


@dataclass(frozen=True, slots=True)
class Jump:
    """A jump over `times` periods; `by_trips`: it was the trips of its loops that ended it."""

    period: _Period
    times: int
    by_trips: bool


class SteadyState:
    """Watches the back edges of one engine and jumps."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.states: dict[State, int] = {}  # numbered as they come
        self.seen: dict[tuple[int, int, tuple[int, ...]], _Visit] = {}  # by state, loop, counters of the other loops
        self.periods: dict[int, dict[int, _Period]] = {}  # by state, then by the loop of the leader that moves
        self.leader = self._leader()
        self.first: Jump | None = None
        self.others = 0  # back edges of other streams since the leader's last

    def visit(self, stream: StreamState) -> None:
        """`stream` is about to begin another trip of a loop that is worth looking at.

        One stream is looked at, the one with the most to do; a steady state shows at its back edges as at any other's.
        Where the others take many without it, theirs are looked at too.
        """
        if stream is not self.leader:
            self.others += 1
            if self.others < PATIENCE:
                return
            self.leader = self._leader()
        self.others = 0
        if len(self.states) >= MAX_STATES:
            self.states.clear()
            self.seen.clear()
            self.periods.clear()
        state = self.states.setdefault(self._state(stream), len(self.states))
        counters = tuple(stream.counters[: stream.text.depth_at[stream.pc]])
        known = self.periods.setdefault(state, {})
        if not known or counters[-1] == 1:
            self._learn(state, counters, known)
        for depth in sorted(known):
            if self._alike(known[depth]) and self._jump(known[depth]):
                return

    def _learn(self, state: int, counters: tuple[int, ...], known: dict[int, _Period]) -> None:
        """Compare with the visits of this state from which only one loop of the leader has moved."""
        now = self._now()
        for depth in range(len(counters)):
            key = (state, depth, counters[:depth] + counters[depth + 1 :])
            before = self.seen.get(key)
            if before is not None and depth not in known:
                period = self._period(before, now)
                if period is not None:
                    known[depth] = period
            self.seen[key] = now

    def _leader(self) -> StreamState:
        """The unfinished stream that issues most."""
        unfinished = [s for s in self.engine.streams if self.engine.unfinished(s)]
        return max(unfinished or self.engine.streams, key=lambda s: s.text.executed)

    def _state(self, stream: StreamState) -> State:
        """All that decides the future beside semaphores and counters, as one flat tuple; times relative to now."""
        engine = self.engine
        now = engine.now
        state = [stream.priority]
        for s in engine.streams:
            on = 4 * s.blocked_on
            if s.wake.triggered:  # it is woken, and will look again within this tick
                on += 1
            state += (s.pc, s.taken, on, s.resume_at - now if s.resume_at >= 0 else -1)
        if len(engine.program.kinds) > 1:
            state += [engine.program.kind(s.instance) for s in engine.streams]
        if engine.dispatcher is not None:
            state.append(len(engine.dispatcher.free))
        state += [free - now if free > now else 0 for free in engine.engine_free]
        state += [free - now if free > now else 0 for free in engine.link_free]
        for queue in engine.in_flight:
            state.append(len(queue))
            for done, issue, owner, _ in queue:
                state += (done - now, issue.number, owner.slot)
        for line in engine.lines:
            state.append(len(line))
            state += [s.priority for s in line]
        return tuple(state)

    def _now(self) -> _Visit:
        engine = self.engine
        return _Visit(
            engine.now,
            engine.skipped_ticks,
            [tuple(s.counters) for s in engine.streams],
            [self._idle_since(i) for i in range(len(engine.engine_free) + len(engine.streams))],
            tuple(engine.signalled),
            tuple(engine.taken),
            tuple(engine.issued),
            dict(engine.stalls),
            engine.dispatcher.left if engine.dispatcher is not None else 0,
        )

    def _idle_since(self, i: int) -> History:
        """When an engine falls idle; or, of a stream that waits, since when, and what it waited for before."""
        engine = self.engine
        engines = len(engine.engine_free)
        if i < engines:
            return engine.engine_free[i], ()
        stream = engine.streams[i - engines]
        waited = tuple(stream.waited)
        if stream.blocked_on >= 0 or stream.blocked_on == PARKED:
            return stream.since, waited
        return (waited[0][1], waited) if waited else (0, _RUNNING)

    def _moves(self, before: _Visit, now: _Visit) -> tuple[_Move, ...] | None:
        """How far each stream went between two visits of a state; None where one moved in more than one loop."""
        engine = self.engine
        moves = []
        for i, (old, new) in enumerate(zip(before.counters, now.counters, strict=True)):
            if old == new:
                continue
            stream = engine.streams[i]
            trips = stream.text.open_trips[stream.pc]
            moved = [d for d in range(len(trips)) if old[d] != new[d]]
            if not moved:  # closed loops only
                continue
            depth = moved[0]
            if len(moved) != 1 or new[depth] < old[depth]:
                return None
            if trips[depth] == NO_LIMIT and len(engine.program.kinds) > 1:  # the next instance may be of another kind
                return None
            inner = new[depth + 1 : len(trips)]
            moves.append(_Move(i, stream.pc, depth, trips[depth], new[depth] - old[depth], inner))
        return tuple(moves)

    def _period(self, before: _Visit, now: _Visit) -> _Period | None:
        """The stretch between two visits of a state, if it is one that repeats."""
        moves = self._moves(before, now)
        if moves is None:
            return None
        touched = []
        for i, count in enumerate(self.engine.semaphores):
            given, took = now.signalled[i] - before.signalled[i], now.taken[i] - before.taken[i]
            if given and took and given != took:
                return None
            if given or took:
                touched.append((i, given, took, count))
        skipped = now.skipped - before.skipped
        here = now.now - before.now  # of the period, on the engine's clock
        idle, unused = [], []
        for i, (old, new) in enumerate(zip(before.idle_since, now.idle_since, strict=True)):
            if new == _later(old, -skipped):
                unused.append(i)
            elif new == _later(old, here):
                idle.append((i, _later(new, -now.now)))
            else:  # the next visit will have idle times as they are in steady state
                return None
        stalls = ((key, t - before.stalls.get(key, 0)) for key, t in now.stalls.items())
        issued = ((n, new - old) for n, (old, new) in enumerate(zip(before.issued, now.issued, strict=True)))
        return _Period(
            here + skipped,
            moves,
            tuple(touched),
            tuple(idle),
            tuple(unused),
            tuple((n, times) for n, times in issued if times),
            tuple((key, t) for key, t in stalls if t),
            before.left - now.left,
        )

    def _alike(self, period: _Period) -> bool:
        """Whether all that the state does not hold is as the period needs it."""
        engine = self.engine
        counters = [engine.streams[m.stream].counters for m in period.moves]
        if any(
            tuple(c[m.depth + 1 : m.depth + 1 + len(m.inner)]) != m.inner
            for m, c in zip(period.moves, counters, strict=True)
        ):
            return False
        if any(given and took and engine.semaphores[i] != count for i, given, took, count in period.semaphores):
            return False
        return all(_later(self._idle_since(i), -engine.now) == idle for i, idle in period.idle)

    def _fit_trips(self, period: _Period) -> int:
        """How many whole periods the loops have trips for."""
        engine = self.engine
        fit = NO_LIMIT
        for move in period.moves:
            stream = engine.streams[move.stream]
            if move.trips == NO_LIMIT and engine.dispatcher is None:
                fit = min(fit, engine.instances_left(stream) // move.step)
            elif move.trips != NO_LIMIT:
                fit = min(fit, (move.trips - 1 - stream.counters[move.depth]) // move.step)
        return fit

    def _fit(self, period: _Period) -> int:
        """How many whole periods fit from here."""
        engine = self.engine
        fit = self._fit_trips(period)
        if period.handed:
            assert engine.dispatcher is not None
            fit = min(fit, engine.dispatcher.left // period.handed)
        for i, given, took, _ in period.semaphores:
            if given and took:
                continue
            count = engine.semaphores[i]
            fit = min(fit, count // took if took else (MAX_COUNT - count) // given)
            # Not `waiting`: a stream may be woken, and look later in this tick.
            for stream in engine.streams if given else ():
                if stream.blocked_on == i:
                    fit = min(fit, (engine.needed(stream) - 1 - count) // given)
        return fit

    def _jump(self, period: _Period) -> bool:
        """Go on by as many whole periods as fit; False where none does."""
        engine, times = self.engine, self._fit(period)
        if times <= 0:
            return False
        jumped = times * period.ticks
        if self.first is None:
            self.first = Jump(period, times, times == self._fit_trips(period))
        engine.skipped_ticks += jumped
        for move in period.moves:
            stream = engine.streams[move.stream]
            stream.counters[move.depth] += times * move.step
            if move.trips == NO_LIMIT:
                stream.instance += times * move.step * engine.program.cores
        if engine.dispatcher is not None:
            engine.dispatcher.left -= times * period.handed
        for i, given, took, _ in period.semaphores:
            engine.signalled[i] += times * given
            engine.taken[i] += times * took
            engine.semaphores[i] += times * (given - took)
        for number, count in period.issued:
            engine.issued[number] += times * count
        for key, ticks in period.stalls:
            engine.stalls[key] = engine.stalls.get(key, 0) + times * ticks
        self._age(period.unused, jumped)
        return True

    def _age(self, unused: tuple[int, ...], jumped: int) -> None:
        """What was idle in all of the period was idle over the jump too: env.now stood still, so it began earlier."""
        engine = self.engine
        engines = len(engine.engine_free)
        for i in unused:
            if i < engines:
                engine.engine_free[i] -= jumped
                continue
            stream = engine.streams[i - engines]
            if stream.blocked_on >= 0 or stream.blocked_on == PARKED:
                stream.since -= jumped
            if stream.waited:
                stream.waited = [(reason, begin - jumped, end - jumped) for reason, begin, end in stream.waited]


_RUNNING: Waited = (("nothing", 0, 0),)  # of a stream that waits for nothing


def _later(history: History, ticks: int) -> History:
    """`history` moved by `ticks`."""
    since, waited = history
    if not waited:
        return since + ticks, waited
    if waited is _RUNNING:
        return history
    return since + ticks, tuple([(reason, begin + ticks, end + ticks) for reason, begin, end in waited])
