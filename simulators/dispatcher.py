"""Hands the instances of a grid to the slots of cores, as they fall free."""

from __future__ import annotations

from typing import TYPE_CHECKING

import simpy

if TYPE_CHECKING:
    from .engine import Engine, StreamState


class At(simpy.Event):
    """An event that fires after `delay` ticks, ordered within its tick by `priority`."""

    _ok, _value = True, None  # of the class: it is made for each instruction

    def __init__(self, env: simpy.Environment, delay: int, priority: int) -> None:
        self.env, self.callbacks = env, []
        env.schedule(self, priority, delay)  # type: ignore[arg-type]  # priority is any int at run time


class Dispatcher:
    """Hands instances to slots as they fall free: at the end of a tick, those of the emptiest cores first."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        program = engine.program
        self.left = program.instances
        self.streams: list[list[StreamState]] = [[] for _ in range(program.cores * program.slots)]
        for stream in engine.streams:
            self.streams[stream.slot].append(stream)
        self.pending = [0] * len(self.streams)  # instructions under way, by slot
        self.asleep = [0] * len(self.streams)  # streams that have nothing left to issue
        self.free: list[int] = []
        self.last = engine.streams[-1].priority + 1  # after all streams of a tick

    def parked(self, stream: StreamState) -> None:
        """A stream has issued all of its instance."""
        self.asleep[stream.slot] += 1
        self._freed(stream.slot)

    def completed(self, slot: int) -> None:
        """An instruction of a slot has completed."""
        self.pending[slot] -= 1
        self._freed(slot)

    def _freed(self, slot: int) -> None:
        if self.pending[slot] or self.asleep[slot] < len(self.streams[slot]) or not self.left:
            return
        if not self.free:
            At(self.engine.env, 0, self.last).callbacks.append(lambda _: self.hand_out())
        self.free.append(slot)

    def hand_out(self) -> None:
        """Give each free slot an instance, as long as there are some."""
        engine, slots = self.engine, self.engine.program.slots
        order = []
        for core in sorted({slot // slots for slot in self.free}):
            mine = sorted(slot for slot in self.free if slot // slots == core)
            order += [(slots - len(mine) + i, core, slot) for i, slot in enumerate(mine)]
        self.free = []
        for _, _, slot in sorted(order):
            if not self.left:
                break
            self._start(slot, engine.program.instances - self.left)
            self.left -= 1

    def _start(self, slot: int, instance: int) -> None:
        """Semaphores are as at first, and the streams start when the block does."""
        engine, program = self.engine, self.engine.program
        base = slot * len(program.initial)
        engine.semaphores[base : base + len(program.initial)] = program.initial
        for observer in engine.observers:
            observer.begin(slot, instance, True)
        delay = program.between if engine.now else program.launch
        self.asleep[slot] = 0
        for stream in self.streams[slot]:
            engine.begin(stream, instance)
            stream.resume_at = engine.now + delay
            engine.wake(stream, delay)
