"""Hypothesis strategies that draw well-formed programs: every part of the form, names that resolve, no more than that.

They are legal on no machine in particular. `in_bounds=True` keeps each region inside its tensor or tile for all values
of the variables around it; otherwise starts are any affine expression.
"""

import math
from collections.abc import Sequence
from typing import get_args

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from presil.simulators.formats import DTYPES
from presil.simulators.lexer import MAX_INTEGER
from presil.simulators.program import (
    Affine,
    Attribute,
    Buffer,
    Count,
    Dim,
    Instruction,
    Loop,
    Node,
    Place,
    Program,
    Region,
    Semaphore,
    Stream,
    Tensor,
)

OPS = ("load", "store", "fill", "shift", "matmul", "requantize", "add", "scale")
SPACES = ("scratchpad", "accumulator", "planes")
MEMORIES = ("host", "ddr3")
# Variables, tensors and words share some names on purpose: only the place where they stand tells them apart.
VARIABLES = ("m", "n", "k", "relu", "wait", "x", "loop", "unit")
WORDS = ("relu", "none", "m", "wait", "two words", "", "1.5", "ß")
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters='"\\'), max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LITERALS = st.integers(-MAX_INTEGER, MAX_INTEGER) | FLOATS | st.sampled_from(WORDS) | TEXTS
PLACES: SearchStrategy[Place] = st.sampled_from(get_args(Place))
Scope = tuple[tuple[str, int], ...]  # (variable, how many values it takes)


def unique_names(least: int, most: int) -> SearchStrategy[list[str]]:
    return st.lists(NAMES, min_size=least, max_size=most, unique=True)


@st.composite
def affines(draw: DrawFn, scope: Scope, big: int = 300) -> Affine:
    """Any expression over the variables in scope, constants among them."""
    expression = Affine(draw(st.integers(-big, big)))
    for name, _ in scope:
        expression += Affine.var(name, draw(st.integers(-big, big) | st.sampled_from([0, 1, -1])))
    return expression


