"""Softmax on a systolic machine: subtract the maximum, exp, sum, reciprocal, multiply.

A row that is cut into blocks of columns is read three times: for its maximum, for the sum, and for the result. The
exponentials are computed twice; to store and read them again would cost more traffic than they cost time.
"""

from __future__ import annotations

from ...operators.operator import Workload
from ...space import Emitter
from .recipe import OUTPUT, Pass, Recipe, Step, joined
from .rowwise import RowEmitter

_MAXIMUM = joined("max", "top", "x")
_TERMS = (Step("subtract", "t", ("x", "top")), Step("exp", "t", ("t",)))
_SUM = joined("sum", "total", "t")
_INVERSE = Step("reciprocal", "inverse", ("total",))
_RESULT = Step("multiply", OUTPUT, ("t", "inverse"))


def recipe(workload: Workload, whole: bool) -> Recipe:
    """One pass over whole rows, or three over blocks of columns."""
    passes: tuple[Pass, ...] = (
        Pass((_MAXIMUM,)),
        Pass((*_TERMS, _SUM), (_INVERSE,)),
        Pass((*_TERMS, _RESULT)),
    )
    if whole:
        passes = (Pass((_MAXIMUM, *_TERMS, _SUM, _INVERSE, _RESULT)),)
    return Recipe(inputs=("x",), passes=passes, temporaries=("t",), statistics=("top", "total", "inverse"))


EMITTER: Emitter = RowEmitter("softmax", recipe)
