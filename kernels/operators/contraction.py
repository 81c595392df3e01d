"""What matmul and conv2d share: sums of products of length `depth`, and what is done to each sum behind them.

Integers. int8 times int8 summed in int32, bias added, then either stored as int32 or requantised to int8:

    y = clamp(((acc + bias) * multiplier + (1 << (shift - 1))) >> shift, -128, 127)     >> rounds down

that is, multiplied by the real number multiplier / 2**shift and rounded half up. `relu` clamps at 0 first. Multiplier
and shift depend on the depth alone: for independent int8 inputs, uniform over their range, a sum has the standard
deviation 5461 * sqrt(depth), and is brought to 40, so that outputs spread over int8 and few of them saturate. A depth
of at most 2**16 keeps |acc| <= 2**30 and |acc + bias| within int32.

Floats. fp8, bf16 or fp16 times the same is exact in fp32 (8, 16 and 22 significant bits of 24). A kernel may add the
`depth` products, and the fp32 bias, in any order, each addition rounded to fp32; partial sums of any shape are such an
order. With n additions, u = 2**-24 and gamma(n) = n*u / (1 - n*u) (Higham, 2002, section 4.2):

    |computed - exact| <= gamma(n) * (|x| |w| + |bias|),     n = depth - 1, and one more with a bias

Products of fp32 numbers are rounded too, which is one more (Higham, section 3.1: an inner product of length n);

and the reference's own rounding in float64 is gamma(n) with u = 2**-53. `relu` moves no two numbers apart. Where
inputs are integers and |x| |w| + |bias| < 2**24, every partial sum in every order is an integer that fp32 holds: the
bound is 0.
The output in bf16 is rounded once more, to nearest, ties to even (`rounding.output_bound`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from presil.simulators.errors import BadInput

from .operator import Arrays, Parameter, TensorSpec, Workload
from .patterns import chosen, generator, normal, whole
from .rounding import EXACT_INTEGERS, FP64_UNIT, gamma, output_bound

_OUTPUTS = {
    "int8": ("int32", "int8"),
    "fp8": ("fp32", "bf16"),
    "bf16": ("fp32", "bf16"),
    "fp16": ("fp32",),  # sums of the widest inputs overflow fp16
    "fp32": ("fp32",),
}
_MOST_INT8_DEPTH = 1 << 16
_SPREAD = 40  # wanted standard deviation of int8 outputs
_PRODUCT_SPREAD = 5461  # standard deviation of the product of two uniform int8 numbers: (256**2 - 1) / 12
_MULTIPLIER_BITS = 15
# fp32 adds 1024 products of int8 numbers exactly, in any order: no partial sum exceeds 1024 * 2**14 = 2**24.
_EXACT_DEPTH = 1024

PARAMETERS = (
    Parameter(name="dtype", doc="of the inputs", default="int8", words=tuple(_OUTPUTS), always=True),
    Parameter(
        name="out",
        doc="dtype of the output; int8 is requantised",
        default_of={dtype: outputs[0] for dtype, outputs in _OUTPUTS.items()},
        words=("int32", "int8", "fp32", "bf16"),
    ),
    Parameter(name="bias", doc="adds a bias to each output channel", default="no", words=("no", "yes")),
    Parameter(name="activation", doc="what follows", default="none", words=("none", "relu")),
)


def validate(workload: Workload, depth: int) -> None:
    """Raises BadInput where the output does not go with the input, or int32 could overflow."""
    dtype, out = workload.word("dtype"), workload.word("out")
    if out not in _OUTPUTS[dtype]:
        raise BadInput(f"'out' is '{out}'; for dtype={dtype} one of: {', '.join(_OUTPUTS[dtype])}")
    if dtype == "int8" and depth > _MOST_INT8_DEPTH:
        raise BadInput(f"sums of {depth} int8 products can overflow int32; at most {_MOST_INT8_DEPTH}")


def bias_specs(workload: Workload, channels: int) -> tuple[TensorSpec, ...]:
    """The bias tensor, [channels], if there is one: in the format of the accumulator."""
    if workload["bias"] == "no":
        return ()
    return (TensorSpec("bias", "int32" if workload["dtype"] == "int8" else "fp32", (channels,), "const"),)


def attributes(workload: Workload, depth: int) -> Mapping[str, int]:
    """`multiplier` and `shift` where the output is requantised."""
    if workload["out"] != "int8":
        return {}
    multiplier, shift = requantisation(depth)
    return {"multiplier": multiplier, "shift": shift}


def requantisation(depth: int) -> tuple[int, int]:
    """Multiplier (15 bits) and shift for sums of `depth` int8 products. In integers: the same on every machine."""
    for shift in range(1, 64):
        multiplier = math.isqrt((_SPREAD << shift) ** 2 // (_PRODUCT_SPREAD**2 * depth))
        if multiplier >= 1 << (_MULTIPLIER_BITS - 1):
            return multiplier, shift
    raise AssertionError(depth)


def accumulator_step(depth: int) -> int:
    """By how much a sum must change to change an int8 output by 1."""
    multiplier, shift = requantisation(depth)
    return -(-(1 << shift) // multiplier)


def bias_values(workload: Workload, spec: TensorSpec, depth: int, seed: int, pattern: str) -> np.ndarray:
    """A bias that matters in every pattern, and drowns the sums in none but `extremes`."""
    rng = generator(seed, pattern, spec.name)
    if spec.dtype == "fp32":
        return normal(rng, math.sqrt(depth), spec) if pattern in ("random", "extremes") else whole(rng, -64, 64, spec)
    step = accumulator_step(depth)
    if pattern == "extremes":
        # A bias beyond the range of int8 outputs would hide the sums.
        far = 2 * _SPREAD * step if workload["out"] == "int8" else 1 << 24
        return chosen(rng, (-far, 0, step, far), spec)
    if pattern == "marker":
        return whole(rng, 0, 10 * step, spec)
    return whole(rng, -_SPREAD * step, _SPREAD * step, spec)


def product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The product x @ w in float64, for [.., m, k] and [.., k, n]: exact for int8, rounded as float64 does for floats.

    int8 goes through BLAS in fp32, in slices of k whose sums fp32 holds exactly. The float64 total is exact as well, as
    k * 2**14 is far below 2**53.
    """
    if x.dtype != np.int8:
        exact: np.ndarray = np.matmul(x.astype(np.float64), w.astype(np.float64))
        return exact
    depth = x.shape[-1]
    total: np.ndarray = _fp32_product(x[..., :_EXACT_DEPTH], w[..., :_EXACT_DEPTH, :]).astype(np.float64)
    for start in range(_EXACT_DEPTH, depth, _EXACT_DEPTH):
        stop = start + _EXACT_DEPTH
        total += _fp32_product(x[..., start:stop], w[..., start:stop, :])
    return total


