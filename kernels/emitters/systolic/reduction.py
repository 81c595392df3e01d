"""Sum or maximum of each row on a systolic machine, block by block of columns."""

from __future__ import annotations

from ...operators.operator import Workload
from ...space import Emitter
from .recipe import OUTPUT, Pass, Recipe, joined
from .rowwise import RowEmitter


def recipe(workload: Workload, whole: bool) -> Recipe:
    """The output carries the sum or maximum of the blocks so far."""
    return Recipe(inputs=("x",), passes=(Pass((joined(workload.word("kind"), OUTPUT, "x"),)),), row_output=True)


EMITTER: Emitter = RowEmitter("reduction", recipe)
