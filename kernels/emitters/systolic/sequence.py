"""Numbers the uses of a ring in the order in which a stream executes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from presil.simulators.program import Affine, Instruction, Loop, Node

Advances = Callable[[Instruction], bool]


def numbered(nodes: tuple[Node, ...], ring: str, advances: Advances = lambda instruction: True) -> tuple[Node, ...]:
    """`nodes` with the slot of every region of `ring` set to the number of advancing uses executed before it.

    Exact where loop bodies differ in how often they use the ring: each loop variable counts the uses in its own body.
    """
    return tuple(_number(nodes, ring, advances, Affine())[0])


def _number(nodes: tuple[Node, ...], ring: str, advances: Advances, before: Affine) -> tuple[list[Node], int]:
    """(numbered nodes, advancing uses in them) when `before` uses come first."""
    done: list[Node] = []
    used = 0
    for node in nodes:
        if isinstance(node, Loop):
            _, each = _number(node.body, ring, advances, Affine())
            body, _ = _number(node.body, ring, advances, before + used + Affine.var(node.var, each))
            done.append(replace(node, body=tuple(body)))
            used += each * node.trips
            continue
        slot = before + used
        operands = tuple(replace(r, slot=slot) if r.name == ring else r for r in node.operands)
        done.append(replace(node, operands=operands))
        used += any(r.name == ring for r in node.operands) and advances(node)
    return done, used
