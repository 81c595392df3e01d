"""The quantised operators again, as loops over elements with Python integers and fractions: hard to get wrong."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from presil.kernels.operators import Arrays, Workload

HALF = Fraction(1, 2)


def clamp(value, low, high):
    return max(low, min(high, value))


def limits(dtype):
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def upwards(value):
    return math.floor(value + HALF)


def away(value):
    return upwards(value) if value >= 0 else -upwards(-value)


def rescaled(total, rule, multiplier, shift):
    """A sum times multiplier * 2**(shift - 31), shift <= 0."""
    if rule == "tflite_double":
        return away(Fraction(upwards(Fraction(total * multiplier, 1 << 31)), 1 << -shift))
    if rule == "int16":
        return upwards(Fraction(total * upwards(Fraction(multiplier, 1 << 16)), 1 << (15 - shift)))
    return upwards(Fraction(total * multiplier, 1 << (31 - shift)))


def weight(workload: Workload, inputs: Arrays, *place):
    """The weight at [.., input channel, channel], less its zero point."""
    *front, row, channel = place
    if workload["weights"] == "int8":
        stored = int(inputs["w"][place])
    else:
        byte = int(inputs["w"][(*front, row // 2, channel)])
        nibble = byte >> 4 if row % 2 else byte & 15
        stored = nibble - 16 if nibble > 7 else nibble
    return stored - (int(inputs["w_zero"][channel]) if workload["w_zero"] == "yes" else 0)


def finished(workload: Workload, inputs: Arrays, total, channel):
    if workload["bias"] == "yes":
        total += int(inputs["bias"][channel])
    out = workload.word("out")
    if out == "int32":
        return total
    if workload["rule"] == "onnx":
        y = round(Fraction(float(np.float32(total) * inputs["scale"][channel])))
    else:
        rule = "int16" if workload["dtype"] == "int16" else workload["rule"]
        y = rescaled(total, rule, int(inputs["multiplier"][channel]), int(inputs["shift"][channel]))
    return activated(workload, out, y)


def activated(workload: Workload, out, y):
    zero, activation = workload.int("y_zero"), workload["activation"]
    y = clamp(y + zero, *limits(out))
    if activation != "none":
        y = max(y, zero)
    if activation == "relu6":
        y = min(y, zero + (20480 if out == "int16" else 80))
    return y


def qmatmul(workload: Workload, inputs: Arrays):
    m, n, k = (workload.int(name) for name in ("m", "n", "k"))
    result = np.empty((m, n), np.int64)
    for i, j in np.ndindex(m, n):
        total = sum(
            (int(inputs["x"][i, t]) - workload.int("x_zero")) * weight(workload, inputs, t, j) for t in range(k)
        )
        result[i, j] = finished(workload, inputs, total, j)
    return result


def qconv2d(workload: Workload, inputs: Arrays):
    names = ("n", "h", "w", "c", "f", "r", "s", "stride", "padding", "dilation", "groups")
    n, h, width, c, f, r, s, stride, padding, dilation, groups = (workload.int(name) for name in names)
    rows = [p for p in range(-padding, h + padding, stride) if p + dilation * (r - 1) < h + padding]
    columns = [q for q in range(-padding, width + padding, stride) if q + dilation * (s - 1) < width + padding]
    result = np.empty((n, len(rows), len(columns), f), np.int64)
    for image, p, q, out in np.ndindex(result.shape):
        first = out // (f // groups) * (c // groups)
        total = 0
        for a, b, channel in np.ndindex(r, s, c // groups):
            row, column = rows[p] + a * dilation, columns[q] + b * dilation
            if 0 <= row < h and 0 <= column < width:
                x = int(inputs["x"][image, row, column, first + channel]) - workload.int("x_zero")
                total += x * weight(workload, inputs, a, b, channel, out)
        result[image, p, q, out] = finished(workload, inputs, total, out)
    return result


def pool2d(workload: Workload, inputs: Arrays):
    names = ("n", "h", "w", "c", "r", "s", "stride", "padding")
    n, h, w, c, r, s, stride, padding = (workload.int(name) for name in names)
    rows = [p for p in range(-padding, h + padding, stride) if p + r <= h + padding]
    columns = [q for q in range(-padding, w + padding, stride) if q + s <= w + padding]
    result = np.empty((n, len(rows), len(columns), c), np.int64)
    for image, p, q, channel in np.ndindex(result.shape):
        seen = [
            int(inputs["x"][image, i, j, channel])
            for i in range(rows[p], rows[p] + r)
            for j in range(columns[q], columns[q] + s)
            if 0 <= i < h and 0 <= j < w
        ]
        result[image, p, q, channel] = max(seen) if workload["kind"] == "max" else away(Fraction(sum(seen), len(seen)))
    return result


def qelementwise(workload: Workload, inputs: Arrays):
    z = np.broadcast_to(inputs["z"], inputs["x"].shape)
    left = 15 if workload["dtype"] == "int16" else 20
    by = [(int(m), int(s)) for m, s in zip(inputs["multiplier"], inputs["shift"], strict=True)]
    result = np.empty(z.shape, np.int64)
    for place in np.ndindex(z.shape):
        a = int(inputs["x"][place]) - workload.int("x_zero")
        b = int(z[place]) - workload.int("z_zero")
        if workload["kind"] == "add":
            total = rescaled(a << left, workload["rule"], *by[0]) + rescaled(b << left, workload["rule"], *by[1])
        else:
            total = a * b
        result[place] = activated(workload, workload.word("dtype"), rescaled(total, workload["rule"], *by[-1]))
    return result


def resize(workload: Workload, inputs: Arrays):
    n, h, w, c, oh, ow = (workload.int(name) for name in ("n", "h", "w", "c", "oh", "ow"))
    grid = workload["grid"]

    def nearest(i, size, outputs):
        if grid == "half_pixel":
            place = math.floor((i + HALF) * Fraction(size, outputs))
        elif grid == "align_corners" and outputs > 1:
            place = upwards(Fraction(i * (size - 1), outputs - 1))
        else:
            place = i * size // outputs
        return [(min(place, size - 1), 1)]

    def between(i, size, outputs):
        corners = grid == "align_corners" and outputs > 1
        step = upwards(Fraction((size - corners) * 1024, outputs - corners))
        place = i * step + (step // 2 - 512 if grid == "half_pixel" else 0)
        first = max(math.floor(Fraction(place, 1024)), 0)
        second = min(max(math.ceil(Fraction(place, 1024)), 0), size - 1)
        return [(first, 1024 - (place - 1024 * first)), (second, place - 1024 * first)]

    at, whole = (nearest, 1) if workload["kind"] == "nearest" else (between, 1 << 20)
    result = np.empty((n, oh, ow, c), np.int64)
    for image, p, q, channel in np.ndindex(result.shape):
        total = sum(int(inputs["x"][image, i, j, channel]) * a * b for i, a in at(p, h, oh) for j, b in at(q, w, ow))
        result[image, p, q, channel] = away(Fraction(total, whole))
    return result


def qsoftmax(workload: Workload, inputs: Arrays):
    table, result = inputs["table"].tolist(), []
    for row in inputs["x"].tolist():
        terms = [table[max(row) - value] for value in row]
        result.append([min(upwards(Fraction(256 * term, sum(terms))) - 128, 127) for term in terms])
    return np.array(result)


def qnorm(workload: Workload, inputs: Arrays):
    multiplier, shift = int(inputs["multiplier"][0]), int(inputs["shift"][0])
    result = []
    for stored in inputs["x"].tolist():
        row = [value - workload.int("x_zero") for value in stored]
        mean = Fraction(sum(row), len(row)) if workload["kind"] == "layer" else Fraction(0)
        square = sum((value - mean) ** 2 for value in row) * len(row)  # c**2 times the variance
        root = max(math.isqrt(math.floor(square)), 1)
        steps = [upwards(128 * len(row) * (value - mean) / root) for value in row]
        sums = [t * g + b for t, g, b in zip(steps, inputs["gamma"].tolist(), inputs["beta"].tolist(), strict=True)]
        result.append(
            [clamp(rescaled(v, "tflite", multiplier, shift) + workload.int("y_zero"), -128, 127) for v in sums]
        )
    return np.array(result)


def dequantised_matmul(workload: Workload, inputs: Arrays):
    m, n, k = (workload.int(name) for name in ("m", "n", "k"))
    size = k // inputs["scale"].shape[0]
    result = np.empty((m, n))
    for i, j in np.ndindex(m, n):
        terms = []
        for t in range(k):
            nibble = int(inputs["w"][t // 2, j]) >> (4 * (t % 2)) & 15
            q = (nibble ^ 8) - 8 - (int(inputs["zero"][t // size, j]) if "zero" in inputs else 0)
            terms.append(float(inputs["x"][i, t]) * float(inputs["scale"][t // size, j]) * q)
        result[i, j] = math.fsum(terms)
    return result
