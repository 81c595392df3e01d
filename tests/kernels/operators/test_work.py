"""Is the work of an operator counted right? Against counts by loops, and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.kernels.operators import operator, parse_workload


def work(text):
    workload = parse_workload(text)
    return operator(workload.operator).work(workload)


def test_matmul_by_hand():
    counted = work("matmul:batch=2,m=3,n=5,k=7,dtype=bf16,bias=yes")
    assert counted.multiply_adds == counted.least_multiply_adds == 2 * 3 * 5 * 7
    assert counted.vector_operations == 0  # accumulators can start from the bias
    assert dict(counted.tensor_bytes) == {"x": 2 * 21 * 2, "w": 2 * 35 * 2, "bias": 5 * 4, "y": 2 * 15 * 4}


def test_what_follows_a_matmul_is_one_operation_an_output():
    assert work("matmul:m=3,n=5,k=7,dtype=int8,out=int8,bias=yes,activation=relu").vector_operations == 15
    assert work("matmul:m=3,n=5,k=7,dtype=int8,activation=relu").vector_operations == 15


def test_padding_by_hand():
    """3x3 over 2x2 with padding 1: each of 4 outputs sees 4 pixels and 5 zeros."""
    counted = work("conv2d:n=1,h=2,w=2,c=1,f=1,r=3,s=3,padding=1,dtype=int8")
    assert (counted.multiply_adds, counted.padding_multiply_adds) == (36, 20)


def test_strided_pointwise_needs_a_quarter_of_the_image():
    """1x1 with stride 2 over 6x6: 3x3 pixels are read."""
    counted = work("conv2d:n=2,h=6,w=6,c=8,f=4,stride=2,dtype=int8")
    assert counted.tensor_bytes["x"] == 2 * 9 * 8
    assert counted.multiply_adds == counted.least_multiply_adds == 2 * 9 * 8 * 4


@given(
    st.integers(1, 9),
    st.tuples(st.integers(1, 4), st.integers(1, 3)),
    st.integers(1, 4),
    st.integers(0, 4),
    st.integers(1, 3),
)
def test_conv2d_counts_what_loops_count(h, filters, stride, padding, dilation):
    w, (r, s) = h + 2, filters
    if max(r, s) * dilation > h + 2 * padding:
        return
    text = f"conv2d:n=2,h={h},w={w},c=4,f=6,r={r},s={s},stride={stride},padding={padding},dilation={dilation},groups=2"
    workload = parse_workload(text)
    oh, ow = operator("conv2d").tensors(workload)[-1].shape[1:3]
    pixels, taps, multiplied = set(), set(), 0
    for p, q, a, b in np.ndindex(oh, ow, r, s):
        row, column = p * stride + a * dilation - padding, q * stride + b * dilation - padding
        if 0 <= row < h and 0 <= column < w:
            pixels.add((row, column))
            taps.add((a, b))
            multiplied += 1
    counted = work(text)
    assert counted.multiply_adds == 2 * oh * ow * 6 * r * s * 2
    assert counted.least_multiply_adds == 2 * multiplied * 6 * 2
    assert counted.tensor_bytes["x"] == 2 * len(pixels) * 4
    assert counted.tensor_bytes["w"] == len(taps) * 2 * 6


@pytest.mark.parametrize(
    ("text", "operations"),
    [
        ("elementwise:kind=add,rows=3,columns=5,dtype=int8", 15),
        ("reduction:kind=sum,rows=3,columns=5,dtype=fp32", 3 * 4),
        # maximum 4, subtract 5, exp 5, sum 4, reciprocal 1, multiply 5
        ("softmax:rows=3,columns=5,dtype=fp32", 3 * 24),
        # sum 4, scale 1, subtract 5, square 5, sum 4, scale 1, rsqrt 1, multiply 5, gamma 5, beta 5
        ("layernorm:rows=3,columns=5,dtype=fp32", 3 * 36),
        # square 5, sum 4, scale 1, rsqrt 1, multiply 5, gamma 5
        ("rmsnorm:rows=3,columns=5,dtype=bf16", 3 * 21),
    ],
)
def test_vector_operations_by_hand(text, operations):
    counted = work(text)
    assert (counted.multiply_adds, counted.vector_operations) == (0, operations)
    specs = operator(parse_workload(text).operator).tensors(parse_workload(text))
    assert dict(counted.tensor_bytes) == {spec.name: spec.size_bytes for spec in specs}
