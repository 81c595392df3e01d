"""The recipes of our operators along rows. `whole`: rows lie on chip whole; else they come in blocks of columns."""

from __future__ import annotations

from ..operators import layernorm as layernorm_operator
from ..operators import rmsnorm as rmsnorm_operator
from ..operators.operator import Workload
from .recipe import OUTPUT, Pass, Recipe, Step, joined, scaled

LOWEST = -3.0e38  # below every maximum; finite, so that differences are no NaN


def elementwise(workload: Workload, whole: bool) -> Recipe:
    """One step: x + z, x * z or max(x, 0)."""
    kind = workload.word("kind")
    inputs = ("x",) if kind == "relu" else ("x", "z")
    return Recipe(inputs=inputs, passes=(Pass((Step(kind, OUTPUT, inputs),)),))


def reduction(workload: Workload, whole: bool) -> Recipe:
    """The output carries the sum or maximum of the blocks so far."""
    return Recipe(inputs=("x",), passes=(Pass((joined(workload.word("kind"), OUTPUT, "x"),)),), row_output=True)


_TERMS = (Step("subtract", "t", ("x", "top")), Step("exp", "t", ("t",)))
_TOTAL = joined("sum", "total", "t")
_RECIPROCAL = Step("reciprocal", "inverse", ("total",))
_SHARES = Step("multiply", OUTPUT, ("t", "inverse"))


def softmax(workload: Workload, whole: bool) -> Recipe:
    """Subtract the maximum, exp, sum, reciprocal, multiply: one pass over whole rows, or three over blocks of columns.

    The exponentials of blocks are computed twice; to store and read them again would cost more than they take.
    """
    top = joined("max", "top", "x")
    passes: tuple[Pass, ...] = (Pass((top,)), Pass((*_TERMS, _TOTAL), (_RECIPROCAL,)), Pass((*_TERMS, _SHARES)))
    if whole:
        passes = (Pass((top, *_TERMS, _TOTAL, _RECIPROCAL, _SHARES)),)
    return Recipe(inputs=("x",), passes=passes, temporaries=("t",), statistics=("top", "total", "inverse"))


def online_softmax(workload: Workload) -> Recipe:
    """Softmax in two passes over blocks: the sum is scaled down wherever the maximum grows (Milakov and Gimelshein,
    arXiv 1805.02867).

    Within the bound of the operator: a term is off by u * D in all however many steps D is taken in, and each of n
    blocks adds 5u, no more than the additions of a sum in any order, which has `columns` - 1 where this has the columns
    of a block + n.
    """
    grown = (
        Step("cast", "before", ("top",)),
        joined("max", "top", "x"),
        Step("subtract", "before", ("before", "top")),
        Step("exp", "before", ("before",)),
        Step("multiply", "total", ("total", "before")),
    )
    opening = (Step("fill", "top", (), (("value", LOWEST),)), Step("fill", "total", (), (("value", 0.0),)))
    return Recipe(
        inputs=("x",),
        passes=(Pass((*grown, *_TERMS, _TOTAL), (_RECIPROCAL,), opening), Pass((*_TERMS, _SHARES))),
        temporaries=("t",),
        statistics=("before", "top", "total", "inverse"),
    )


def rmsnorm(workload: Workload, whole: bool) -> Recipe:
    """One pass over whole rows, or two over blocks of columns."""
    squares = (Step("square", "t", ("x",)), joined("sum", "squares", "t"))
    closing = (
        scaled("average", "squares", 1 / workload.int("columns"), rmsnorm_operator.EPSILON),
        Step("rsqrt", "inverse", ("average",)),
    )
    result = (Step("multiply", "t", ("x", "inverse")), Step("multiply", OUTPUT, ("t", "gamma")))
    return Recipe(
        inputs=("x",),
        constants=("gamma",),
        passes=(Pass((*squares, *closing, *result)),) if whole else (Pass(squares, closing), Pass(result)),
        temporaries=("t",),
        statistics=("squares", "average", "inverse"),
    )


def layernorm(workload: Workload, whole: bool) -> Recipe:
    """The variance is the mean of squared distances from the mean.

    One pass over whole rows, or three over blocks of columns, which then need no second temporary.
    """
    share = 1 / workload.int("columns")
    total, mean = joined("sum", "total", "x"), scaled("mean", "total", share)
    centred = Step("subtract", "t", ("x", "mean"))
    # A whole row keeps its centred values for the result; the squares then need a place of their own.
    place = "u" if whole else "t"
    squares = (Step("square", place, ("t",)), joined("sum", "squares", place))
    closing = (
        scaled("variance", "squares", share, layernorm_operator.EPSILON),
        Step("rsqrt", "inverse", ("variance",)),
    )
    result = (
        Step("multiply", "t", ("t", "inverse")),
        Step("multiply", "t", ("t", "gamma")),
        Step("add", OUTPUT, ("t", "beta")),
    )
    passes: tuple[Pass, ...] = (Pass((total,), (mean,)), Pass((centred, *squares), closing), Pass((centred, *result)))
    if whole:
        passes = (Pass((total, mean, centred, *squares, *closing, *result)),)
    return Recipe(
        inputs=("x",),
        constants=("gamma", "beta"),
        passes=passes,
        temporaries=("t", "u") if whole else ("t",),
        statistics=("total", "mean", "squares", "variance", "inverse"),
    )
