"""Attention: its reference against loops, its bound against blocked kernels of every kind, right and wrong."""

import math

import numpy as np
import pytest

from presil.kernels.operators import PATTERNS, operator, parse_workload
from presil.kernels.operators.admission import admit, wrong_elements
from presil.simulators.errors import BadInput
from presil.simulators.formats import DTYPES

OP = operator("attention")
F32 = np.float32
TASKS = (
    "attention:batch=2,heads=4,kv_heads=2,q=40,kv=200,head=64,dtype=bf16,causal=true",
    "attention:heads=2,kv_heads=1,q=70,kv=70,head=32,dtype=fp16,causal=true",
    "attention:heads=8,kv_heads=2,q=1,kv=300,head=64,dtype=bf16",  # decode
    "attention:heads=3,kv_heads=3,q=33,kv=65,head=16,dtype=fp16",
)


def blocked(workload, inputs, block, *, drop=None, behind=0, shift=True, round_weights=True, false_keys=0):
    """A kernel that goes over `block` keys at a time, in fp32. The options make it wrong."""
    q, k, v = (inputs[name].astype(F32) for name in ("q", "k", "v"))
    kind = DTYPES[workload.word("dtype")]
    shared = q.shape[1] // k.shape[1]
    rows, keys = q.shape[2], k.shape[2]
    y = np.empty(q.shape, kind)
    with np.errstate(all="ignore"):
        for b, h in np.ndindex(*q.shape[:2]):
            top, total, sums = np.full((rows, 1), F32(-3e38)), np.zeros((rows, 1), F32), np.zeros(q.shape[2:], F32)
            for j in range(0, keys, block):
                if j == drop:
                    continue
                part = slice(j, j + block)
                scores = (q[b, h] @ k[b, h // shared, part].T) * F32(1 / math.sqrt(q.shape[3]))
                if workload["causal"] == "true":
                    place = np.arange(j, j + scores.shape[1])[None, :]
                    hidden = place > np.arange(rows)[:, None] + keys - rows + behind
                    scores = np.where(hidden, F32(-3e38), scores)
                new = np.maximum(top, scores.max(axis=1, keepdims=True)) if shift else np.zeros_like(top)
                scale, weights = np.exp(top - new) if shift else 1, np.exp(scores - new)
                total = total * scale + weights.sum(axis=1, keepdims=True)
                weights = weights.astype(kind).astype(F32) if round_weights else weights
                sums = sums * scale + weights @ v[b, h // shared, part]
                top = new
            total = total + false_keys * np.exp(-top)
            y[b, h] = (sums / total).astype(kind)
    return y


def task(text, pattern, seed=1):
    workload = parse_workload(text)
    inputs = OP.inputs(workload, seed, pattern)
    return workload, inputs, OP.reference(workload, inputs)["y"], OP.error_bound(workload, inputs)["y"]


@pytest.mark.parametrize("text", TASKS)
def test_the_reference_is_the_definition(text):
    workload, inputs, reference, _ = task(text, "random")
    q, k, v = (inputs[name].astype(np.float64) for name in ("q", "k", "v"))
    shared, (rows, keys) = q.shape[1] // k.shape[1], (q.shape[2], k.shape[2])
    for b, h, i in [(0, 0, 0), (q.shape[0] - 1, q.shape[1] - 1, rows - 1), (0, q.shape[1] - 1, rows // 2)]:
        seen = range(i + keys - rows + 1) if workload["causal"] == "true" else range(keys)
        scores = [math.fsum(q[b, h, i] * k[b, h // shared, j]) / math.sqrt(q.shape[3]) for j in seen]
        weights = [math.exp(s - max(scores)) for s in scores]
        for d in range(0, q.shape[3], 7):
            right = math.fsum(p * v[b, h // shared, j, d] for p, j in zip(weights, seen, strict=True))
            assert math.isclose(reference[b, h, i, d], right / math.fsum(weights), rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", TASKS)
def test_right_kernels_pass_whatever_their_blocks(text, pattern):
    for seed in range(2):
        workload, inputs, reference, bound = task(text, pattern, seed)
        for block, rounds in ((16, True), (64, True), (1000, False)):
            y = blocked(workload, inputs, block, round_weights=rounds)
            assert not wrong_elements(y, reference, bound).any()


@pytest.mark.parametrize("text", TASKS)
@pytest.mark.parametrize("pattern", ["random", "marker"])
def test_a_dropped_block_of_keys_is_seen(text, pattern):
    workload, inputs, reference, bound = task(text, pattern)
    for drop in range(0, workload.int("kv") - 16, 16):
        assert wrong_elements(blocked(workload, inputs, 16, drop=drop), reference, bound).any(), drop


@pytest.mark.parametrize("pattern", ["random", "marker", "integers"])
@pytest.mark.parametrize("text", TASKS)
def test_a_key_that_is_none_is_seen(text, pattern):
    # Read past the end it is zeros: score 0, value 0, and so nothing but a part of the total.
    workload, inputs, reference, bound = task(text, pattern)
    assert wrong_elements(blocked(workload, inputs, 64, false_keys=1), reference, bound).any()


@pytest.mark.parametrize("behind", [-1, 1])
@pytest.mark.parametrize("text", TASKS[:2])
def test_a_mask_that_is_off_by_one_is_seen(text, behind):
    workload, inputs, reference, bound = task(text, "random")
    assert wrong_elements(blocked(workload, inputs, 64, behind=behind), reference, bound).any()


@pytest.mark.parametrize("text", TASKS)
def test_a_kernel_without_the_maximum_overflows_on_extremes(text):
    workload, inputs, reference, bound = task(text, "extremes")
    assert wrong_elements(blocked(workload, inputs, 64, shift=False), reference, bound).any()


@pytest.mark.parametrize("text", TASKS)
def test_the_task_is_one(text):
    admit(OP, parse_workload(text))


def test_a_crop_computes_the_same():
    workload, inputs, reference, _ = task(TASKS[0], "random")
    stored = np.zeros(reference.shape, bool)
    stored[1, 3, 7:12] = True
    crop = OP.crop(workload, inputs, stored)
    # Head 3 is of the second pair; rows 7 to 11 see keys up to 11 + 160.
    assert str(crop.workload) == "attention:heads=2,kv_heads=1,q=5,kv=172,head=64,dtype=bf16,causal=true"
    assert np.allclose(OP.reference(crop.workload, crop.inputs)["y"], reference[crop.box], rtol=1e-12)


def test_work_counts_the_pairs_that_are_seen():
    # 2 heads, 3 queries and 5 keys: the queries see 3, 4 and 5. Two products of 4 for each of 12 pairs.
    causal = OP.work(parse_workload("attention:heads=2,kv_heads=1,q=3,kv=5,head=4,causal=true"))
    assert causal.multiply_adds == 2 * 2 * 12 * 4
    assert OP.work(parse_workload("attention:heads=2,kv_heads=1,q=3,kv=5,head=4")).multiply_adds == 2 * 2 * 15 * 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("attention:heads=3,kv_heads=2,q=4,kv=4,head=8", "'heads' is 3; a multiple of kv_heads=2 is needed"),
        ("attention:heads=2,kv_heads=2,q=5,kv=4,head=8,causal=true", "'kv' is 4; causal, each of the 5 queries needs"),
    ],
)
def test_mistakes_are_named(text, message):
    with pytest.raises(BadInput, match=message):
        parse_workload(text)