def magnitude_product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """At least |x| @ |w|, hardly more: computed in fp32, then widened by what fp32 may have lost."""
    lost = 2 * gamma(x.shape[-1] + 1)
    return _fp32_product(np.abs(x), np.abs(w)).astype(np.float64) * (1 + lost)


def _fp32_product(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    sums: np.ndarray = np.matmul(x.astype(np.float32), w.astype(np.float32))
    return sums


def finish(workload: Workload, depth: int, total: np.ndarray, inputs: Arrays) -> np.ndarray:
    """The outputs from the sums of products, [.., channels]: int64 or float64."""
    integers = workload["dtype"] == "int8"
    result = total.astype(np.int64) if integers else total
    if workload["bias"] == "yes":
        result = result + inputs["bias"].astype(result.dtype)
    if workload["activation"] == "relu":
        result = np.maximum(result, 0)
    if workload["out"] == "int8":
        multiplier, shift = requantisation(depth)
        result = np.clip((result * multiplier + (1 << (shift - 1))) >> shift, -128, 127)
    return result


def float_bound(
    workload: Workload, depth: int, magnitude: np.ndarray, inputs: Arrays, reference: np.ndarray | None
) -> np.ndarray:
    """The bound of the module's text. `magnitude` is |x| |w|; `reference` is needed for bf16 outputs only."""
    additions = depth if workload["dtype"] == "fp32" else depth - 1
    if workload["bias"] == "yes":
        additions += 1
        magnitude = magnitude + np.abs(inputs["bias"].astype(np.float64))
    error = (gamma(additions) + gamma(additions, FP64_UNIT)) * magnitude
    if all(_all_integers(values) for values in inputs.values()):
        error = np.where(magnitude < EXACT_INTEGERS, 0.0, error)
    out = workload.word("out")
    if out == "fp32":
        return error
    assert reference is not None, out
    return output_bound(reference, error, out)


def _all_integers(values: np.ndarray) -> bool:
    floats = values.astype(np.float32)
    return bool(np.array_equal(floats, np.rint(floats)))


def vector_operations(workload: Workload, outputs: int) -> int:
    """One for each output that is requantised, cast or activated. A bias alone is none: sums can start from it."""
    behind = workload["out"] in ("int8", "bf16") or workload["activation"] == "relu"
    return outputs if behind else 0
