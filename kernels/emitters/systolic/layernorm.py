"""Layer normalisation on a systolic machine: the variance is the mean of squared distances from the mean.

A row that is cut into blocks of columns is read three times: for its mean, for its variance, and for the result.
"""

from __future__ import annotations

from ...operators.layernorm import EPSILON
from ...operators.operator import Workload
from ...space import Emitter
from .recipe import OUTPUT, Pass, Recipe, Step, joined, scaled
from .rowwise import RowEmitter

_SUM = joined("sum", "total", "x")
_CENTRED = Step("subtract", "t", ("x", "mean"))
_SUM_OF_SQUARES = joined("sum", "squares", "u")
_INVERSE = Step("rsqrt", "inverse", ("variance",))
_RESULT = (
    Step("multiply", "t", ("t", "inverse")),
    Step("multiply", "t", ("t", "gamma")),
    Step("add", OUTPUT, ("t", "beta")),
)


def recipe(workload: Workload, whole: bool) -> Recipe:
    """One pass over whole rows, or three over blocks of columns, which then need no second temporary."""
    share = 1 / workload.int("columns")
    mean = scaled("mean", "total", share)
    variance = scaled("variance", "squares", share, EPSILON)
    # A whole row keeps its centred values for the result; the squares then need a place of their own.
    square = Step("square", "u" if whole else "t", ("t",))
    squares = _SUM_OF_SQUARES if whole else joined("sum", "squares", "t")
    passes: tuple[Pass, ...] = (
        Pass((_SUM,), (mean,)),
        Pass((_CENTRED, square, squares), (variance, _INVERSE)),
        Pass((_CENTRED, *_RESULT)),
    )
    if whole:
        passes = (Pass((_SUM, mean, _CENTRED, square, squares, variance, _INVERSE, *_RESULT)),)
    return Recipe(
        inputs=("x",),
        constants=("gamma", "beta"),
        passes=passes,
        temporaries=("t", "u") if whole else ("t",),
        statistics=("total", "mean", "squares", "variance", "inverse"),
    )


EMITTER: Emitter = RowEmitter("layernorm", recipe)
