"""What an operator is, and how a workload names one at a shape.

A workload is one string: `matmul:m=512,n=512,k=512,dtype=int8`. An operator is one file in this folder that defines
`OPERATOR`; it is found by listing.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from presil.simulators.formats import size_bytes
from presil.simulators.program import Role

Arrays = Mapping[str, np.ndarray]

# random: wide and signed. extremes: the largest magnitudes, all of one sign too. marker: every slice of a sum carries a
# probe that shows when the slice is dropped. integers: floats whose sums are exact, so that results must match in every
# bit.
PATTERNS = ("random", "extremes", "marker", "integers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of an operator: an int within [low, high], or one of `words`.

    `default` None: must be given, unless `default_of` has a default for the dtype of the workload. `alike`: along this
    parameter the operator only repeats itself, and the admission test needs no more than this many (0: is not so).
    `always`: is written in the canonical text even at its default.
    """

    name: str
    doc: str
    default: int | str | None = None
    default_of: Mapping[str, int | str] = field(default_factory=dict)
    low: int = 1
    high: int = 1 << 20
    words: tuple[str, ...] = ()
    alike: int = 0
    always: bool = False

    def default_for(self, dtype: str) -> int | str | None:
        """The default in a workload of `dtype`, or None where the parameter must be given."""
        return self.default_of.get(dtype, self.default)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor of an operator. `role` is `const` for weights: what does not change between inferences."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: Role

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.elements * size_bytes(self.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What the operator must do at least: multiply-adds, vector operations, and compulsory bytes of each tensor.

    `multiply_adds` counts every tap of the definition, as published counts do. `padding_multiply_adds` of them multiply
    by padding, which a kernel may leave out: a bound on time must use `least_multiply_adds`.
    """

    multiply_adds: int
    vector_operations: int
    tensor_bytes: Mapping[str, int]
    padding_multiply_adds: int = 0

    @property
    def least_multiply_adds(self) -> int:
        """Those that no kernel can leave out."""
        return self.multiply_adds - self.padding_multiply_adds

    @property
    def flops(self) -> int:
        """Two per multiply-add, one per vector operation."""
        return 2 * self.multiply_adds + self.vector_operations


@dataclass(frozen=True, slots=True)
class Workload:
    """An operator at a shape and dtype. `parameters` holds every parameter of the operator, in its order.

    Made by `parse_workload`; prints as the canonical text, which leaves out what is at its default.
    """

    operator: str
    parameters: tuple[tuple[str, int | str], ...]

    def __getitem__(self, name: str) -> builtins.int | str:
        for key, value in self.parameters:
            if key == name:
                return value
        raise KeyError(name)

    def int(self, name: str) -> builtins.int:
        """An integer parameter."""
        value = self[name]
        assert isinstance(value, int), name
        return value

    def word(self, name: str) -> str:
        """A parameter that is one of several words."""
        value = self[name]
        assert isinstance(value, str), name
        return value

    def __str__(self) -> str:
        from .registry import canonical_text  # the registry builds workloads, so it cannot be imported above

        return canonical_text(self)


@dataclass(frozen=True, slots=True)
class Crop:
    """A smaller workload that computes a part of the outputs of a larger one: `box` of each output, from `inputs`."""

    workload: Workload
    inputs: Arrays
    box: tuple[slice, ...]


class Operator(Protocol):
    """The contract of an operator; all of it is pure."""

    @property
    def name(self) -> str:
        """The name in a workload."""

    @property
    def summary(self) -> str:
        """One line for `presil operators`."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """In canonical order."""

    def validate(self, workload: Workload) -> None:
        """Raises BadInput where parameters contradict each other."""

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """Inputs first, then constants, then outputs."""

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """Scalars that are part of the task (multiplier, shift of a requantisation): the program carries them."""

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """Arrays for all `in` and `const` tensors. `pattern`: one of `PATTERNS`.

        Raises BadInput for another pattern or a negative seed, Unsupported where the arrays are too large to hold.
        """

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """The outputs in float64 or int64, from the definition; not rounded to the format of the output."""

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """Per element of each output, float64: the largest absolute distance from the reference that the output of a
        right kernel can have, rounding to the format of the output counted in. Zeros for integers.
        """

    def work(self, workload: Workload) -> Work:
        """The least work."""

    def crop(self, workload: Workload, inputs: Arrays, stored: np.ndarray) -> Crop:
        """A workload that computes at least the elements of the output that are True in `stored`.

        For checking the beginning of a long run. The whole where the operator has nothing smaller.
        """


def uncropped(workload: Workload, inputs: Arrays, stored: np.ndarray) -> Crop:
    """The crop that leaves nothing out."""
    return Crop(workload, inputs, (slice(None),) * stored.ndim)


def enclosing(stored: np.ndarray, axis: int) -> slice:
    """The smallest range of indices along `axis` outside of which nothing is True. `stored` holds a True."""
    others = tuple(i for i in range(stored.ndim) if i != axis)
    found = np.flatnonzero(stored.any(axis=others))
    return slice(int(found[0]), int(found[-1]) + 1)


def resized(workload: Workload, **sizes: int) -> Workload:
    """`workload` with other values of some parameters."""
    return Workload(workload.operator, tuple((name, sizes.get(name, value)) for name, value in workload.parameters))
