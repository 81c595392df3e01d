"""The times of instances that differ in the trips of their loops, from a few of them.

Once the longest has jumped over `times` periods of its steady state, one whose loops make m periods of trips less takes
the same way, with a jump that is m periods shorter. So it takes m periods less, and issues what they issue less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .compiled import BACK, CompiledProgram
from .engine import Engine
from .steady import Jump
from .tally import Tally, tally

OUTERMOST = 1  # depth of a loop around which there is none but that over instances
Trips = tuple[tuple[int, int, int], ...]  # (stream, step of the code, trips) of every loop


def kind_tallies(compiled: CompiledProgram, run: Callable[[CompiledProgram], Engine]) -> dict[int, Tally]:
    """What each kind of instances takes that has a core to itself."""
    trips = {kind: _trips(compiled, kind) for kind in range(len(compiled.kinds))}
    left = sorted(trips, key=lambda kind: -sum(n for _, _, n in trips[kind]))
    found: dict[int, Tally] = {}
    while left:
        longest = left.pop(0)
        alone = replace(compiled, cores=1, instances=1, kinds=(compiled.kinds[longest],), kind_of=(), launch=0)
        engine = run(alone)
        found[longest] = tally(engine)
        jump = engine.steady.first if engine.steady is not None else None
        if jump is None or not jump.by_trips:
            continue
        moved = _moved(jump, engine)
        for kind in list(left):
            shorter = _periods_less(trips[longest], trips[kind], moved, jump.times)
            if shorter is not None:
                found[kind] = _less(found[longest], jump, shorter)
                left.remove(kind)
    return found


def _trips(compiled: CompiledProgram, kind: int) -> Trips:
    return tuple(
        (stream, pc, step[2])
        for stream, code in enumerate(compiled.kinds[kind])
        for pc, step in enumerate(code.steps)
        if isinstance(step, tuple) and len(step) > 2  # a back edge
    )


def _moved(jump: Jump, engine: Engine) -> dict[tuple[int, int], int]:
    """Trips that a period makes, by stream and by the back edge of its loop; of loops that are entered once."""
    found = {}
    for move in jump.period.moves:
        steps = engine.streams[move.stream].text.steps
        back = next(
            pc
            for pc in range(move.pc, len(steps))
            if isinstance(step := steps[pc], tuple) and step[:2] == (BACK, move.depth)
        )
        if move.depth == OUTERMOST:
            found[move.stream, back] = move.step
    return found


def _periods_less(longer: Trips, shorter: Trips, moved: dict[tuple[int, int], int], most: int) -> int | None:
    """How many periods the second makes less, if that is all in which the two differ."""
    if [t[:2] for t in longer] != [t[:2] for t in shorter]:
        return None
    periods = set()
    for (stream, pc, n), (_, _, fewer) in zip(longer, shorter, strict=True):
        step = moved.get((stream, pc))
        if n != fewer and step is None:
            return None
        if step is not None:
            whole, rest = divmod(n - fewer, step)
            periods.add(-1 if rest else whole)
    # Nothing moved but in loops that are entered again: what they differ in is not known from one jump.
    less = periods.pop() if len(periods) == 1 else -1
    return less if 0 <= less <= most else None


def _less(longest: Tally, jump: Jump, periods: int) -> Tally:
    issued, stalls = list(longest.issued), dict(longest.stalls)
    for number, count in jump.period.issued:
        issued[number] -= periods * count
    for key, ticks in jump.period.stalls:
        stalls[key] -= periods * ticks
    for engine in jump.period.unused:  # its idle time was charged later, to what it waited for longest
        reasons = [key for key in stalls if key[0] == engine]
        if reasons:
            stalls[max(reasons, key=lambda key: stalls[key])] -= periods * jump.period.ticks
    return Tally(longest.ticks - periods * jump.period.ticks, tuple(issued), stalls, 0)
