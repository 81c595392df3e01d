"""Root-mean-square normalisation on a systolic machine.

A row that is cut into blocks of columns is read twice: for its mean square, and for the result.
"""

from __future__ import annotations

from ...operators.operator import Workload
from ...operators.rmsnorm import EPSILON
from ...space import Emitter
from .recipe import OUTPUT, Pass, Recipe, Step, joined, scaled
from .rowwise import RowEmitter

_SQUARES = (Step("square", "t", ("x",)), joined("sum", "squares", "t"))
_INVERSE = Step("rsqrt", "inverse", ("average",))
_RESULT = (Step("multiply", "t", ("x", "inverse")), Step("multiply", OUTPUT, ("t", "gamma")))


def recipe(workload: Workload, whole: bool) -> Recipe:
    """One pass over whole rows, or two over blocks of columns."""
    average = scaled("average", "squares", 1 / workload.int("columns"), EPSILON)
    passes: tuple[Pass, ...] = (Pass(_SQUARES, (average, _INVERSE)), Pass(_RESULT))
    if whole:
        passes = (Pass((*_SQUARES, average, _INVERSE, *_RESULT)),)
    return Recipe(
        inputs=("x",),
        constants=("gamma",),
        passes=passes,
        temporaries=("t",),
        statistics=("squares", "average", "inverse"),
    )


EMITTER: Emitter = RowEmitter("rmsnorm", recipe)
