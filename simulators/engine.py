"""The SimPy engine: streams, engines, semaphores and links of all cores of one machine.

Each stream is a SimPy process; each completion is a SimPy event. Events of one tick are ordered by priority alone
(completions by engine, then streams by core and text), never by when they were scheduled, so the state of the machine
relative to now says all about its future. That is what makes the jumps of `steady.py` exact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Protocol

import simpy

from .compiled import BACK, ENTER, CompiledProgram, Issue
from .errors import Undefined
from .steady import SteadyState


class Observer(Protocol):
    """What may watch a simulation: functional memory, a timeline. Times are in ticks."""

    def start(self, core: int, stream: int, issue: Issue, counters: list[int], now: int) -> object:
        """An instruction starts: operands are read now. What is returned is given back to `complete`."""

    def complete(self, core: int, issue: Issue, started: object) -> None:
        """It completes: results are written now, before its signals are seen."""


class _At(simpy.Event):
    """An event that fires after `delay` ticks, ordered within its tick by `priority`."""

    def __init__(self, env: simpy.Environment, delay: int, priority: int) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        env.schedule(self, priority=priority, delay=delay)  # type: ignore[arg-type]  # priority is any int at run time


class StreamState:
    """Where one stream of one core is."""

    __slots__ = ("blocked_on", "code", "core", "counters", "pc", "priority", "resume_at", "since", "taken", "waited", "wake")

    def __init__(self, core: int, code: int, depth: int, priority: int) -> None:
        self.core, self.code, self.priority = core, code, priority
        self.pc = 0
        self.counters = [0] * depth
        self.taken = 0  # waits of the current instruction already taken
        self.blocked_on = -1  # global semaphore id
        self.since = 0  # tick at which it was blocked, while it is
        self.waited: list[tuple[str, int, int]] = []  # waits of the current instruction: (for what, from, to)
        self.resume_at = -1  # tick at which it goes on, if it sleeps
        self.wake: simpy.Event | None = None


class Engine:
    """One simulation. `run()` returns the ticks until the last engine has drained."""

    def __init__(
        self,
        program: CompiledProgram,
        *,
        skip: bool,
        observers: tuple[Observer, ...] = (),
        max_instructions: int = 50_000_000,
    ) -> None:
        self.program, self.observers, self.max_instructions = program, observers, max_instructions
        self.env = simpy.Environment()
        cores, engines = program.cores, len(program.engine_names)
        self.semaphores = list(program.initial) * cores
        self.signalled = [0] * len(self.semaphores)
        self.taken = [0] * len(self.semaphores)
        self.waiting: list[list[StreamState]] = [[] for _ in self.semaphores]
        self.engine_free = [0] * (cores * engines)
        self.in_flight: list[deque[tuple[int, Issue, object]]] = [deque() for _ in self.engine_free]
        self.link_free = [0] * len(program.memories)
        first = cores * engines
        self.streams = [
            StreamState(core, i, code.depth, first + core * len(program.codes) + i)
            for core in range(cores)
            for i, code in enumerate(program.codes)
        ]
        self.skipped_ticks = 0  # time jumped over, on top of env.now
        self.executed = 0
        self.statistics: dict[tuple[str, int, str], int] = {}  # (what, engine or -1, key) -> ticks, bytes, counts
        self.steady = SteadyState(self) if skip else None

    def run(self) -> int:
        """Simulate to the end. Raises Undefined for a deadlock or more than `max_instructions` executed."""
        for stream in self.streams:
            self.env.process(self._run(stream))
        self.env.run()
        if any(s.pc < len(self.program.codes[s.code].steps) for s in self.streams):
            raise self._deadlock()
        return int(self.env.now) + self.skipped_ticks

    def needed(self, stream: StreamState) -> int:
        """Units the semaphore must reach before the blocked `stream` goes on."""
        issue = self.program.codes[stream.code].steps[stream.pc]
        assert isinstance(issue, Issue)
        return issue.waits[stream.taken][1]

    def count(self, what: str, engine: int, key: str, amount: int) -> None:
        """Add to a statistic."""
        index = (what, engine, key)
        self.statistics[index] = self.statistics.get(index, 0) + amount

    def _run(self, stream: StreamState) -> Generator[simpy.Event, None, None]:
        steps = self.program.codes[stream.code].steps
        stream.wake = _At(self.env, 0, stream.priority)
        yield stream.wake
        while stream.pc < len(steps):
            step = steps[stream.pc]
            if isinstance(step, Issue):
                yield from self._issue(stream, step)
                stream.pc += 1
            elif step[0] == ENTER:
                stream.counters[step[1]] = 0
                stream.pc += 1
            else:
                assert step[0] == BACK
                _, depth, trips, target = step
                stream.counters[depth] += 1
                if stream.counters[depth] < trips:
                    stream.pc = target
                    if self.steady is not None:
                        self.steady.visit(stream)
                else:
                    stream.pc += 1

    def _issue(self, stream: StreamState, issue: Issue) -> Generator[simpy.Event, None, None]:
        """Take the waits, reserve engine and links first come first served, start, and schedule the completion."""
        env, core = self.env, stream.core
        base = core * len(self.program.initial)
        stream.waited = waited = []
        for semaphore, n in issue.waits:
            stream.since, index = int(env.now), base + semaphore
            while self.semaphores[index] < n:
                stream.blocked_on = index
                self.waiting[index].append(stream)
                stream.wake = env.event()
                yield stream.wake
            stream.blocked_on = -1
            self.semaphores[index] -= n
            self.taken[index] += n
            stream.taken += 1
            if env.now > stream.since:
                waited.append((self.program.semaphore_names[semaphore], stream.since, int(env.now)))
        now, engine = int(env.now), core * len(self.program.engine_names) + issue.engine
        free = self.engine_free[engine]
        start = max(now, free)
        for link, _ in issue.links:
            if self.link_free[link] > start:
                waited.append((f"link {self.program.memories[link]}", start, self.link_free[link]))
                start = self.link_free[link]
        self._reserve(engine, issue, free, start, waited)
        if start > now:
            stream.resume_at = start
            yield _At(env, start - now, stream.priority)
            stream.resume_at = -1
        stream.taken = 0
        self._start(stream, engine, issue)

    def _reserve(self, engine: int, issue: Issue, free: int, start: int, waited: list[tuple[str, int, int]]) -> None:
        self.engine_free[engine] = start + issue.occupancy
        for link, ticks in issue.links:
            self.link_free[link] = start + ticks
        self.count("busy", engine, "", issue.occupancy)
        idle = start - free
        if idle > 0:
            for reason, begin, end in waited:
                share = min(end, start) - max(begin, free)
                if share > 0:
                    self.count("stall", engine, reason, share)
                    idle -= share
            if idle > 0:
                self.count("stall", engine, "issue", idle)

    def _start(self, stream: StreamState, engine: int, issue: Issue) -> None:
        self.executed += 1
        if self.executed > self.max_instructions:
            raise Undefined("endless", self.program.name, f"more than {self.max_instructions:,} instructions executed")
        self.count("issued", -1, "", 1)
        if issue.multiply_adds:
            self.count("multiply_adds", -1, "", issue.multiply_adds)
        for memory, moved in issue.traffic:
            self.count("traffic", -1, memory, moved)
        now = int(self.env.now)
        started = tuple(o.start(stream.core, stream.code, issue, stream.counters, now) for o in self.observers)
        queue = self.in_flight[engine]
        done = max(now + issue.latency, queue[-1][0] if queue else 0)  # in order: never before the one ahead
        queue.append((done, issue, started))
        completion = _At(self.env, done - now, engine)
        assert completion.callbacks is not None
        completion.callbacks.append(lambda _: self._complete(stream.core, engine))

    def _complete(self, core: int, engine: int) -> None:
        _, issue, started = self.in_flight[engine].popleft()
        for observer, own in zip(self.observers, started, strict=True):  # type: ignore[call-overload]
            observer.complete(core, issue, own)
        base = core * len(self.program.initial)
        for semaphore, n in issue.signals:
            index = base + semaphore
            self.semaphores[index] += n
            self.signalled[index] += n
            for stream in self.waiting[index]:
                assert stream.wake is not None
                stream.wake._ok, stream.wake._value = True, None
                self.env.schedule(stream.wake, priority=stream.priority)  # type: ignore[arg-type]
            self.waiting[index] = []

    def _deadlock(self) -> Undefined:
        """The error that says who waits on what, and which signal would free it."""
        names, per_core = self.program.semaphore_names, len(self.program.initial)
        stuck = [s for s in self.streams if s.pc < len(self.program.codes[s.code].steps)]
        lines = []
        for stream in stuck:
            code = self.program.codes[stream.code]
            issue = code.steps[stream.pc]
            assert isinstance(issue, Issue)
            semaphore, n = issue.waits[stream.taken]
            have = self.semaphores[stream.core * per_core + semaphore]
            givers = [c.name for c in self.program.codes if any(semaphore in s for s in c.signalled)]
            freed = f"only a signal in stream {', '.join(givers)} would free it" if givers else "nothing signals it"
            core = f"core {stream.core} " if self.program.cores > 1 else ""
            lines.append(
                f"{core}stream {code.name} waits for {n} of {names[semaphore]} (has {have}) before {issue.text}; {freed}"
            )
        return Undefined("deadlock", self.program.name, "; ".join(lines))
