"""Right kernels, as a chip might compute: every step rounded to fp32, sums in one of several orders."""

import numpy as np

from presil.kernels.operators import Arrays, Workload
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


def exp(values):
    """Rounded once: half a unit in the last place."""
    return np.exp(values.astype(np.float64)).astype(F32)


def softmax(workload: Workload, inputs: Arrays, order):
    x = inputs["x"].astype(F32)
    with np.errstate(under="ignore"):
        terms = exp(x - x.max(axis=1, keepdims=True))
        y = terms * (F32(1) / row_sum(terms, order))
    return y.astype(DTYPES[workload.word("dtype")])


def layernorm(workload: Workload, inputs: Arrays, order):
    x, scale, offset = (inputs[name].astype(F32) for name in ("x", "gamma", "beta"))
    part = F32(1 / workload.int("columns"))
    centred = x - row_sum(x, order) * part
    inverse = F32(1) / np.sqrt(row_sum(centred * centred, order) * part + EPSILON)
    return (centred * inverse * scale + offset).astype(DTYPES[workload.word("dtype")])


def rmsnorm(workload: Workload, inputs: Arrays, order):
    x, scale = (inputs[name].astype(F32) for name in ("x", "gamma"))
    part = F32(1 / workload.int("columns"))
    inverse = F32(1) / np.sqrt(row_sum(x * x, order) * part + EPSILON)
    return (x * (inverse * scale)).astype(DTYPES[workload.word("dtype")])
