"""Matrix multiplication of float activations by int4 weights, dequantised group by group: a language model's GEMV.

    y[i, j] = sum over t of x[i, t] * w[t, j],     w[t, j] = scale[t // group, j] * (q[t, j] - zero[t // group, j])

q is two's complement int4, packed along t, the even t in the low nibble (an unsigned nibble with zero point 8 is the
same with its top bit flipped); scales have the format of x but for fp32, where they are fp16; zero points, if any, are
int8 from -8 to 7.

Error bound. A kernel may dequantise a weight to the format of x (rounded once, u_d = 2**-11 fp16, 2**-8 bf16, 2**-24
fp32; what is too small for fp16 is off by 2**-25 at most), multiply and sum in fp32 in any order; or sum x * q of a
group first, take off zero times the sum of x, and scale the rest, which rounds three times more a group and no weight.
Products are exact in fp32 but for those of fp32. With k terms, at most k + 2 roundings of a term, u = 2**-24:

    |y' - y| <= ((1 + u_d) * (1 + gamma(k + 2)) - 1) * |x| |w| + 2**-25 * sum |x|,     then rounded to the format of y

(bf16 and fp32 lose what is below 2**-126 instead). Where x and w are integers, w is exact in the format, and
|x| |w| < 2**24, all sums are exact: 0. A zero point may be taken off behind the sum, so |w| stands for scale * (|q| +
|zero|).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from presil.simulators.errors import BadInput
from presil.simulators.formats import DTYPES

from .operator import Arrays, Crop, Operator, Parameter, TensorSpec, Work, Workload, enclosing, resized
from .patterns import check_size, chosen, generator, normal, whole, wide_exponents
from .quantisation import LIMITS, pack_int4, unpack_int4
from .rounding import EXACT_INTEGERS, FP32_UNIT, FP64_UNIT, LEAST_NORMAL, gamma, output_bound

_UNIT: Mapping[str, float] = {"fp16": 2.0**-11, "bf16": 2.0**-8, "fp32": FP32_UNIT}
_LOST: Mapping[str, float] = {"fp16": 2.0**-25, "bf16": LEAST_NORMAL, "fp32": LEAST_NORMAL}
_OUTPUTS = {"fp16": ("fp32",), "bf16": ("fp32", "bf16"), "fp32": ("fp32",)}  # wide sums overflow fp16
_GROUPS = ("32", "64", "128", "all")
_EXPONENTS = {"fp16": 8, "bf16": 30, "fp32": 30}  # of x in `extremes`
_LEAST_SCALE, _MOST_SCALE = 2.0**-7, 2.0**-4


class DequantisedMatmul:
    """x [m, k], constants w [k/2, n] (uint8), scale [groups, n] and perhaps zero [groups, n] (int8); y [m, n]."""

    name = "dequantised_matmul"
    summary = "matrix multiplication of floats by int4 weights with a scale for each group"
    parameters = (
        Parameter(name="m", doc="rows of the output; 1: GEMV", default=1, alike=64),
        Parameter(name="n", doc="columns of the output", alike=64),
        Parameter(name="k", doc="length of the sums"),
        Parameter(name="group", doc="neighbours along k that share a scale", default="128", words=_GROUPS),
        Parameter(name="dtype", doc="of x", default="fp16", words=tuple(_OUTPUTS), always=True),
        Parameter(name="out", doc="dtype of the output", default="fp32", words=("fp32", "bf16")),
        Parameter(name="zero", doc="a zero point for each group", default="no", words=("no", "yes")),
    )

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""
        dtype, out, k = workload.word("dtype"), workload.word("out"), workload.int("k")
        if out not in _OUTPUTS[dtype]:
            raise BadInput(f"'out' is '{out}'; for dtype={dtype} one of: {', '.join(_OUTPUTS[dtype])}")
        if k % 2:
            raise BadInput(f"'k' is {k}; int4 weights are packed in pairs along k: an even number is needed")
        if k % _group(workload):
            raise BadInput(f"'k' is {k}; a multiple of group={workload['group']} is needed")

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        m, n, k = (workload.int(name) for name in ("m", "n", "k"))
        dtype, groups = workload.word("dtype"), k // _group(workload)
        zero = (TensorSpec("zero", "int8", (groups, n), "const"),) if workload["zero"] == "yes" else ()
        return (
            TensorSpec("x", dtype, (m, k), "in"),
            TensorSpec("w", "uint8", (k // 2, n), "const"),
            TensorSpec("scale", "bf16" if dtype == "bf16" else "fp16", (groups, n), "const"),
            *zero,
            TensorSpec("y", workload.word("out"), (m, n), "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return {}

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`. `marker`: whole numbers, whose sums are exact, and no weight is 0."""
        specs = self.tensors(workload)
        check_size(specs)
        return {spec.name: _values(workload, spec, seed, pattern) for spec in specs if spec.role != "out"}

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        y: np.ndarray = np.matmul(inputs["x"].astype(np.float64), _weights(workload, inputs))
        return {"y": y}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`, and the derivation above."""
        dtype, k = workload.word("dtype"), workload.int("k")
        magnitude = np.abs(inputs["x"].astype(np.float64))
        scale = np.abs(inputs["scale"].astype(np.float64)).repeat(_group(workload), axis=0)
        weights = scale * np.abs(unpack_int4(inputs["w"], 0))
        if "zero" in inputs:
            weights += scale * np.abs(inputs["zero"].astype(np.float64)).repeat(_group(workload), axis=0)
        products = magnitude @ weights
        relative = (1 + _UNIT[dtype]) * (1 + gamma(k + 2)) - 1 + gamma(k, FP64_UNIT)
        error = relative * products + _LOST[dtype] * magnitude.sum(axis=1, keepdims=True)
        if all(np.array_equal(v, np.rint(v)) for v in (magnitude, _weights(workload, inputs), scale)):
            error = np.where(products < EXACT_INTEGERS, 0.0, error)
        return {"y": output_bound(self.reference(workload, inputs)["y"], error, workload.word("out"))}

    def crop(self, workload: Workload, inputs: Arrays, stored: np.ndarray) -> Crop:
        """The rows and columns that enclose what is stored; sums stay whole."""
        rows, columns = box = tuple(enclosing(stored, axis) for axis in range(2))
        sizes = {n: s.stop - s.start for n, s in zip(("m", "n"), box, strict=True)}
        part = {name: values[:, columns] for name, values in inputs.items() if name != "x"}
        return Crop(resized(workload, **sizes), {"x": inputs["x"][rows], **part}, box)

    def work(self, workload: Workload) -> Work:
        """The multiply-adds are m * n * k; of vector operations none is sure: a scale can go into x, w or a sum."""
        specs = self.tensors(workload)
        return Work(
            multiply_adds=specs[-1].elements * workload.int("k"),
            vector_operations=0,
            tensor_bytes={spec.name: spec.size_bytes for spec in specs},
        )


def _group(workload: Workload) -> int:
    word = workload.word("group")
    return workload.int("k") if word == "all" else int(word)


def _weights(workload: Workload, inputs: Arrays) -> np.ndarray:
    """The dequantised weights [k, n], float64: exact."""
    weights: np.ndarray = unpack_int4(inputs["w"], 0).astype(np.float64)
    group = _group(workload)
    if "zero" in inputs:
        weights -= inputs["zero"].astype(np.float64).repeat(group, axis=0)
    weights *= inputs["scale"].astype(np.float64).repeat(group, axis=0)
    return weights


def _values(workload: Workload, spec: TensorSpec, seed: int, pattern: str) -> np.ndarray:
    rng = generator(seed, pattern, spec.name)
    exact = pattern in ("integers", "marker")
    if spec.name == "x":
        if exact:  # sums of up to 2**16 products of at most 15 * 4 stay below 2**24 while |x| is 4 or less
            return whole(rng, 1, 4, spec) if pattern == "marker" else whole(rng, -4, 4, spec)
        return wide_exponents(rng, _EXPONENTS[spec.dtype], spec) if pattern == "extremes" else normal(rng, 3, spec)
    if spec.name == "scale":
        if exact:  # powers of two, no two neighbours alike: a scale of the wrong group shows
            groups, columns = np.indices(spec.shape, sparse=True)
            powers: np.ndarray = np.exp2((groups + columns + seed) % 3)
            return powers.astype(DTYPES[spec.dtype])
        signs = rng.choice((-1.0, 1.0), spec.shape) if pattern == "extremes" else 1.0
        return (signs * rng.uniform(_LEAST_SCALE, _MOST_SCALE, spec.shape)).astype(DTYPES[spec.dtype])
    low, high = LIMITS["int4"]
    if spec.name == "zero":
        return chosen(rng, (low, 0, high), spec) if pattern == "extremes" else whole(rng, -3, 3, spec)
    shape = (2 * spec.shape[0], *spec.shape[1:])
    q = rng.integers(low, high, shape, np.int8, endpoint=True)
    if pattern == "extremes":
        q = rng.choice(np.array((low, high), np.int8), shape)
    elif pattern == "marker":
        q = rng.integers(4, high, shape, np.int8, endpoint=True)  # above every zero point
    return pack_int4(q, 0)


OPERATOR: Operator = DequantisedMatmul()
