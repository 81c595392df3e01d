"""Trees of links: multicast from one tile to many, reduction from many tiles to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from ..errors import BadInput
from .routes import Route, route
from .topology import Topology


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree made by the functions of this file. Data flows from `root` to `members`, or in a reduction the other way.

    `links`: each once, in an order in which data can cross them. `steps`: each link with one that data cross right
    after it: at a fork several follow one link, at a join of a reduction one follows several.
    """

    root: int
    members: tuple[int, ...]
    links: tuple[int, ...]
    steps: tuple[tuple[int, int], ...]


def multicast_tree(topology: Topology, source: int, targets: Iterable[int], order: str = "xy") -> Tree:
    """The union of the routes from the source to each target, each link once.

    Where links go both ways the union is a tree: the way to a tile is the beginning of all ways that lead over it.
    Raises as `route` does; BadInput for no target or one named twice, and where one-way links to several joints make
    no tree.
    """
    members = _members(topology, source, targets)
    outward = [route(topology, source, target, order) for target in members]
    return _union(topology, outward, (topology.tail, topology.head), source, members)


def reduction_tree(topology: Topology, sources: Iterable[int], target: int, order: str = "xy") -> Tree:
    """The union of the routes from each source to the target: at a join what arrives is added and goes on as one.

    It needs no links against the direction of a multicast, so one-way networks have it. Raises as `multicast_tree`.
    """
    members = _members(topology, target, sources)
    inward = [route(topology, source, target, order)[::-1] for source in members]
    return _turned(_union(topology, inward, (topology.head, topology.tail), target, members))


def reversed_tree(topology: Topology, tree: Tree) -> Tree:
    """The same tree with data flowing the other way. Raises Unsupported where a link is one-way."""
    back = {link: topology.opposite(link) for link in tree.links}
    links, steps = tuple(map(back.__getitem__, tree.links)), tuple((back[a], back[b]) for a, b in tree.steps)
    return _turned(Tree(tree.root, tree.members, links, steps))


def union(topology: Topology, routes: Sequence[Route], source: int) -> Tree:
    """The tree of routes that a schedule gives, all from one source. Raises BadInput where they make no tree."""
    for links in routes:
        here = source
        for link in links:
            topology.check(link)
            if topology.tail(link) != here:
                raise BadInput(f"a route goes on with {topology.link_name(link)} from {topology.tile_name(here)}")
            here = topology.head(link)
    members = _members(topology, source, [topology.head(links[-1]) if links else source for links in routes])
    return _union(topology, routes, (topology.tail, topology.head), source, members)


def _members(topology: Topology, root: int, tiles: Iterable[int]) -> tuple[int, ...]:
    members = tuple(tiles)
    topology.place(root)
    if not members:
        raise BadInput("a tree has one tile at least besides its root")
    if len(set(members)) < len(members):
        twice = next(tile for i, tile in enumerate(members) if tile in members[:i])
        raise BadInput(f"tile {topology.tile_name(twice)} is named twice")
    return members


def _turned(tree: Tree) -> Tree:
    return Tree(tree.root, tree.members, tree.links[::-1], tuple((b, a) for a, b in reversed(tree.steps)))


def _union(
    topology: Topology,
    routes: Iterable[Route],
    ends: tuple[Callable[[int], int], Callable[[int], int]],
    root: int,
    members: tuple[int, ...],
) -> Tree:
    """The tree of unbroken `routes` from `root` outwards; `ends` give the near and the far end of a link, seen from it.

    Links that touch each tile at most once with their far end, and the root never, are a tree.
    """
    near, far = ends
    reached: dict[int, int] = {}
    for link in dict.fromkeys(chain.from_iterable(routes)):
        tile = far(link)
        if tile == root:
            raise BadInput(f"not a tree: {topology.link_name(link)} goes round to the root {topology.tile_name(root)}")
        if tile in reached:
            names = f"{topology.link_name(reached[tile])} and {topology.link_name(link)}"
            raise BadInput(f"not a tree: tile {topology.tile_name(tile)} is at the end of two links, {names}")
        reached[tile] = link
    steps = ((reached[near(link)], link) for link in reached.values() if near(link) != root)
    return Tree(root, members, tuple(reached.values()), tuple(steps))
