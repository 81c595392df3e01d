"""Instances of a grid by what they do: those whose loops make the same trips are of one kind.

A loop may make more trips the larger a grid variable is (causal attention: later rows look back at more columns). What
an instance does is then known when the grid is, and everything that reads programs reads *closed* ones, one a kind.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .program import Instruction, Loop, Node, Program


@dataclass(frozen=True, slots=True)
class Kind:
    """A closed program (no loop depends on the grid), and the instances (row-major numbers) that run it."""

    program: Program
    instances: tuple[int, ...]


def is_closed(program: Program) -> bool:
    """Whether all instances make the same trips."""
    return not any(loop.terms for stream in program.streams for loop in loops(stream.body))


def kinds(program: Program) -> tuple[Kind, ...]:
    """The kinds of `program`, in the order of their first instances."""
    every = [loop for stream in program.streams for loop in loops(stream.body)]
    names = {name for loop in every for name, _ in loop.terms}
    if not names:
        return (Kind(program, tuple(range(program.instances))),)
    found: dict[tuple[int, ...], list[int]] = {}
    for number, values in enumerate(points(program)):
        found.setdefault(tuple(_trips(loop, values) for loop in every), []).append(number)
    closed = []
    for instances in found.values():
        values = point(program, instances[0])
        streams = tuple(replace(s, body=close(s.body, values)) for s in program.streams)
        closed.append(Kind(replace(program, streams=streams), tuple(instances)))
    return tuple(closed)


def points(program: Program) -> Iterator[dict[str, int]]:
    """The values of the grid variables of each instance, row-major."""
    names = [name for name, _ in program.grid]
    for at in itertools.product(*(range(size) for _, size in program.grid)):
        yield dict(zip(names, at, strict=True))


def point(program: Program, instance: int) -> dict[str, int]:
    """The values of the grid variables of one instance (row-major)."""
    values = {}
    for name, size in reversed(program.grid):
        instance, values[name] = divmod(instance, size)
    return values


def _trips(loop: Loop, values: dict[str, int]) -> int:
    return loop.trips + sum(c * values[name] for name, c in loop.terms)


def close(nodes: tuple[Node, ...], values: dict[str, int]) -> tuple[Node, ...]:
    """`nodes` at one point of the grid; a loop of no trips is left out."""
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Instruction):
            found.append(node)
        elif (trips := _trips(node, values)) > 0 and (body := close(node.body, values)):
            found.append(Loop(node.var, trips, body))
    return tuple(found)


def loops(nodes: tuple[Node, ...]) -> Iterator[Loop]:
    """Every loop below `nodes`."""
    for node in nodes:
        if isinstance(node, Loop):
            yield node
            yield from loops(node.body)
