"""add, multiply or relu on a systolic machine: one vector instruction a block."""

from __future__ import annotations

from ...operators.operator import Workload
from ...space import Emitter
from .recipe import OUTPUT, Pass, Recipe, Step
from .rowwise import RowEmitter


def recipe(workload: Workload, whole: bool) -> Recipe:
    """One step: x + z, x * z or max(x, 0)."""
    kind = workload.word("kind")
    inputs = ("x",) if kind == "relu" else ("x", "z")
    return Recipe(inputs=inputs, passes=(Pass((Step(kind, OUTPUT, inputs),)),))


EMITTER: Emitter = RowEmitter("elementwise", recipe)
