"""The SimPy engine: streams, engines, semaphores and links of all cores of one machine.

Each stream is a SimPy process; each completion is a SimPy event. Events of one tick are ordered by priority alone
(completions by engine, then streams by core and text), never by when they were scheduled, so the state of the machine
relative to now says all about its future. That is what makes the jumps of `steady.py` exact.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Generator
from typing import Any, Protocol

import simpy

from .compiled import ENTER, FIRST_IN_LINE, IN_LINE, NEXT, PARKED, Code, CompiledProgram, Issue, LoopStep
from .dispatcher import At, Dispatcher
from .errors import Undefined
from .legality import MAX_COUNT
from .steady import FEWEST_EXECUTED, FEWEST_TRIPS, SteadyState


class Observer(Protocol):
    """What may watch a simulation: functional memory, a timeline. Times are in ticks."""

    def begin(self, slot: int, instance: int, fresh: bool) -> None:
        """An instance begins in a slot (of all cores, numbered core by core). `fresh`: nothing is left of the last."""

    def start(self, stream: StreamState, issue: Issue, now: int) -> object:
        """An instruction starts: operands are read now. What is returned is given back to `complete`."""

    def complete(self, core: int, issue: Issue, started: object) -> None:
        """It completes: results are written now, before its signals are seen."""


MOST_STUCK = 8  # streams named in an error


class StreamState:
    """Where one stream of one slot is."""

    __slots__ = (
        "base", "blocked_on", "code", "core", "counters", "done", "engines", "instance", "issues", "links", "pc",
        "priority", "resume_at", "since", "slot", "taken", "text", "waited", "wake",
    )  # fmt: skip

    def __init__(self, slot: int, code: int, priority: int, program: CompiledProgram) -> None:
        self.slot, self.code, self.priority = slot, code, priority
        self.core = slot // program.slots
        # Where those of its slot and of its core begin: semaphores, engines, counts of issues.
        self.base = slot * len(program.initial)
        self.engines = self.core * len(program.engine_names)
        self.issues = self.core * program.issues
        self.links = 0 if program.place == "static" else self.core * len(program.links)
        self.instance = self.core
        self.text: Code = program.kinds[program.kind(self.core)][code]
        self.pc = 0
        self.counters = [0] * max(codes[code].depth for codes in program.kinds)
        self.taken = 0  # waits of the current instruction already taken
        self.blocked_on = -1  # global semaphore id, IN_LINE, FIRST_IN_LINE or PARKED
        self.since = 0  # tick at which it was blocked, while it is
        self.waited: list[tuple[str, int, int]] = []  # waits of the current instruction: (for what, from, to)
        self.resume_at = -1  # tick at which it goes on, if it sleeps
        self.wake: Any = None
        self.done = False


class Engine:
    """One simulation. `run()` returns the ticks until the last engine has drained."""

    def __init__(
        self,
        program: CompiledProgram,
        *,
        skip: bool,
        observers: tuple[Observer, ...] = (),
        max_instructions: int = 50_000_000,
        stop_after: int | None = None,
    ) -> None:
        """`stop_after`: end the run, unfinished, when that many instructions have started."""
        self.program, self.observers, self.max_instructions = program, observers, max_instructions
        self.stop_after = stop_after
        self.env = simpy.Environment()
        self.stopped = self.env.event()
        cores, engines, codes = program.cores, len(program.engine_names), program.codes
        slots = cores * program.slots
        self.semaphores = list(program.initial) * slots
        self.signalled = [0] * len(self.semaphores)
        self.taken = [0] * len(self.semaphores)
        self.waiting: list[list[StreamState]] = [[] for _ in self.semaphores]
        self.engine_free = [0] * (cores * engines)
        self.in_flight: list[deque[tuple[int, Issue, StreamState, Any]]] = [deque() for _ in self.engine_free]
        self.completions = [functools.partial(self._complete, i // engines, i) for i in range(cores * engines)]
        # Links are shared by all cores; of a dispatched grid each core has its share of them.
        self.link_free = [0] * (len(program.links) * (1 if program.place == "static" else cores))
        # Those who want an engine with links: it asks for them only when it is free itself, so nobody knows when.
        self.lines: list[deque[StreamState]] = [deque() for _ in self.engine_free]
        self.streams = [
            StreamState(slot, i, cores * engines + slot * len(codes) + i, program)
            for slot in range(slots)
            for i in range(len(codes))
        ]
        self.dispatcher = Dispatcher(self) if program.place == "dispatch" else None
        self.skipped_ticks = 0  # time jumped over, on top of env.now
        self.executed = 0  # instructions stepped through
        self.issued = [0] * (cores * program.issues)  # how often each instruction was issued, jumps included
        self.stalls: dict[tuple[int, str], int] = {}  # (engine, reason) -> ticks
        self.steady = SteadyState(self) if skip else None

    def run(self) -> int:
        """Simulate to the end, or to `stop_after`. Raises Undefined for a deadlock, or beyond `max_instructions`."""
        for stream in self.streams:
            self.env.process(self._run(stream))
        if self.dispatcher is None:
            for core in range(self.program.cores):
                for observer in self.observers:
                    observer.begin(core, core, True)
        if self.stop_after is not None and self.stop_after < self.program.instructions:
            self.env.run(until=self.stopped)
            return self.ticks
        self.env.run()
        if any(self.unfinished(s) for s in self.streams):
            raise self._deadlock()
        return self.ticks

    @property
    def ticks(self) -> int:
        """Ticks until now, with those that were jumped over."""
        return self.now + self.skipped_ticks

    @property
    def now(self) -> int:
        """Ticks of the clock; what was jumped over comes on top."""
        return int(self.env.now)

    def unfinished(self, stream: StreamState) -> bool:
        """Whether `stream` has something left to issue."""
        if stream.blocked_on == PARKED and self.dispatcher is not None:
            return self.dispatcher.left > 0
        return not stream.done

    def instances_left(self, stream: StreamState) -> int:
        """Instances behind the current one that a persistent stream will come to."""
        return (self.program.instances - 1 - stream.instance) // self.program.cores

    def needed(self, stream: StreamState) -> int:
        """Units the semaphore must reach before the blocked `stream` goes on."""
        issue = stream.text.steps[stream.pc]
        assert isinstance(issue, Issue)
        return issue.waits[stream.taken][1]

    def _run(self, stream: StreamState) -> Generator[simpy.Event, None, None]:
        """The process of one stream."""
        env, steps = self.env, stream.text.steps
        semaphores, taken, base = self.semaphores, self.taken, stream.base
        shared, linked = self.program.shared, self.program.linked
        yield from self._launch(stream)
        steps = stream.text.steps
        while stream.pc < len(steps):
            step = steps[stream.pc]
            if type(step) is not Issue:
                if step[0] != NEXT:  # type: ignore[index]  # the other kind of step
                    self._loop(stream, step)  # type: ignore[arg-type]
                    continue
                yield from self._next(stream)
                if stream.done:
                    return
                steps = stream.text.steps
                continue
            for semaphore, n in step.waits:
                index = base + semaphore
                if semaphores[index] < n:
                    stream.since, stream.blocked_on = self.now, index
                    while semaphores[index] < n:
                        self.waiting[index].append(stream)
                        stream.wake = simpy.Event(env)
                        yield stream.wake
                    self._unblock(stream)
                semaphores[index] -= n
                taken[index] += n
                stream.taken += 1
            if step.engine in linked:
                yield from self._line_up(stream, stream.engines + step.engine)
            now = self.now
            start = self._reserve(stream, step, now)
            if start > now:
                stream.resume_at = start
                yield At(env, start - now, stream.priority)
                stream.resume_at = -1
            self._start(stream, step, start)
            if step.engine in linked:
                self._next_in_line(stream.engines + step.engine)
            stream.taken = 0
            stream.pc += 1
            # Of an engine of its own the stream need not wake before it is free: nobody can come between.
            if step.issue and (step.engine in shared or step.issue > step.occupancy):
                stream.resume_at = start + step.issue
                yield At(env, step.issue, stream.priority)
                stream.resume_at = -1
        stream.done = True

    def _launch(self, stream: StreamState) -> Generator[simpy.Event, None, None]:
        """Sleep until the first instance starts."""
        if self.dispatcher is not None:
            yield from self._park(stream)
            return
        stream.wake = At(self.env, self.program.launch, stream.priority)
        yield stream.wake
        if self.program.launch:
            stream.waited.append(("launch", 0, self.now))

    def _next(self, stream: StreamState) -> Generator[simpy.Event, None, None]:
        """Go on to the next instance, or be done where there is none."""
        if self.dispatcher is not None:
            yield from self._park(stream)
        elif self.instances_left(stream) < 1:
            stream.done = True
        else:
            self.begin(stream, stream.instance + self.program.cores)
            if self.steady is not None:
                self.steady.visit(stream)

    def begin(self, stream: StreamState, instance: int) -> None:
        """Put a stream at the beginning of an instance."""
        stream.instance = instance
        stream.text = self.program.kinds[self.program.kind(instance)][stream.code]
        stream.pc = 0
        stream.counters[0] += 1

    def _park(self, stream: StreamState) -> Generator[simpy.Event, None, None]:
        """Sleep until the dispatcher has handed the slot an instance, and it starts."""
        assert self.dispatcher is not None
        stream.blocked_on, stream.since = PARKED, self.now
        stream.wake = simpy.Event(self.env)
        self.dispatcher.parked(stream)
        yield stream.wake
        stream.resume_at = stream.blocked_on = -1
        stream.waited.append(("dispatch" if stream.counters[0] > 1 else "launch", stream.since, self.now))
        if self.steady is not None and stream.counters[0] > 1:
            self.steady.visit(stream)

    def _line_up(self, stream: StreamState, engine: int) -> Generator[simpy.Event, None, None]:
        """Sleep until the engine is free and nobody is ahead."""
        line = self.lines[engine]
        line.append(stream)
        if len(line) > 1:
            stream.blocked_on = IN_LINE
            stream.wake = simpy.Event(self.env)
            yield stream.wake
        left = self.engine_free[engine] - self.now
        if left > 0:
            stream.blocked_on, stream.resume_at = FIRST_IN_LINE, self.now + left
            yield At(self.env, left, stream.priority)
            stream.resume_at = -1
        stream.blocked_on = -1

    def _next_in_line(self, engine: int) -> None:
        """The first in line has started."""
        line = self.lines[engine]
        line.popleft()
        if line:
            self.wake(line[0])

    def _loop(self, stream: StreamState, step: LoopStep) -> None:
        """Enter a loop or take its back edge."""
        if step[0] == ENTER:
            stream.counters[step[1]] = 0
            stream.pc += 1
            return
        _, depth, trips, target, executed = step
        stream.counters[depth] += 1
        if stream.counters[depth] == trips:
            stream.pc += 1
            return
        stream.pc = target
        if self.steady is not None and trips >= FEWEST_TRIPS and executed >= FEWEST_EXECUTED:
            self.steady.visit(stream)

    def _unblock(self, stream: StreamState) -> None:
        """`stream` has what it slept for: note since when and for what."""
        name = self.program.semaphore_names[stream.blocked_on - stream.base]
        stream.waited.append((name, stream.since, self.now))
        stream.blocked_on = -1

    def _reserve(self, stream: StreamState, issue: Issue, now: int) -> int:
        """The start: when engine and links are free, first come first served. Charges the idle time of the engine."""
        engine = stream.engines + issue.engine
        free = self.engine_free[engine]
        start = now if now > free else free  # noqa: FURB136 - the hot loop
        for link, _ in issue.links:
            until = self.link_free[stream.links + link]
            if until > start:
                stream.waited.append((f"link {self.program.links[link]}", start, until))
                start = until
        self.engine_free[engine] = start + issue.occupancy
        for link, ticks in issue.links:
            self.link_free[stream.links + link] = start + ticks
        if start > free:
            self._charge(engine, free, start, stream.waited)
        if stream.waited:
            stream.waited = []
        return start

    def _charge(self, engine: int, free: int, start: int, waited: list[tuple[str, int, int]]) -> None:
        """Share out the idle time of an engine between what its next instruction waited for."""
        stalls, idle = self.stalls, start - free
        for reason, begin, end in waited:
            share = min(end, start) - max(begin, free)
            if share > 0:
                stalls[engine, reason] = stalls.get((engine, reason), 0) + share
                idle -= share
        if idle > 0:
            stalls[engine, "issue"] = stalls.get((engine, "issue"), 0) + idle

    def _start(self, stream: StreamState, issue: Issue, now: int) -> None:
        self.executed += 1
        if self.executed > self.max_instructions:
            raise Undefined("endless", self.program.name, f"more than {self.max_instructions:,} instructions executed")
        if self.executed == self.stop_after:
            self.stopped.succeed()
        if self.dispatcher is not None:
            self.dispatcher.pending[stream.slot] += 1
        self.issued[stream.issues + issue.number] += 1
        engine = stream.engines + issue.engine
        started: list[object] | None = None
        if self.observers:
            started = [o.start(stream, issue, now) for o in self.observers]
        queue = self.in_flight[engine]
        done = now + issue.latency
        if queue and queue[-1][0] > done:  # in order: never before the one ahead
            done = queue[-1][0]
        queue.append((done, issue, stream, started))
        At(self.env, done - now, engine).callbacks.append(self.completions[engine])

    def _complete(self, core: int, engine: int, _: simpy.Event) -> None:
        _done, issue, stream, started = self.in_flight[engine].popleft()
        if started is not None:
            for observer, own in zip(self.observers, started, strict=True):
                observer.complete(core, issue, own)
        semaphores, signalled, base = self.semaphores, self.signalled, stream.base
        for semaphore, n in issue.signals:
            index = base + semaphore
            semaphores[index] += n
            signalled[index] += n
            if semaphores[index] > MAX_COUNT:
                name = self.program.semaphore_names[semaphore % len(self.program.initial)]
                raise Undefined(
                    "overflow", issue.text, f"semaphore {name} grows beyond {MAX_COUNT:,}, the most it can hold"
                )
            if self.waiting[index]:
                self._wake(index)
        if self.dispatcher is not None:
            self.dispatcher.completed(stream.slot)

    def _wake(self, index: int) -> None:
        """Let every stream that waits for the semaphore look again, in this tick, in the order of streams."""
        for stream in self.waiting[index]:
            self.wake(stream)
        self.waiting[index] = []

    def wake(self, stream: StreamState, delay: int = 0) -> None:
        """Wake a stream, in this tick or `delay` ticks later."""
        stream.wake._ok, stream.wake._value = True, None  # noqa: SLF001 - `succeed` knows no priority
        self.env.schedule(stream.wake, stream.priority, delay)  # type: ignore[arg-type]

    def _deadlock(self) -> Undefined:
        """The error that says who waits on what, and which signal would free it."""
        names = self.program.semaphore_names
        stuck = [s for s in self.streams if self.unfinished(s) and s.blocked_on >= 0]
        lines = []
        for stream in stuck:
            code = stream.text
            issue = code.steps[stream.pc]
            assert isinstance(issue, Issue)
            semaphore, n = issue.waits[stream.taken]
            have = self.semaphores[stream.base + semaphore]
            givers = [c.name for c in self.program.codes if any(semaphore in s for s in c.signalled)]
            freed = f"only a signal in stream {', '.join(givers)} would free it" if givers else "nothing signals it"
            core = f"core {stream.core} " if self.program.cores > 1 else ""
            lines.append(
                f"{core}stream {code.name} waits for {n} of {names[semaphore]} (has {have}) "
                f"before {issue.text}; {freed}"
            )
        return Undefined("deadlock", self.program.name, "; ".join(lines[:MOST_STUCK]))
