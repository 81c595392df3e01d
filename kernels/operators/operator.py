"""What an operator is, and how a workload names one at a shape.

A workload is one string: `matmul:m=512,n=512,k=512,dtype=int8`. An operator is one file in this folder that defines
`OPERATOR`; it is found by listing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from presil.simulators.program import Role

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of an operator: an int within [low, high], or one of `words`. `default` None: must be given."""

    name: str
    doc: str
    default: int | str | None = None
    low: int = 1
    high: int = 1 << 20
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor of an operator. `role` is `const` for weights: what does not change between inferences."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the operator must do at least: multiply-adds, vector operations, and compulsory bytes of each tensor."""

    multiply_adds: int
    vector_operations: int
    tensor_bytes: Mapping[str, int]

    @property
    def flops(self) -> int:
        """Two per multiply-add, one per vector operation."""
        return 2 * self.multiply_adds + self.vector_operations


@dataclass(frozen=True, slots=True)
class Workload:
    """An operator at a shape and dtype. `parameters` holds every parameter of the operator, in its order."""

    operator: str
    parameters: tuple[tuple[str, int | str], ...]

    def __getitem__(self, name: str) -> int | str:
        return dict(self.parameters)[name]

    def int(self, name: str) -> int:
        """An integer parameter."""
        value = self[name]
        assert isinstance(value, int), name
        return value


class Operator(Protocol):
    """The contract of an operator; all of it is pure."""

    name: str
    summary: str
    parameters: tuple[Parameter, ...]

    def validate(self, workload: Workload) -> None:
        """Raises BadInput where parameters contradict each other."""

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """Inputs first, then constants, then outputs."""

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """Scalars that are part of the task (multiplier, shift of a requantisation): the program carries them."""

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """Arrays for all `in` and `const` tensors. `pattern`: one of `PATTERNS` below."""

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """The outputs in float64 or int64, from the definition."""

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """Per element of each output: the largest absolute error a right kernel can have. Zeros for integers."""

    def work(self, workload: Workload) -> Work:
        """The least work."""


PATTERNS = ("random", "extremes", "marker", "integers")
