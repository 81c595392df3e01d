"""Deadlock by routing: channel dependencies, their cycles, and the classes of channels that break those of rings.

A message holds its link while it waits for the next one. If no cycle of links each waits for the next, no messages can
block each other for ever (Dally & Seitz, IEEE Transactions on Computers C-36(5), 1987; Dally & Towles, Principles and
Practices of Interconnection Networks, 2004, chapter 14). A cycle found here is a deadlock if all of its routes are in
use at once; time slots, as on Groq, may rule that out.

Of a tree only the dependencies from a link to those after it are seen. That is enough where a branch that is blocked
does not hold back the other branches of its fork, nor an input the other inputs of its join: buffers take what is left
of the message. It is not enough for wormhole trees whose branches move in step: two of them that share two links can
each hold one and wait for the other without a cycle here (Lin & Ni, ISCA 1991); Wormhole reserves the whole tree first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from .routes import Route
from .topology import NEXT, Topology
from .trees import Tree

Dependencies = dict[int, dict[int, list[int]]]
CLASSES = 4
SHOWN = 4  # routes named per step of an explanation


@dataclass(frozen=True, slots=True)
class Cycle:
    """Links, each waiting for the next and the last for the first; `routes[i]`: which routes make link i wait."""

    links: tuple[int, ...]
    routes: tuple[tuple[int, ...], ...]


def links_of(routed: Route | Tree) -> tuple[int, ...]:
    """The links of a route or tree."""
    return routed.links if isinstance(routed, Tree) else routed


def steps_of(routed: Route | Tree) -> Iterable[tuple[int, int]]:
    """Each link of a route or tree with one that comes right after it."""
    return routed.steps if isinstance(routed, Tree) else pairwise(routed)


def channel_dependencies(routes: Iterable[Route | Tree]) -> Dependencies:
    """Link to next link to the numbers of the routes that go from the one to the other, in order."""
    found: Dependencies = {}
    for number, routed in enumerate(routes):
        for link, after in steps_of(routed):
            found.setdefault(link, {}).setdefault(after, []).append(number)
    return found


def dependency_cycle(routes: Iterable[Route | Tree]) -> Cycle | None:
    """A cycle of links that wait for each other, or None: then these routes cannot deadlock.

    Of the cycles through one link the shortest; it begins at its smallest number.
    """
    graph = channel_dependencies(routes)
    start = _on_a_cycle(graph)
    if start is None:
        return None
    links = _shortest(graph, start)
    least = links.index(min(links))
    links = links[least:] + links[:least]
    return Cycle(links, tuple(tuple(graph[a][b]) for a, b in pairwise((*links, links[0]))))


def explain_cycle(cycle: Cycle, name: Callable[[int], str]) -> str:
    """A cycle in words, one line a step. `name` gives that of a link, or of a channel."""
    lines = [f"deadlock by routing: {len(cycle.links)} links wait for each other"]
    for (a, b), routes in zip(pairwise((*cycle.links, cycle.links[0])), cycle.routes, strict=True):
        who = ", ".join(map(str, routes[:SHOWN])) + (f" and {len(routes) - SHOWN} more" if len(routes) > SHOWN else "")
        lines.append(f"  {name(a)} waits for {name(b)} (route{'s' * (len(routes) > 1)} {who})")
    return "\n".join(lines)


def dateline(topology: Topology, routed: Route | Tree) -> Route | Tree:
    """The same route or tree in channels, 4 * link + class, where rings have a dateline.

    The rule: the dateline of a ring is its link that wraps. In a row or column the class is 0 up to this link and 1 on
    the links of the same ring after it; a turn goes back to 0. Where chips stand in a ring, 2 is added on every link
    after the one from the last chip to the first or back. Where messages are added the higher class goes on. So no
    dependency leads from class 1 to 0 in a ring, and none of class 1 reaches the dateline, as a route takes less than
    a whole turn (Dally & Seitz 1987; Wormhole's virtual channels have a dateline bit: tt-isa-documentation).

    It breaks all cycles of dimension order on one torus and on meshes in a row or ring of chips; not all on tori that
    are joined to other chips, where messages that come and messages that leave share the links of a ring.
    """
    classes = dict.fromkeys(links_of(routed), 0)
    for link, after in steps_of(routed):  # links come in the order in which data cross them
        way = topology.direction(link)
        wraps = topology.wraps(link)
        ring = (classes[link] & 1 or wraps) and way == topology.direction(after) and way < NEXT
        around = classes[link] & 2 or (wraps and way >= NEXT)
        classes[after] |= (1 if ring else 0) | (2 if around else 0)
    if not isinstance(routed, Tree):
        return tuple(CLASSES * link + classes[link] for link in routed)
    links = tuple(CLASSES * link + classes[link] for link in routed.links)
    steps = tuple((CLASSES * a + classes[a], CLASSES * b + classes[b]) for a, b in routed.steps)
    return replace(routed, links=links, steps=steps)


def channel_name(topology: Topology, channel: int) -> str:
    """As `east(3,2).1`: the link and the class. Raises BadInput for no link."""
    return f"{topology.link_name(channel // CLASSES)}.{channel % CLASSES}"


def _on_a_cycle(graph: Dependencies) -> int | None:
    """A link that lies on a cycle. Links that wait for nothing are taken away until none is left, or all wait."""
    waits = {link: len(after) for link, after in graph.items()}
    before: dict[int, list[int]] = {}
    for link, after in graph.items():
        for other in after:
            before.setdefault(other, []).append(link)
    free = [other for other in before if other not in waits]
    while free:
        for link in before.get(free.pop(), ()):
            waits[link] -= 1
            if not waits[link]:
                free.append(link)
    left = {link for link, count in waits.items() if count}  # each of them waits for another of them
    if not left:
        return None
    link, seen = min(left), set[int]()
    while link not in seen:
        seen.add(link)
        link = min(left & graph[link].keys())
    return link


def _shortest(graph: Dependencies, start: int) -> tuple[int, ...]:
    """The shortest cycle through `start`, by breadth-first search."""
    before: dict[int, int] = {}
    queue = deque([start])
    while start not in before:
        link = queue.popleft()
        for after in graph.get(link, ()):
            if after not in before:
                before[after] = link
                queue.append(after)
    links = [start]
    while before[links[-1]] != start:
        links.append(before[links[-1]])
    return tuple(reversed(links))
