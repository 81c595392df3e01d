"""Right kernels, as a chip might compute: every step rounded to fp32, sums in one of several orders."""

import numpy as np

from presil.kernels.operators import Arrays, Workload
from presil.kernels.operators.quantisation import unpack_int4
from presil.simulators.formats import DTYPES

F32 = np.float32
EPSILON = F32(1e-5)


def forward(terms):
    """One after the other, along axis 0."""
    total = terms[0].copy()
    for term in terms[1:]:
        total += term
    return total


def backward(terms):
    return forward(terms[::-1])


def tree(terms):
    """Neighbours first, as an adder tree does."""
    while len(terms) > 1:
        pairs = terms[: len(terms) // 2 * 2]
        terms = np.concatenate([pairs[::2] + pairs[1::2], terms[len(pairs) :]])
    return terms[0]


def tiles(terms):
    """Tiles of 16, each rounded once from float64, added up one after the other."""
    starts = range(0, len(terms), 16)
    return forward(np.stack([terms[s : s + 16].astype(np.float64).sum(axis=0).astype(F32) for s in starts]))


def shuffled(terms):
    return forward(terms[np.random.default_rng(3).permutation(len(terms))])


ORDERS = (forward, backward, tree, tiles, shuffled)


def row_sum(values, order):
    return order(np.ascontiguousarray(values.T))[:, None]


def matmul(workload: Workload, inputs: Arrays, order):
    x, w = inputs["x"].astype(F32), inputs["w"].astype(F32)
    terms = np.einsum("bmk,bkn->kbmn", x, w)
    total = order(terms.astype(F32))
    if workload["bias"] == "yes":
        total = total + inputs["bias"]
    if workload["activation"] == "relu":
        total = np.maximum(total, F32(0))
    return total.astype(DTYPES[workload.word("out")])


def grouped_matmul(workload: Workload, inputs: Arrays, order):
    x, align = inputs["x"], workload.int("align")
    tiles = x.reshape(-1, align, x.shape[1])
    w = inputs["w"][inputs["expert"]]
    found = matmul(workload, {**inputs, "x": tiles, "w": w}, order)
    return found.reshape(x.shape[0], -1)


def reduction(workload: Workload, inputs: Arrays, order):
    x = inputs["x"].astype(F32)
    return row_sum(x, order) if workload["kind"] == "sum" else x.max(axis=1, keepdims=True)


def elementwise(workload: Workload, inputs: Arrays, order):
    x = inputs["x"].astype(F32)
    if workload["kind"] == "relu":
        y = np.maximum(x, F32(0))
    else:
        z = inputs["z"].astype(F32)
        y = x + z if workload["kind"] == "add" else x * z
    return y.astype(DTYPES[workload.word("dtype")])


def near(values):
    """float64 `values` in fp32, each as given: the nearest number. A test may put `two_ulps_off` in its place."""
    return values.astype(F32)


def two_ulps_off(values):
    """float64 `values` in fp32, up or down by as much as stays within 2 units in the last place."""
    nearest = values.astype(F32)
    up = np.random.default_rng(7).random(values.shape) < 0.5
    moved = nearest
    for _ in range(2):
        further = np.where(up, np.nextafter(moved, F32(np.inf)), np.nextafter(moved, F32(0)))
        moved = np.where(np.abs(further - values) <= 2 * np.spacing(np.abs(nearest)), further, moved)
    return moved


def softmax(workload: Workload, inputs: Arrays, order, rounding=near):
    x = inputs["x"].astype(F32)
    with np.errstate(under="ignore"):
        terms = rounding(np.exp((x - x.max(axis=1, keepdims=True)).astype(np.float64)))
        y = terms * rounding(1 / row_sum(terms, order).astype(np.float64))
    return y.astype(DTYPES[workload.word("dtype")])


def layernorm(workload: Workload, inputs: Arrays, order, rounding=near):
    x, scale, offset = (inputs[name].astype(F32) for name in ("x", "gamma", "beta"))
    part = F32(1 / workload.int("columns"))
    centred = x - row_sum(x, order) * part
    inverse = rounding(1 / np.sqrt((row_sum(centred * centred, order) * part + EPSILON).astype(np.float64)))
    return (centred * inverse * scale + offset).astype(DTYPES[workload.word("dtype")])


def rmsnorm(workload: Workload, inputs: Arrays, order, rounding=near):
    x, scale = (inputs[name].astype(F32) for name in ("x", "gamma"))
    part = F32(1 / workload.int("columns"))
    inverse = rounding(1 / np.sqrt((row_sum(x * x, order) * part + EPSILON).astype(np.float64)))
    return (x * (inverse * scale)).astype(DTYPES[workload.word("dtype")])


def dequantised_matmul(workload: Workload, inputs: Arrays, order):
    """Weights dequantised to the format of x before they meet it."""
    size = workload.int("k") // len(inputs["scale"])
    w = _int4(workload, inputs) * inputs["scale"].astype(F32).repeat(size, axis=0)
    w = w.astype(DTYPES[workload.word("dtype")]).astype(F32)
    terms = np.einsum("mk,kn->kmn", inputs["x"].astype(F32), w)
    return order(terms.astype(F32)).astype(DTYPES[workload.word("out")])


def scaled_behind_the_sum(workload: Workload, inputs: Arrays, order):
    """As `dequantised_matmul`, but x * q and x are summed group by group, and the scale comes last."""
    x, groups = inputs["x"].astype(F32), len(inputs["scale"])
    size = workload.int("k") // groups
    q, none = unpack_int4(inputs["w"], 0).astype(F32), np.zeros((groups, 1), np.int8)
    parts = []
    for group in range(groups):
        mine = slice(group * size, (group + 1) * size)
        total = order(np.einsum("mk,kn->kmn", x[:, mine], q[mine]).astype(F32))
        of_x = order(np.ascontiguousarray(x[:, mine].T))[:, None]
        zero = inputs.get("zero", none)[group].astype(F32)
        parts.append((total - of_x * zero) * inputs["scale"][group].astype(F32))
    return order(np.stack(parts)).astype(DTYPES[workload.word("out")])


def _int4(workload: Workload, inputs: Arrays):
    q = unpack_int4(inputs["w"], 0).astype(F32)
    if "zero" in inputs:
        q = q - inputs["zero"].astype(F32).repeat(workload.int("k") // len(inputs["zero"]), axis=0)
    return q