@st.composite
def dims_in_bounds(draw: DrawFn, extent: int, scope: Scope) -> Dim:
    """A dimension whose last index stays below `extent` for all values of the variables."""
    size = draw(st.integers(1, extent))
    step = draw(st.integers(1, max(1, (extent - 1) // (size - 1)))) if size > 1 else 1
    room = extent - 1 - (size - 1) * step
    start = Affine(draw(st.integers(0, room)))
    room -= start.base
    for name, values in scope:
        factor = draw(st.integers(0, room if values == 1 else room // (values - 1)))
        room -= factor * (values - 1)
        start += Affine.var(name, factor)
    return Dim(start, size, step)


def dims_anywhere(scope: Scope) -> SearchStrategy[Dim]:
    return st.builds(Dim, affines(scope), st.integers(1, 1000), st.integers(1, 9))


@st.composite
def regions(draw: DrawFn, data: Sequence[Tensor | Buffer], scope: Scope, *, in_bounds: bool) -> Region:
    item = draw(st.sampled_from(data))
    # A slot is taken modulo the slots, so any value is in bounds.
    slot = draw(affines(scope)) if isinstance(item, Buffer) else None
    core = None if in_bounds or slot is None else draw(st.none() | cores(scope))
    if draw(st.booleans()):
        return Region(item.name, slot, (), core)
    dims = (draw(dims_in_bounds(extent, scope) if in_bounds else dims_anywhere(scope)) for extent in item.shape)
    return Region(item.name, slot, tuple(dims), core)


@st.composite
def attribute_values(draw: DrawFn, scope: Scope) -> Attribute:
    is_affine = draw(st.booleans())
    if scope and is_affine:
        expression = draw(affines(scope))
        return expression if expression.terms else expression.base
    return draw(LITERALS)


def cores(scope: Scope) -> SearchStrategy[Dim]:
    return st.builds(Dim, affines(scope, 3), st.integers(1, 9), st.integers(1, 3))


@st.composite
def ranges(draw: DrawFn, grid: Scope) -> tuple[tuple[str, int, int], ...]:
    """For some grid variables, the first of the values at which a stream is there, and how many."""
    found = []
    for name, size in grid if draw(st.booleans()) else ():
        first = draw(st.integers(0, size - 1))
        found.append((name, first, draw(st.integers(1, size - first))))
    return tuple(found)


@st.composite
def counts(draw: DrawFn, semaphores: Sequence[Semaphore], scope: Scope) -> tuple[Count, ...]:
    if not semaphores:
        return ()
    one = st.builds(Count, st.sampled_from([s.name for s in semaphores]), st.integers(1, 9), st.none() | cores(scope))
    return tuple(draw(st.lists(one, max_size=2)))


@st.composite
def loop_trips(draw: DrawFn, grid: Scope) -> tuple[int, tuple[tuple[str, int], ...]]:
    """Trips, and grid variables with what each adds: at every point none or more, at one of them at least one."""
    trips = draw(st.integers(1, 5))
    if not draw(st.booleans()):
        return trips, ()
    drawn = [(name, draw(st.integers(-2, 3))) for name, _ in sorted(grid)]
    terms = [(name, coefficient) for name, coefficient in drawn if coefficient]
    trips += sum(max(-coefficient * (dict(grid)[name] - 1), 0) for name, coefficient in terms)
    if any(dict(grid)[name] > 1 for name, _ in terms):  # else it would be none everywhere
        trips -= draw(st.integers(0, 1))
    return trips, tuple(terms)


@st.composite
def programs(draw: DrawFn, *, in_bounds: bool = False, ops: Sequence[str] = OPS, max_loop_depth: int = 3) -> Program:
    """A whole program of up to three streams."""
    names = draw(unique_names(1, 6))
    split = draw(st.integers(0, len(names)))
    variables = draw(st.lists(st.sampled_from(VARIABLES), max_size=2, unique=True))
    grid = tuple((name, draw(st.integers(1, 4))) for name in variables)
    shapes = st.lists(st.integers(1, 64), min_size=1, max_size=3).map(tuple)
    dtypes = st.sampled_from(sorted(DTYPES))
    tensors = tuple(
        Tensor(
            name,
            draw(dtypes),
            draw(shapes),
            draw(st.sampled_from(["in", "out", "const"])),
            draw(st.sampled_from(MEMORIES)),
        )
        for name in names[:split]
    )
    buffers = tuple(
        Buffer(
            name,
            draw(dtypes),
            draw(shapes),
            draw(st.integers(1, 4)),
            draw(st.sampled_from(SPACES)),
            draw(st.integers(0, 99)),
            draw(regions(tensors, grid, in_bounds=False))
            if tensors and not in_bounds and draw(st.booleans())
            else None,
        )
        for name in names[split:]
    )
    semaphores = tuple(Semaphore(name, draw(st.integers(0, 3))) for name in draw(unique_names(0, 4)))
    data: tuple[Tensor | Buffer, ...] = (*tensors, *buffers)

    def instruction(scope: Scope) -> Instruction:
        keys = draw(st.lists(st.sampled_from(["accumulate", "activation", "factor", "wait"]), max_size=3, unique=True))
        return Instruction(
            draw(st.sampled_from(ops)),
            tuple(draw(st.lists(regions(data, scope, in_bounds=in_bounds), max_size=3))),
            tuple((key, draw(attribute_values(scope))) for key in sorted(keys)),
            draw(counts(semaphores, scope)),
            draw(counts(semaphores, scope)),
        )

    def node(scope: Scope, depth: int) -> Node:
        free = [name for name in VARIABLES if name not in dict(scope)]
        if depth < max_loop_depth and draw(st.booleans()):
            var, (trips, terms) = draw(st.sampled_from(free)), draw(loop_trips(grid))
            most = trips + sum(max(c * (size - 1), 0) for name, size in grid for term, c in terms if term == name)
            inner = (*scope, (var, most))
            return Loop(var, trips, tuple(node(inner, depth + 1) for _ in range(draw(st.integers(1, 2)))), terms)
        return instruction(scope)

    streams = tuple(
        Stream(
            name,
            tuple(node(grid, 0) for _ in range(draw(st.integers(0, 3)))),
            draw(st.integers(0, 3)),
            () if in_bounds else draw(ranges(grid)),
        )
        for name in draw(unique_names(1, 3))
    )
    place = draw(PLACES)
    texts = draw(TEXTS), draw(TEXTS), draw(TEXTS)
    at = () if in_bounds else tuple(draw(st.lists(st.integers(0, 99), max_size=3)))
    program = Program(*texts, tensors, buffers, semaphores, streams, grid, place, at=at)
    assert program.instances == math.prod(size for _, size in grid)
    return program
