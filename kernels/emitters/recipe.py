"""Operators along rows as recipes: which vector instructions a block of rows goes through, pass by pass.

They hold for every family of machines; `recipes.py` has those of our operators.

A recipe names its blocks: inputs and temporaries are [rows, columns], statistics [rows, 1], constants [columns]. The
vector unit computes in fp32 whatever the format of its operands, so temporaries and statistics are fp32 and no cast is
needed: the last step rounds once to the format of the output.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from presil.simulators.program import Attribute

Attributes = tuple[tuple[str, Attribute], ...]

OUTPUT = "y"


@dataclass(frozen=True, slots=True)
class Step:
    """One vector instruction. `joined`: `target` is carried on from one block of columns to the next."""

    op: str
    target: str
    sources: tuple[str, ...]
    attributes: Attributes = ()
    joined: bool = False


@dataclass(frozen=True, slots=True)
class Pass:
    """Once over the columns of a block of rows: `opening`, `steps` at each block of columns, then `closing`.

    The first and the last are on statistics.
    """

    steps: tuple[Step, ...]
    closing: tuple[Step, ...] = ()
    opening: tuple[Step, ...] = ()

    def reads(self, names: Iterable[str]) -> bool:
        """Whether a step at a block of columns reads one of `names`."""
        return any(name in step.sources for name in names for step in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a block of rows goes through. `row_output`: one number a row leaves, else a block as large as the inputs."""

    inputs: tuple[str, ...]
    passes: tuple[Pass, ...]
    constants: tuple[str, ...] = ()
    temporaries: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    row_output: bool = False

    @property
    def operations(self) -> tuple[str, ...]:
        """The vector instructions it takes, each once, in order."""
        return tuple(dict.fromkeys(s.op for p in self.passes for s in (*p.opening, *p.steps, *p.closing)))


def joined(op: str, target: str, source: str) -> Step:
    """`sum` or `max` over all columns of a row, block by block."""
    return Step(op, target, (source,), joined=True)


def scaled(target: str, source: str, factor: float, offset: float = 0.0) -> Step:
    """`source * factor + offset`."""
    return Step("scale", target, (source,), (("factor", factor), ("offset", offset)))
