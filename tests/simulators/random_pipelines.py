"""Random pipelines of streams that never deadlock, on a machine whose instructions name their own price.

Stages form a graph without cycles. Each runs a number of rounds and fires several times in each. A channel from one
stage to another is a ring of slots with a `full` and a `free` semaphore: the producer takes and gives one slot a
firing, the consumer takes the slots of a whole round at its first firing and gives them back at its last. As a ring
holds a round or more, round after round can run in the order of the graph, so no draw deadlocks. Loops are cut at
random and differently in each stage; engines and links are shared at random; latencies and link times are anything.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from pydantic import BaseModel

from presil.simulators import chip, compiled, legality, memory, simulate
from presil.simulators.family import Cost, Op, attribute_values
from presil.simulators.machine import Machine, Memory
from presil.simulators.program import Count, Instruction, Loop, Node, Program, Semaphore, Stream

Choose = Callable[[int, int], int]  # an integer between two, both included
Rule = dict[str, list[Count]]

ENGINES, LINKS, CORES = 5, 2, 3
LAUNCH, BETWEEN = 100, 7  # ticks until the first instances start, and from a free slot to its next instance
PRICE = {
    "busy": "int",
    "engine": "int",
    "flight": "int",
    "issue": "int",
    "link0": "int",
    "link1": "int",
    "products": "int",
}


class Priced:
    """A family of one instruction: taken for `busy` ticks, done `flight` ticks later, links for `link0` and `link1`."""

    name = "priced"
    spec_model = BaseModel
    ops: Mapping[str, Op] = {
        "step": Op(
            "step", "", "", (), {f"{key}?": kind for key, kind in PRICE.items()}, lambda out, *_: out, lambda _: "w"
        )
    }

    def spaces(self, machine: Any) -> Mapping[str, int]:
        return {}

    def engines(self, machine: Any) -> tuple[str, ...]:
        return tuple(f"engine{i}" for i in range(ENGINES))

    def legal(self, instruction: Instruction, unit: int, program: Program, machine: Any) -> str | None:
        return None

    def whole(self, program: Program, machine: Any) -> str | None:
        return None

    def slots(self, program: Program, machine: Any) -> int:
        """As many as the name of the program ends in, of a dispatched one."""
        return int(program.name.rpartition(" ")[2]) if program.place == "dispatch" else 1

    def links(self, machine: Any) -> tuple[str, ...]:
        return ()

    def launch_ticks(self, program: Program, machine: Any) -> tuple[int, int]:
        return LAUNCH, BETWEEN

    def sustained_clock_hz(self, activity: Any, machine: Any) -> float:
        return float(machine.clock_hz)

    def cost(self, instruction: Instruction, unit: int, program: Program, machine: Any) -> Cost:
        price = {
            "engine": 0,
            "busy": 1,
            "flight": 0,
            "products": 0,
            "issue": 0,
            **attribute_values(instruction.attributes, {}),
        }
        links = tuple((f"link{i}", price[f"link{i}"]) for i in range(LINKS) if price.get(f"link{i}"))
        latency = price["busy"] + price["flight"]
        return Cost(f"engine{price['engine']}", price["busy"], latency, links, links, price["products"], price["issue"])


def priced_machine() -> Machine:
    link = Memory(bandwidth=1e9, latency=0.0, burst_bytes=1, capacity=1 << 30, efficiency=1.0)
    memories = {f"link{i}": link for i in range(LINKS)}
    return Machine(
        name="priced", title="priced", family="priced", clock_hz=1e9, cores=CORES, memories=memories, spec=None
    )


@contextlib.contextmanager
def priced_family() -> Iterator[Machine]:
    """While this is open, programs run on the machine it gives."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (chip, compiled, legality, memory, simulate):
            patch.setattr(module, "family", lambda _: Priced())
        yield priced_machine()


def step(
    engine: int, busy: int, flight: int = 0, *, waits: Sequence[Count] = (), signals: Sequence[Count] = (), **more: int
):
    """One instruction."""
    attributes = {"engine": engine, "busy": busy, "flight": flight, **more}
    return Instruction("step", (), tuple(sorted(attributes.items())), tuple(waits), tuple(signals))


def pipeline(streams: Mapping[str, Sequence[Node]], semaphores: Mapping[str, int], cores: int = 1) -> Program:
    """A program of streams on the priced machine."""
    return Program(
        "pipeline",
        "priced",
        "none",
        (),
        (),
        tuple(Semaphore(name, initial) for name, initial in semaphores.items()),
        tuple(Stream(name, tuple(body)) for name, body in streams.items()),
        (("core", cores),) if cores > 1 else (),
    )


