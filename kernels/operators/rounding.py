"""Rounding of floats: to a format, and how far sums in fp32 can stray (Higham, Accuracy and Stability, 2002, ch. 3)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

FP32_UNIT = 2.0**-24  # unit roundoff: half a unit in the last place of 1
FP64_UNIT = 2.0**-53
EXACT_INTEGERS = 1 << 24  # fp32 holds every integer up to this one
LEAST_NORMAL = 2.0**-126  # of fp32 and bf16; what is smaller may be flushed to zero

_SIGNIFICAND_BITS: Mapping[str, int] = {"fp32": 24, "fp16": 11, "bf16": 8}
_LEAST_EXPONENT: Mapping[str, int] = {"fp32": -125, "fp16": -13, "bf16": -125}  # of a normal number 0.5 to 1 times 2**e


def gamma(operations: int, unit: float = FP32_UNIT) -> float:
    """How far from 1 the product of n factors (1 + error) can be, each |error| <= u: n*u / (1 - n*u)."""
    return operations * unit / (1 - operations * unit)


def half_ulp(values: np.ndarray, dtype: str) -> np.ndarray:
    """Half the distance between neighbours of `dtype` at |values|: the most that rounding to nearest moves them."""
    _, exponent = np.frexp(np.abs(values))
    half: np.ndarray = np.ldexp(0.5, np.maximum(exponent, _LEAST_EXPONENT[dtype]) - _SIGNIFICAND_BITS[dtype])
    return half


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """float64 `values` rounded once to nearest, ties to even, to `dtype`; as float64.

    Numpy's cast from float64 to bf16 goes by way of fp32 and so rounds twice.
    """
    ulp = 2 * half_ulp(values, dtype)
    nearest: np.ndarray = np.rint(values / ulp) * ulp
    return nearest


def output_bound(reference: np.ndarray, error: np.ndarray, dtype: str) -> np.ndarray:
    """The bound on an output in `dtype`, where `error` bounds what was computed in fp32 before the last rounding.

    Where `error` is 0 the value before rounding is known, so only its rounding to nearest is right.
    """
    if dtype == "fp32":  # computed in fp32: already rounded
        return error
    nearest = np.abs(rounded(reference, dtype) - reference)
    bound: np.ndarray = np.where(error == 0, nearest, error + half_ulp(np.abs(reference) + error, dtype))
    return bound
