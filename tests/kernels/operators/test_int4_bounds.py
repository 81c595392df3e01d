"""Does the bound of the int4 GEMV let every right kernel pass, and none that is wrong?"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.kernels.operators import PATTERNS, operator, parse_workload
from presil.kernels.operators.admission import wrong_elements
from presil.kernels.operators.quantisation import pack_int4, unpack_int4

from . import kernels_fp32

KERNELS = (kernels_fp32.dequantised_matmul, kernels_fp32.scaled_behind_the_sum)
TEXTS = (
    "dequantised_matmul:m=3,n=5,k=1024",
    "dequantised_matmul:m=3,n=5,k=512,group=32,zero=yes",
    "dequantised_matmul:m=3,n=5,k=256,group=64,dtype=bf16,zero=yes",
    "dequantised_matmul:m=3,n=5,k=256,group=all,dtype=bf16,out=bf16",
    "dequantised_matmul:m=3,n=5,k=512,dtype=fp32,zero=yes",
)


def task(text, seed, pattern):
    workload = parse_workload(text)
    op = operator(workload.operator)
    inputs = op.inputs(workload, seed, pattern)
    return workload, inputs, op.reference(workload, inputs)["y"], op.error_bound(workload, inputs)["y"]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.__name__)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("order", kernels_fp32.ORDERS, ids=lambda order: order.__name__)
def test_a_right_kernel_passes_in_any_order(text, pattern, order, kernel):
    workload, inputs, reference, bound = task(text, 1, pattern)
    assert not wrong_elements(kernel(workload, inputs, order), reference, bound).any()


@settings(max_examples=50)
@given(
    half=st.integers(1, 100),
    seed=st.integers(0, 2**32),
    pattern=st.sampled_from(PATTERNS),
    order=st.sampled_from(kernels_fp32.ORDERS),
    kernel=st.sampled_from(KERNELS),
    dtype=st.sampled_from(["fp16", "bf16", "fp32"]),
)
def test_at_any_depth(*, half, seed, pattern, order, kernel, dtype):
    text = f"dequantised_matmul:m=2,n=3,k={2 * half},group=all,zero=yes,dtype={dtype}"
    workload, inputs, reference, bound = task(text, seed, pattern)
    assert not wrong_elements(kernel(workload, inputs, order), reference, bound).any()


@pytest.mark.parametrize("pattern", ["marker", "integers"])
@pytest.mark.parametrize("text", [text for text in TEXTS if "out=bf16" not in text])
def test_exact_sums_have_no_room(text, pattern):
    _, _, reference, bound = task(text, 1, pattern)
    assert (bound == 0).all()
    assert wrong_elements(np.nextafter(reference.astype(np.float32), np.float32(np.inf)), reference, bound).all()


def swapped_nibbles(inputs):
    return {**inputs, "w": inputs["w"] >> 4 | inputs["w"] << 4}


def unsigned(inputs):
    """Nibbles read from 0 to 15."""
    q = unpack_int4(inputs["w"], 0)
    return {**inputs, "w": pack_int4(np.where(q < 0, np.minimum(q + 16, 7), q), 0)}


def other_group(inputs):
    return {**inputs, "scale": np.roll(inputs["scale"], 1, axis=0)}


def other_column(inputs):
    return {**inputs, "scale": np.roll(inputs["scale"], 1, axis=1)}


def no_zero(inputs):
    return {**inputs, "zero": np.zeros_like(inputs["zero"])}


@pytest.mark.parametrize("fault", [swapped_nibbles, unsigned, other_group, other_column, no_zero])
@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_wrong_kernel_fails(fault, dtype):
    text = f"dequantised_matmul:m=1,n=64,k=4096,zero=yes,dtype={dtype}"
    for pattern in ("random", "integers"):
        workload, inputs, reference, bound = task(text, 1, pattern)
        actual = operator("dequantised_matmul").reference(workload, fault(inputs))["y"]
        assert wrong_elements(actual, reference, bound).any()


def test_every_pair_of_weights_shows():
    """A byte left out: its two weights count as their zero point. All weights of `marker` lie above it."""
    workload, inputs, reference, bound = task("dequantised_matmul:m=1,n=8,k=2048,zero=yes", 1, "marker")
    for row in range(1024):
        x = inputs["x"].copy()
        x[:, 2 * row : 2 * row + 2] = 0
        actual = operator("dequantised_matmul").reference(workload, {**inputs, "x": x})["y"]
        assert wrong_elements(actual, reference, bound).all()


def in_fp16(terms):
    total = terms[0].astype(np.float16)
    for term in terms[1:]:
        total = (total + term).astype(np.float16)
    return total.astype(np.float32)


def test_fp16_accumulators_fail():
    workload, inputs, reference, bound = task("dequantised_matmul:m=3,n=64,k=1024", 1, "integers")
    actual = kernels_fp32.dequantised_matmul(workload, inputs, in_fp16)
    assert wrong_elements(actual, reference, bound).any()
