"""Inputs of qmatmul and qconv2d: operands, zero points, biases and scales, all drawn from the seed.

`random`: x over its whole range, w around its zero point; the scale of a channel brings its sums to a standard
deviation of 1/4 to 1 times 40 (of 256 values), so that shifts differ as well.
`integers`: operands are multiples of 16 (of 4096 in int16, of 4 in int4), scales powers of two and biases multiples of
half a step of the output, so that many sums lie exactly between two outputs. There the rules of rounding differ.
`extremes`: the ends of the formats, zero points too; half of the channels have a scale that brings the largest sum
there is near the end of the output, the other half saturates.
`marker`: a probe in every slice of the sums (`probes.py`), with scales that show it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from presil.simulators.formats import DTYPES

from .operator import TensorSpec, Workload
from .patterns import check_size, chosen, generator, whole
from .probes import ProbePlan, w_probes, x_probes
from .quantisation import LIMITS, pack_int4, quantised_multipliers
from .requantisation import centred_limits, clamps

_SPREAD = {"int8": 40, "uint8": 40, "int16": 10240}  # wanted standard deviation of outputs
_ROOM = {"int8": 100, "uint8": 100, "int16": 25600}  # for probes that add up, or for the largest sum
_STEP = {"int8": 16, "uint8": 16, "int16": 4096, "int4": 4}  # of the operands of `integers`
_MOST_ZERO = {"int8": 8, "int4": 2}  # of the zero points of weights, but for `extremes`
_MOST_BIAS = (1 << 30) - 1
_MOST_SHARING = 32  # probes of one sign on one output
_MARKER_FACTOR = 1.25  # by which scales of `marker` differ
_MOVES = 2  # steps of the output, at least, where a slice of probes is dropped

Range = tuple[int, int, int]  # least, greatest, and the step between what may be drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """The sums of a workload: products of each, channels in `groups` runs, `rows` of x that can differ freely.

    `shape`: of w, unpacked [.., channels].
    """

    shape: tuple[int, ...]
    depth: int
    channels: int
    groups: int = 1
    rows: int = 1


def draw(
    workload: Workload, specs: tuple[TensorSpec, ...], sums: Sums, seed: int, pattern: str
) -> dict[str, np.ndarray]:
    """Values of all tensors but the output, in the order of `specs`."""
    check_size(specs)
    by_name = {spec.name: spec for spec in specs}
    if pattern == "marker":
        plan, real = probe_plan(workload, sums)
        x, w = _marked(workload, by_name["x"], plan, sums, seed)
    else:
        real = _SPREAD[workload.word("dtype")] / (_rms(workload, pattern) * math.sqrt(sums.depth))
        x, w = _operands(workload, by_name["x"], sums.shape, seed, pattern)
    values = {"x": x.astype(DTYPES[by_name["x"].dtype])}
    if "w_zero" in by_name:
        values["w_zero"] = _weight_zeros(workload, by_name["w_zero"], seed, pattern)
        w = w if pattern == "extremes" else w + values["w_zero"].astype(np.int32)
    values["w"] = pack_int4(w, -2) if workload["weights"] == "int4" else w.astype(np.int8)
    scales = _scales(workload, sums, real, seed, pattern)
    if "bias" in by_name:
        values["bias"] = _bias(workload, by_name["bias"], scales, seed, pattern)
    if "scale" in by_name:
        values["scale"] = scales.astype(np.float32)
    elif "multiplier" in by_name:
        values["multiplier"], values["shift"] = quantised_multipliers(scales)
    return {spec.name: values[spec.name] for spec in specs if spec.role != "out"}


def probe_plan(workload: Workload, sums: Sums) -> tuple[ProbePlan, float]:
    """Where probes go, and the scale that shows each group of them: as short a group as saturates no output."""
    x_probe, w_probe = abs(_x_probe(workload)), _amplitude(workload)
    up, down = _sides(workload)
    columns = sums.channels // sums.groups
    beside = 2 * x_probe * math.sqrt(2 * sums.depth / 3)  # twice the deviation of what weights of -1 to 1 add up to
    group = 1
    while True:
        groups = -(-sums.depth // group)
        rows = min(sums.rows, -(-groups // columns))
        shared = -(-groups // (columns * rows))
        signed = shared > _MOST_SHARING and 2 * min(up, down) >= _ROOM[workload.word("dtype")]
        room = min(_ROOM[workload.word("dtype")], min(up, down) if signed else max(up, down))
        total = group * x_probe * w_probe * (3 * math.sqrt(shared) if signed else shared) + beside
        least = group * 3 * x_probe * w_probe / 4  # of one group: x probes are at least 3/4 of the largest
        real = min(2 * _MOVES / least, room / (_MARKER_FACTOR * total))
        if real * least >= _MOVES or group >= sums.depth:
            return ProbePlan(group, groups, columns, rows, x_probe, w_probe, signed), real
        group *= 2


def _sides(workload: Workload) -> tuple[int, int]:
    """How far an output can go above and below y_zero before it is clamped."""
    out = workload.word("out")
    low, high = clamps(workload, out) if out != "int32" else LIMITS[out]
    return high - workload.int("y_zero"), workload.int("y_zero") - low


def _amplitude(workload: Workload) -> int:
    """The largest |w - w_zero| but in `extremes`."""
    weights = workload.word("weights")
    return LIMITS[weights][1] - (_MOST_ZERO[weights] if workload["w_zero"] == "yes" else 0)


def _x_probe(workload: Workload) -> int:
    """The one of the two ends of x - x_zero that is farther from 0."""
    (low, high), _ = centred_limits(workload)
    return high if high >= -low else low


def _ranges(workload: Workload, pattern: str) -> tuple[Range, Range]:
    """What is drawn of x - x_zero and of w - w_zero."""
    (low, high), _ = centred_limits(workload)
    most = _amplitude(workload)
    if pattern != "integers":
        return (low, high, 1), (-most, most, 1)
    x, w = _STEP[workload.word("dtype")], _STEP[workload.word("weights")]
    return (-(-low // x) * x, high // x * x, x), (-(most // w) * w, most // w * w, w)


def _rms(workload: Workload, pattern: str) -> float:
    """The root mean square of a product of what `_ranges` gives; w is even around 0, so that products are too."""
    of_each = (
        np.mean(np.arange(low, high + 1, step).astype(np.float64) ** 2)
        for low, high, step in _ranges(workload, pattern)
    )
    return math.sqrt(math.prod(map(float, of_each)))


def _operands(
    workload: Workload, x: TensorSpec, shape: tuple[int, ...], seed: int, pattern: str
) -> tuple[np.ndarray, np.ndarray]:
    """Values of x as stored, and of w as [.., channels], for every pattern but `marker`.

    w is stored in `extremes`, with a row or half an image of x and a column of w that give the largest sum there is;
    else w - w_zero.
    """
    w = TensorSpec("w", "int32", shape, "const")
    if pattern == "extremes":
        low, high = LIMITS[x.dtype]
        values = chosen(generator(seed, pattern, x.name), (low, low + 1, high), x)
        corner = 0 if len(x.shape) == 2 else (0, slice(-(-x.shape[1] // 2)))
        values[corner] = high if _x_probe(workload) > 0 else low
        low, high = LIMITS[workload.word("weights")]
        weights = chosen(generator(seed, pattern, w.name), (low, low + 1, high), w)
        weights[..., 0] = low
        return values, weights
    drawn = []
    for spec, (low, high, step) in zip((x, w), _ranges(workload, pattern), strict=True):
        rng = generator(seed, pattern, spec.name)
        drawn.append(low + step * rng.integers(0, (high - low) // step, spec.shape, np.int32, endpoint=True))
    return drawn[0] + workload.int("x_zero"), drawn[1]


def _marked(workload: Workload, x: TensorSpec, plan: ProbePlan, sums: Sums, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of x as stored, and of w - w_zero as [.., channels], for `marker`."""
    centred = TensorSpec("x", "int32", x.shape if sums.rows == 1 else (1, *x.shape), "in")
    hot = x_probes(plan, centred, sums.depth, seed).reshape(x.shape)
    by_group = (sums.groups, sums.depth, sums.channels // sums.groups)
    weights = w_probes(plan, by_group, TensorSpec("w", "int32", sums.shape, "const"), seed)
    up, down = _sides(workload)
    of_x, of_y = (1 if _x_probe(workload) > 0 else -1), (1 if up >= down else -1)
    return of_x * hot + workload.int("x_zero"), of_x * of_y * weights.swapaxes(0, 1).reshape(sums.shape)


def _weight_zeros(workload: Workload, spec: TensorSpec, seed: int, pattern: str) -> np.ndarray:
    rng = generator(seed, pattern, spec.name)
    weights = workload.word("weights")
    if pattern == "extremes":
        zeros = chosen(rng, (*LIMITS[weights], 0), spec)
        zeros[0] = LIMITS[weights][1]
        return zeros
    return whole(rng, -_MOST_ZERO[weights], _MOST_ZERO[weights], spec)


def _scales(workload: Workload, sums: Sums, real: float, seed: int, pattern: str) -> np.ndarray:
    """The real scale of each channel, float64; `real` is what brings its sums to the wanted spread."""
    rng = generator(seed, pattern, "scales")
    if pattern == "marker":
        return real * rng.uniform(1, _MARKER_FACTOR, sums.channels)
    factors = np.exp2(rng.uniform(-2, 0, sums.channels))
    if pattern == "integers":
        return np.exp2(np.floor(np.log2(real * factors)))
    if pattern == "extremes":
        largest = math.prod(max(-low, high) for low, high in centred_limits(workload)) * sums.depth
        full = rng.random(sums.channels) < 0.5
        return np.where(full, _ROOM[workload.word("dtype")] / largest, real) * factors
    return real * factors


def _bias(workload: Workload, spec: TensorSpec, scales: np.ndarray, seed: int, pattern: str) -> np.ndarray:
    """A bias of up to the spread of the outputs: it matters, and drowns no sum."""
    rng = generator(seed, pattern, spec.name)
    spread = _SPREAD[workload.word("dtype")]
    if pattern == "extremes":
        steps = rng.choice((-2 * spread, 0, 1, 2 * spread), spec.shape)
    elif pattern == "marker":
        steps = rng.integers(0, spread // 4, spec.shape, endpoint=True)
    else:
        steps = rng.integers(-2 * spread, 2 * spread, spec.shape, endpoint=True) / 2
    values: np.ndarray = np.clip(np.rint(steps / scales), -_MOST_BIAS, _MOST_BIAS).astype(np.int32)
    return values
