"""Random inputs, repeatable from (seed, pattern, tensor)."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import numpy as np

from presil.simulators.errors import BadInput, Unsupported, nearest
from presil.simulators.formats import DTYPES

from .operator import PATTERNS, TensorSpec

_MOST_BYTES = 1 << 34  # of all tensors of a workload together


def generator(seed: int, pattern: str, tensor: str) -> np.random.Generator:
    """The random numbers of one tensor; independent of those of any other seed, pattern and tensor.

    Raises BadInput for an unknown pattern or a negative seed.
    """
    if pattern not in PATTERNS:
        raise BadInput(f"unknown input pattern '{pattern}'{nearest(pattern, PATTERNS)}; one of: {', '.join(PATTERNS)}")
    if seed < 0:
        raise BadInput(f"seed {seed} is negative")
    names = (zlib.crc32(pattern.encode()), zlib.crc32(tensor.encode()))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=names)))


def check_size(tensors: Iterable[TensorSpec]) -> None:
    """Raises Unsupported where the tensors are too large to be held: such a workload can be timed, but not executed."""
    total = sum(tensor.size_bytes for tensor in tensors)
    if total > _MOST_BYTES:
        raise Unsupported(f"the tensors take {total / 2**30:.1f} GiB; values are computed for at most 16 GiB")


def whole(rng: np.random.Generator, low: int, high: int, spec: TensorSpec) -> np.ndarray:
    """Integers of [low, high], in the tensor's format."""
    # int16 draws are quick and enough for all but int32 values.
    kind = np.int16 if low >= -(1 << 15) and high < 1 << 15 else np.int32
    drawn: np.ndarray = rng.integers(low, high, spec.shape, kind, endpoint=True)
    return drawn.astype(DTYPES[spec.dtype])


def chosen(rng: np.random.Generator, values: tuple[int, ...], spec: TensorSpec) -> np.ndarray:
    """Each element one of `values`, in the tensor's format."""
    table = np.array(values).astype(DTYPES[spec.dtype])
    drawn: np.ndarray = table[rng.integers(0, len(values), spec.shape, np.uint8)]
    return drawn


def normal(rng: np.random.Generator, scale: float, spec: TensorSpec) -> np.ndarray:
    """Normally distributed floats around 0, in the tensor's format."""
    return (rng.standard_normal(spec.shape, np.float32) * np.float32(scale)).astype(DTYPES[spec.dtype])


def wide_exponents(rng: np.random.Generator, limit: int, spec: TensorSpec) -> np.ndarray:
    """Normal floats times 2**e, with e uniform in [-limit, limit]: large and tiny ones side by side."""
    floats = rng.standard_normal(spec.shape, np.float32)
    spread: np.ndarray = np.ldexp(floats, rng.integers(-limit, limit, spec.shape, np.int8, endpoint=True))
    return spread.astype(DTYPES[spec.dtype])
