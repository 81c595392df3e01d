"""Attention: y[i] = sum over j of p[i, j] * v[j], p[i] the softmax over j of s[i, j] = q[i] . k[j] / sqrt(head).

`heads` query heads share `kv_heads` key/value heads, as many neighbours each. Where `causal`, query i sees keys up to
i + kv - q: the last query sees all.

Error bound, for kernels that go over the keys in blocks with a running maximum (FlashAttention, Dao et al. 2022) and
for those that do not. With u = 2**-24, u_d the unit roundoff of the format of the tensors (2**-8 bf16, 2**-11 fp16), T
blocks (16 keys at least each) and R[i] the largest |s[i, j]|:

1. A score is a sum of `head` exact products in fp32, scaled by rounded constants (perhaps by log2(e) too): it is off by
   E[i, j] = gamma(head + 4) * (|q[i]| . |k[j]|) / sqrt(head) at most.
2. It is taken from a maximum (rounded, at most 2R large), its exponential is off by 4u, and each of T rescalings is one
   exponential and one product: together r[i] = (4R + 4 + 6T) u. Whatever the maximum was, it cancels in the quotient.
3. Weights are rounded to the format before they meet v: u_d, and what is too small for the format is lost: a_d = 2**-25
   of the largest weight in fp16, 2**-126 in bf16.
4. Sums over kv terms in fp32, in any order, with T rescalings: gamma(kv + T), numerator and denominator alike.

So each weight is off by the factor 1 + A[i, j] at most, A = exp(E + r) (1 + u_d) (1 + gamma(kv + T)) - 1, the sum of
weights by B[i] = sum p A, and the quotient (5u more) by

    |y' - y| <= (sum p (A + B) |v| + a_d sum |v|) / (1 - B), then rounded to the format of y.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from presil.simulators.errors import BadInput
from presil.simulators.formats import DTYPES, size_bytes

from . import paging
from .operator import Arrays, Crop, Operator, Parameter, TensorSpec, Work, Workload, enclosing, resized
from .patterns import check_size, generator
from .rounding import FP32_UNIT, LEAST_NORMAL, gamma, output_bound
from .rowwise import SECOND_ORDER

_UNIT: Mapping[str, float] = {"bf16": 2.0**-8, "fp16": 2.0**-11}
_LOST: Mapping[str, float] = {"bf16": LEAST_NORMAL, "fp16": 2.0**-25}
_LEAST_BLOCK = 16  # keys
_HIDDEN = -np.inf
_HOT = 6.0  # score of the keys that `marker` makes heavy: e**6 = 403 times the others
_HEAD_STEP = 7  # heads are hot for other keys than their neighbours

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # queries [g, rows, head], keys and values [g, kv, head], in float64


class Attention:
    """q [batch, heads, q, head], k and v [batch, kv_heads, kv, head]; y like q. All of one dtype.

    With `page`, k and v lie in pages of `k_pool` and `v_pool` that `table` names: see `paging.py`.
    """

    name = "attention"
    summary = "softmax(q k' / sqrt(head)) v, with grouped heads, a causal mask, keys and values in pages"
    parameters = (
        Parameter(name="batch", doc="independent sequences", default=1, alike=1),
        Parameter(name="heads", doc="query heads"),
        Parameter(name="kv_heads", doc="key and value heads; heads is a multiple"),
        Parameter(name="q", doc="queries of a sequence"),
        Parameter(name="kv", doc="keys of a sequence"),
        Parameter(name="head", doc="elements of a head", high=1024),
        Parameter(name="dtype", doc="of all tensors", default="bf16", words=("bf16", "fp16"), always=True),
        Parameter(name="causal", doc="queries see no later keys", default="false", words=("false", "true")),
        paging.PARAMETER,
    )

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""
        heads, kv_heads, q, kv = (workload.int(n) for n in ("heads", "kv_heads", "q", "kv"))
        if heads % kv_heads:
            raise BadInput(f"'heads' is {heads}; a multiple of kv_heads={kv_heads} is needed")
        if workload["causal"] == "true" and kv < q:
            raise BadInput(f"'kv' is {kv}; causal, each of the {q} queries needs a key to see")

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        batch, heads, kv_heads, q, kv, head = _sizes(workload)
        dtype = workload.word("dtype")
        held = tuple(TensorSpec(name, dtype, (batch, kv_heads, kv, head), "in") for name in ("k", "v"))
        return (
            TensorSpec("q", dtype, (batch, heads, q, head), "in"),
            *(paging.paged_specs(workload) if workload.int("page") else held),
            TensorSpec("y", dtype, (batch, heads, q, head), "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return {}

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`. `extremes` has scores of some hundreds; `marker` makes some keys of each query heavy."""
        check_size(self.tensors(workload))
        specs = self.tensors(resized(workload, page=0))
        drawn = {spec.name: _values(spec, workload, seed, pattern) for spec in specs if spec.role != "out"}
        return paging.paged(workload, drawn, seed, pattern) if workload.int("page") else drawn

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        workload, inputs = paging.in_one_piece(workload, inputs)
        y = np.empty(self.tensors(workload)[-1].shape)
        for where, rows in _groups(workload, inputs):
            y[where] = _softmax(_scores(workload, rows)) @ rows[2]
        return {"y": y}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`, and the derivation above."""
        workload, inputs = paging.in_one_piece(workload, inputs)
        dtype, head, kv = workload.word("dtype"), workload.int("head"), workload.int("kv")
        blocks = -(-kv // _LEAST_BLOCK)
        bound = np.empty(self.tensors(workload)[-1].shape)
        for where, rows in _groups(workload, inputs):
            queries, keys, values = rows
            scores = _scores(workload, rows)
            weights = _softmax(scores)
            off = gamma(head + 4) / math.sqrt(head) * (np.abs(queries) @ np.abs(keys).swapaxes(-1, -2))
            seen = np.where(np.isfinite(scores), np.abs(scores), 0.0)
            most = seen.max(axis=-1, keepdims=True)
            exponent = off + (4 * most + 4 + 6 * blocks) * FP32_UNIT
            each = np.exp(exponent) * (1 + _UNIT[dtype]) * (1 + gamma(kv + blocks)) - 1
            total = (weights * each).sum(axis=-1, keepdims=True)
            magnitude = np.abs(values)
            error = (weights * (each + total + 5 * FP32_UNIT)) @ magnitude
            error += _LOST[dtype] * magnitude.sum(axis=-2, keepdims=True)
            error *= SECOND_ORDER / (1 - np.minimum(total, 0.5))
            bound[where] = output_bound(weights @ values, error, dtype)
        return {"y": bound}

    def crop(self, workload: Workload, inputs: Arrays, stored: np.ndarray) -> Crop:
        """Whole groups of heads, and the queries that enclose what is stored, with the keys that they see.

        Without pages.
        """
        workload, inputs = paging.in_one_piece(workload, inputs)
        batch, heads, rows = (enclosing(stored, axis) for axis in range(3))
        shared = workload.int("heads") // workload.int("kv_heads")
        groups = slice(heads.start // shared, -(-heads.stop // shared))
        heads = slice(groups.start * shared, groups.stop * shared)
        kv = workload.int("kv")
        if workload["causal"] == "true":
            kv += rows.stop - workload.int("q")
        sizes = {
            "batch": batch.stop - batch.start,
            "heads": heads.stop - heads.start,
            "kv_heads": groups.stop - groups.start,
            "q": rows.stop - rows.start,
            "kv": kv,
        }
        part = {
            "q": inputs["q"][batch, heads, rows],
            "k": inputs["k"][batch, groups, :kv],
            "v": inputs["v"][batch, groups, :kv],
        }
        return Crop(resized(workload, **sizes), part, (batch, heads, rows, slice(None)))

    def work(self, workload: Workload) -> Work:
        """Two products of `head` for each query and key it sees; maximum, subtract, exp, sum, rescale for each pair.

        Of pools, only what is of a sequence needs to move.
        """
        batch, heads, kv_heads, q, kv, head = _sizes(workload)
        pairs = q * kv
        if workload["causal"] == "true":
            pairs -= q * (q - 1) // 2
        pairs *= batch * heads
        size = batch * kv_heads * kv * head * size_bytes(workload.word("dtype"))
        held = dict.fromkeys(paging.POOLS.values(), size)
        return Work(
            multiply_adds=2 * pairs * head,
            vector_operations=5 * pairs,
            tensor_bytes={spec.name: held.get(spec.name, spec.size_bytes) for spec in self.tensors(workload)},
        )


def _sizes(workload: Workload) -> tuple[int, int, int, int, int, int]:
    batch, heads, kv_heads, q, kv, head = (workload.int(n) for n in ("batch", "heads", "kv_heads", "q", "kv", "head"))
    return batch, heads, kv_heads, q, kv, head


def _groups(workload: Workload, inputs: Arrays) -> list[tuple[tuple[int, slice], Rows]]:
    """Each key/value head with its queries, in float64, and where they lie in q and y."""
    batch, heads, kv_heads, _, _, _ = _sizes(workload)
    shared = heads // kv_heads
    found = []
    for b in range(batch):
        for g in range(kv_heads):
            where = (b, slice(g * shared, (g + 1) * shared))
            keys, values = (inputs[name][b, g][None].astype(np.float64) for name in ("k", "v"))
            found.append((where, (inputs["q"][where].astype(np.float64), keys, values)))
    return found


def _scores(workload: Workload, rows: Rows) -> np.ndarray:
    """Scores [heads of the group, q, kv]; -inf where a query does not see a key."""
    queries, keys, _ = rows
    scores: np.ndarray = queries @ keys.swapaxes(-1, -2) / math.sqrt(workload.int("head"))
    if workload["causal"] == "true":
        q, kv = scores.shape[-2:]
        hidden = np.arange(kv)[None, :] > np.arange(q)[:, None] + kv - q
        scores = np.where(hidden, _HIDDEN, scores)
    return scores


def _softmax(scores: np.ndarray) -> np.ndarray:
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: np.ndarray = terms / terms.sum(axis=-1, keepdims=True)
    return weights


def _values(spec: TensorSpec, workload: Workload, seed: int, pattern: str) -> np.ndarray:
    rng = generator(seed, pattern, spec.name)
    head = workload.int("head")
    values: np.ndarray
    if pattern == "integers":
        values = rng.integers(-3, 3, spec.shape, np.int8, endpoint=True).astype(np.float32)
    elif spec.name == "v":
        values = 3 * rng.standard_normal(spec.shape, np.float32)
    elif pattern == "marker":
        values = _marked(spec, head) + rng.standard_normal(spec.shape, np.float32) / 16
    else:
        scale = 8.0 if pattern == "extremes" else 1.7
        values = np.float32(scale) * rng.standard_normal(spec.shape, np.float32)
    if spec.name != "v" and pattern != "extremes":
        _lower(values, spec, head)
    return values.astype(DTYPES[spec.dtype])


def _lower(values: np.ndarray, spec: TensorSpec, head: int) -> None:
    """Brings all scores of every second query down by about 12, which softmax does not see.

    A key that is none, and has score 0, would weigh more there than all the others.
    """
    if spec.name == "k":
        values[..., -1] += 4
        return
    heads, rows = np.indices(spec.shape[1:3], sparse=True)
    values[..., -1] -= np.where((heads + rows) % 2, round(3 * math.sqrt(head)), 0).astype(np.float32)


def _marked(spec: TensorSpec, head: int) -> np.ndarray:
    """Key j points along axis j mod `head`, a query along one that moves with its row, head and sequence."""
    batch, heads, rows, _ = spec.shape
    place = np.arange(rows, dtype=np.int64)[None, None, :]
    if spec.name == "q":
        place = place + _HEAD_STEP * np.arange(heads)[None, :, None] + np.arange(batch)[:, None, None]
    hot = np.float32(math.sqrt(_HOT * math.sqrt(head)))
    shape = (batch, heads, rows, head)
    return np.where(np.broadcast_to(place[..., None] % head, shape) == np.arange(head), hot, np.float32(0))


OPERATOR: Operator = Attention()
