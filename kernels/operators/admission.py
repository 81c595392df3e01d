"""The admission test of a task: a kernel that does nothing of the work must fail its check, or the task is refused."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from presil.simulators.errors import BadInput
from presil.simulators.formats import DTYPES

from .operator import Operator, Workload

_TRIES = 16


def wrong_elements(actual: np.ndarray, reference: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Where `actual` is not within `bound` of `reference`: a mask. NaN and infinity are wrong everywhere."""
    wide = np.int64 if reference.dtype == np.int64 else np.float64
    with np.errstate(invalid="ignore"):
        right: np.ndarray = np.abs(actual.astype(wide) - reference) <= bound
    return ~right


def admit(operator: Operator, workload: Workload, seed: int = 0) -> None:
    """Raises BadInput where a kernel passes that knows nothing of its inputs, or only hands some of them on.

    Tried on inputs of `random`, and on no more of what is alike (rows, images) than it takes; where outputs are so few
    that a kernel can be right by chance, on several.
    """
    small = _cut(operator, workload)
    passing = None
    for number in range(_TRIES):
        found = _passing(operator, small, seed + number, seed + _TRIES)
        passing = found if passing is None else [says for says in passing if says in found]
        if not passing:
            return
    assert passing, _TRIES
    raise BadInput(f"task {workload} is refused: a kernel that returns {passing[0]} passes its check")


def _passing(operator: Operator, workload: Workload, seed: int, other_seed: int) -> list[str]:
    """What a kernel can return that is right on the inputs of `seed`; all that it may know is those of `other_seed`."""
    inputs = operator.inputs(workload, seed, "random")
    references, bounds = operator.reference(workload, inputs), operator.error_bound(workload, inputs)
    other = operator.reference(workload, operator.inputs(workload, other_seed, "random"))
    outputs = [spec for spec in operator.tensors(workload) if spec.role == "out"]
    copied = next((inputs[spec.name] for spec in operator.tensors(workload) if spec.role == "in"), None)
    found = []
    for spec in outputs:
        reference, bound = references[spec.name], bounds[spec.name]
        for says, values in _trivial(reference, other[spec.name], copied):
            if not wrong_elements(_stored(values, spec.dtype), reference, bound).any():
                found.append(says)
    return found


def _trivial(reference: np.ndarray, other: np.ndarray, copied: np.ndarray | None) -> Iterator[tuple[str, np.ndarray]]:
    """What kernels return that do none of the work. `other` is the right answer to other inputs."""
    yield "zeros", np.zeros(reference.shape)
    yield "a constant", np.full(reference.shape, float(other.mean()))
    yield "the answer to other inputs", other
    if copied is not None and copied.size == reference.size:
        yield "its input", copied.reshape(reference.shape)
    rows = reference.reshape(-1, reference.shape[-1])
    if len(rows) > 1:
        yield "its first row everywhere", np.broadcast_to(rows[:1], rows.shape).reshape(reference.shape)


def _stored(values: np.ndarray, dtype: str) -> np.ndarray:
    """`values` as an output tensor of `dtype` holds them."""
    kind = DTYPES[dtype]
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return np.clip(np.rint(values.astype(np.float64)), limits.min, limits.max).astype(np.int64)
    return values.astype(kind)


def _cut(operator: Operator, workload: Workload) -> Workload:
    """The same task with fewer of what is alike."""
    enough = {p.name: p.alike for p in operator.parameters if p.alike}
    return Workload(
        workload.operator,
        tuple(
            (name, min(value, enough.get(name, value)) if isinstance(value, int) else value)
            for name, value in workload.parameters
        ),
    )
