"""Numbers the uses of a ring in the order in which a stream executes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from presil.simulators.program import Affine, Instruction, Loop, Node

Advances = Callable[[Instruction], bool]


def numbered(nodes: tuple[Node, ...], ring: str, advances: Advances = lambda _: True) -> tuple[Node, ...]:
    """`nodes` with the slot of every region of `ring` set to the number of advancing uses executed before it.

    Exact where loop bodies differ in how often they use the ring: each loop variable counts the uses in its own body.
    """
    return tuple(_number(nodes, ring, advances, Affine()))


def _number(nodes: tuple[Node, ...], ring: str, advances: Advances, before: Affine) -> list[Node]:
    """`nodes` when `before` uses come first."""
    done: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            each = _uses(node.body, ring, advances)
            done.append(
                replace(node, body=tuple(_number(node.body, ring, advances, before + Affine.var(node.var, each))))
            )
            before = before + each * node.trips
            continue
        operands = tuple(replace(r, slot=before) if r.name == ring else r for r in node.operands)
        done.append(replace(node, operands=operands))
        before = before + _uses((node,), ring, advances)
    return done


def _uses(nodes: tuple[Node, ...], ring: str, advances: Advances) -> int:
    """Advancing uses in one pass over `nodes`."""
    return sum(
        _uses(node.body, ring, advances) * node.trips
        if isinstance(node, Loop)
        else advances(node) and any(r.name == ring for r in node.operands)
        for node in nodes
    )
