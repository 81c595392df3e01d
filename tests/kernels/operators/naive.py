"""The operators again, as loops over single elements with Python numbers: slow, and hard to get wrong."""

from __future__ import annotations

import math

import numpy as np

from presil.kernels.operators import Arrays, Workload

EPSILON = 1e-5


def clamp(value: int) -> int:
    return max(-128, min(127, value))


def finished(total, channel, workload, inputs, attributes):
    """Bias, relu and requantisation of one sum, as the contract has them."""
    if workload["bias"] == "yes":
        total += inputs["bias"][channel].item()
    if workload["activation"] == "relu":
        total = max(total, 0)
    if workload["out"] == "int8":
        half = 1 << (attributes["shift"] - 1)
        # Floor division of Python integers is the arithmetic shift.
        total = clamp((total * attributes["multiplier"] + half) // (1 << attributes["shift"]))
    return total


def matmul(workload: Workload, inputs: Arrays, attributes) -> np.ndarray:
    x, w = inputs["x"].tolist(), inputs["w"].tolist()
    batch, m, n, k = (workload.int(name) for name in ("batch", "m", "n", "k"))
    return np.array(
        [
            [
                [
                    finished(sum(x[b][i][t] * w[b][t][j] for t in range(k)), j, workload, inputs, attributes)
                    for j in range(n)
                ]
                for i in range(m)
            ]
            for b in range(batch)
        ]
    )


def conv2d(workload: Workload, inputs: Arrays, attributes) -> np.ndarray:
    x, w = inputs["x"].tolist(), inputs["w"].tolist()
    names = ("n", "h", "w", "c", "f", "r", "s", "stride", "padding", "dilation", "groups")
    n, h, width, c, f, r, s, stride, padding, dilation, groups = (workload.int(name) for name in names)
    rows = [p for p in range(-padding, h + padding, stride) if p + dilation * (r - 1) < h + padding]
    columns = [q for q in range(-padding, width + padding, stride) if q + dilation * (s - 1) < width + padding]
    result = np.empty((n, len(rows), len(columns), f), dtype=object)
    for image, p, q, out in np.ndindex(result.shape):
        group = out // (f // groups)
        total = 0
        for a in range(r):
            for b in range(s):
                row, column = rows[p] + a * dilation, columns[q] + b * dilation
                if 0 <= row < h and 0 <= column < width:
                    for channel in range(c // groups):
                        total += x[image][row][column][group * (c // groups) + channel] * w[a][b][channel][out]
        result[image, p, q, out] = finished(total, out, workload, inputs, attributes)
    return result.astype(np.int64 if workload["dtype"] == "int8" else np.float64)


def grouped_matmul(workload: Workload, inputs: Arrays, attributes) -> np.ndarray:
    x, w, experts = inputs["x"].tolist(), inputs["w"].tolist(), inputs["expert"].tolist()
    m, n, k, align = (workload.int(name) for name in ("m", "n", "k", "align"))
    result = []
    for i in range(m):
        own = w[experts[i // align]]
        sums = [sum(x[i][t] * own[t][j] for t in range(k)) for j in range(n)]
        result.append([finished(total, j, workload, inputs, attributes) for j, total in enumerate(sums)])
    return np.array(result)


def elementwise(workload: Workload, inputs: Arrays, attributes) -> np.ndarray:
    x = inputs["x"]
    result = np.empty(x.shape, dtype=object)
    for place in np.ndindex(x.shape):
        a, b = x[place].item(), inputs["z"][place].item() if "z" in inputs else None
        value = {
            "add": lambda a=a, b=b: a + b,
            "multiply": lambda a=a, b=b: a * b,
            "relu": lambda a=a: max(0, a),
        }[workload.word("kind")]()
        result[place] = clamp(value) if workload["dtype"] == "int8" else value
    return result.astype(np.int64 if workload["dtype"] == "int8" else np.float64)


def reduction(workload: Workload, inputs: Arrays, attributes) -> np.ndarray:
    combine = math.fsum if workload["kind"] == "sum" else max
    return np.array([[combine(row)] for row in inputs["x"].astype(np.float64).tolist()])


def softmax(workload: Workload, inputs: Arrays, attributes) -> np.ndarray:
    result = []
    for row in inputs["x"].astype(np.float64).tolist():
        terms = [math.exp(value - max(row)) for value in row]
        result.append([term / math.fsum(terms) for term in terms])
    return np.array(result)


def layernorm(workload: Workload, inputs: Arrays, attributes) -> np.ndarray:
    gamma, beta = (inputs[name].astype(np.float64).tolist() for name in ("gamma", "beta"))
    result = []
    for row in inputs["x"].astype(np.float64).tolist():
        mean = math.fsum(row) / len(row)
        variance = math.fsum((value - mean) ** 2 for value in row) / len(row)
        deviation = math.sqrt(variance + EPSILON)
        result.append([(v - mean) / deviation * g + b for v, g, b in zip(row, gamma, beta, strict=True)])
    return np.array(result)


def rmsnorm(workload: Workload, inputs: Arrays, attributes) -> np.ndarray:
    gamma = inputs["gamma"].astype(np.float64).tolist()
    result = []
    for row in inputs["x"].astype(np.float64).tolist():
        scale = math.sqrt(math.fsum(value * value for value in row) / len(row) + EPSILON)
        result.append([value / scale * g for value, g in zip(row, gamma, strict=True)])
    return np.array(result)