def random_pipeline(choose: Choose, most_rounds: int = 40) -> Program:
    """One draw. `choose` is the only source of chance."""
    stages, rounds = choose(1, 5), choose(1, most_rounds)
    firings = [choose(1, 4) if choose(0, 2) == 0 else 1 for _ in range(stages)]
    semaphores: dict[str, int] = {}
    rules: list[Rule] = [{key: [] for key in ("take", "take first", "give", "give last")} for _ in range(stages)]
    for to in range(1, stages):
        for source in sorted({choose(0, to - 1) for _ in range(choose(1, 2))}):
            each, full, free = firings[source], f"full{source}{to}", f"free{source}{to}"
            semaphores[full] = 0
            rules[source]["give"].append(Count(full))
            rules[to]["take first"].append(Count(full, each))
            if choose(0, 3):  # a ring that is never reused has no `free`
                semaphores[free] = each + choose(0, 2 * each)
                rules[source]["take"].append(Count(free))
                rules[to]["give last"].append(Count(free, each))
    for i, rule in enumerate(rules):
        if choose(0, 5) == 0:  # counts that nothing takes
            semaphores[f"unread{i}"] = 0
            rule["give"].append(Count(f"unread{i}", choose(1, 2)))
        if choose(0, 5) == 0:  # counts that nothing gives
            semaphores[f"stock{i}"] = rounds * firings[i] + choose(0, 3)
            rule["take"].append(Count(f"stock{i}"))
    spans = choose(1, 5), choose(1, 2)
    streams = {}
    for i, rule in enumerate(rules):
        names = itertools.count()
        body = _round(choose, rule, firings[i], spans, names)
        streams[f"stage{i}"] = _split(choose, rounds, body, 3, names)
    return pipeline(streams, semaphores, choose(2, CORES) if choose(0, 2) == 0 else 1)


@st.composite
def pipelines(draw: DrawFn, most_rounds: int = 40) -> Program:
    """`random_pipeline` for hypothesis."""
    return random_pipeline(lambda low, high: draw(st.integers(low, high)), most_rounds)


def issued(nodes: tuple[Node, ...], divisor: int) -> tuple[Node, ...]:
    """`nodes` whose streams go on only 1/`divisor` of the busy time after each start."""
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            found.append(replace(node, body=issued(node.body, divisor)))
        else:
            busy = node.attribute("busy")
            assert isinstance(busy, int)
            found.append(replace(node, attributes=tuple(sorted((*node.attributes, ("issue", busy // divisor))))))
    return tuple(found)


def _round(choose: Choose, rule: Rule, firings: int, spans: tuple[int, int], names: Iterator[int]) -> tuple[Node, ...]:
    """The firings of one round; those between the first and the last share a loop."""

    def fire(*, first: bool, last: bool) -> tuple[Node, ...]:
        takes = [*rule["take"], *(rule["take first"] if first else ())]
        gives = [*rule["give"], *(rule["give last"] if last else ())]
        if choose(0, 1):
            takes.reverse()
        engine = choose(0, spans[0] - 1)
        if choose(0, 3):
            return (_priced(choose, engine, spans[1], takes, gives),)
        return (_priced(choose, engine, spans[1], takes, []), _priced(choose, engine, spans[1], [], gives))

    if firings == 1:
        return fire(first=True, last=True)
    ends = fire(first=True, last=False), fire(first=False, last=True)
    if firings == 2:
        return (*ends[0], *ends[1])
    return (*ends[0], Loop(f"v{next(names)}", firings - 2, fire(first=False, last=False)), *ends[1])


def _priced(choose: Choose, engine: int, links: int, waits: list[Count], signals: list[Count]) -> Instruction:
    used = sorted({choose(0, links - 1) for _ in range(choose(0, 2))})
    taken = {f"link{link}": choose(1, 14) for link in used}
    return step(engine, choose(1, 9), choose(0, 25), waits=waits, signals=signals, products=choose(0, 3), **taken)


def _split(choose: Choose, count: int, body: tuple[Node, ...], depth: int, names: Iterator[int]) -> tuple[Node, ...]:
    """`count` times the body, in loops that are nested and cut at random."""
    if count == 1:
        return body
    kind = choose(0, 2) if depth else 0
    if kind == 1:
        part = choose(1, count - 1)
        return (
            *_split(choose, part, body, depth - 1, names),
            *_split(choose, count - part, body, depth - 1, names),
        )
    divisors = [d for d in range(2, count) if count % d == 0]
    if kind == 2 and divisors:
        trips = divisors[choose(0, len(divisors) - 1)]
        return (Loop(f"v{next(names)}", trips, _split(choose, count // trips, body, depth - 1, names)),)
    return (Loop(f"v{next(names)}", count, body),)
