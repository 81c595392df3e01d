"""Do the references compute what the operators are defined to be? Against loops over elements, at unlike sizes."""

import numpy as np
import pytest

from presil.kernels.operators import PATTERNS, operator, operator_names, parse_workload

from . import naive, test_quantised_operators

SMALL = (
    "matmul:m=3,n=5,k=7,dtype=int8",
    "matmul:batch=2,m=4,n=3,k=1100,dtype=int8,bias=yes",  # longer than one exact fp32 sum
    "matmul:batch=2,m=3,n=5,k=7,dtype=int8,out=int8,bias=yes,activation=relu",
    "matmul:m=1,n=6,k=9,dtype=int8,out=int8",
    "matmul:batch=3,m=2,n=5,k=7,dtype=bf16,bias=yes",
    "matmul:m=4,n=3,k=6,dtype=bf16,out=bf16,activation=relu",
    "matmul:m=4,n=3,k=6,dtype=fp8,bias=yes",
    "matmul:m=4,n=3,k=6,dtype=fp32",
    "grouped_matmul:groups=3,m=10,n=3,k=7,align=2,dtype=int8,out=int8,bias=yes,activation=relu",
    "grouped_matmul:groups=8,m=12,n=2,k=5,align=3,dtype=bf16,out=bf16",
    "grouped_matmul:groups=1,m=2,n=4,k=3,align=1,dtype=fp16,bias=yes",
    "conv2d:n=2,h=5,w=7,c=3,f=4,r=3,s=2,dtype=int8",
    "conv2d:n=1,h=9,w=8,c=6,f=8,r=3,s=2,stride=2,padding=1,dilation=2,groups=2,dtype=int8,out=int8,bias=yes",
    "conv2d:n=1,h=6,w=5,c=4,f=4,r=3,s=3,padding=1,groups=4,dtype=int8,out=int8,activation=relu",
    "conv2d:n=1,h=5,w=4,c=2,f=3,r=1,s=1,stride=2,padding=2,dtype=int8,bias=yes",
    "conv2d:n=2,h=6,w=5,c=4,f=6,r=2,s=3,stride=3,padding=1,groups=2,dtype=bf16,bias=yes,activation=relu",
    "elementwise:kind=add,rows=5,columns=7,dtype=int8",
    "elementwise:kind=multiply,rows=5,columns=7,dtype=int8",
    "elementwise:kind=relu,rows=5,columns=7,dtype=int8",
    "elementwise:kind=add,rows=3,columns=7,dtype=bf16",
    "elementwise:kind=multiply,rows=3,columns=7,dtype=fp32",
    "elementwise:kind=relu,rows=3,columns=7,dtype=fp32",
    "reduction:kind=sum,rows=7,columns=11,dtype=fp32",
    "reduction:kind=sum,rows=7,columns=11,dtype=bf16",
    "reduction:kind=max,rows=7,columns=11,dtype=bf16",
    "softmax:rows=13,columns=11,dtype=fp32",
    "softmax:rows=13,columns=11,dtype=bf16",
    "layernorm:rows=13,columns=11,dtype=fp32",
    "layernorm:rows=13,columns=11,dtype=bf16",
    "rmsnorm:rows=13,columns=11,dtype=fp32",
    "rmsnorm:rows=13,columns=11,dtype=bf16",
)


def test_every_operator_is_here():
    known = {parse_workload(text).operator for text in (*SMALL, *test_quantised_operators.SMALL)}
    assert known | {"attention"} == set(operator_names())


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", SMALL)
def test_reference_is_the_definition(text, pattern):
    workload = parse_workload(text)
    op = operator(workload.operator)
    inputs = op.inputs(workload, 5, pattern)
    actual = op.reference(workload, inputs)["y"]
    expected = getattr(naive, workload.operator)(workload, inputs, op.attributes(workload))
    if actual.dtype == np.int64:
        np.testing.assert_array_equal(actual, expected)
    else:
        # Both are float64; they may differ by a hundredth of what a kernel may.
        bound = op.error_bound(workload, inputs)["y"]
        assert (np.abs(actual - expected) <= np.maximum(bound / 100, 1e-14 * np.abs(expected))).all()


@pytest.mark.parametrize("text", SMALL)
def test_tensors_inputs_and_outputs_agree(text):
    workload = parse_workload(text)
    op = operator(workload.operator)
    specs = op.tensors(workload)
    inputs = op.inputs(workload, 1, "random")
    assert [spec.name for spec in specs if spec.role != "out"] == list(inputs)
    for spec in specs[:-1]:
        assert inputs[spec.name].shape == spec.shape
        assert inputs[spec.name].nbytes == spec.size_bytes
    for result in (op.reference(workload, inputs), op.error_bound(workload, inputs)):
        assert [(name, values.shape) for name, values in result.items()] == [("y", specs[-1].shape)]


def test_requantise_by_hand():
    """K = 9: 40 / (5461 * sqrt(9)) * 2**23 = 20481.3, the least shift that needs 15 bits or more."""
    workload = parse_workload("matmul:m=1,n=3,k=9,dtype=int8,out=int8")
    op = operator("matmul")
    assert dict(op.attributes(workload)) == {"multiplier": 20481, "shift": 23}
    x = np.zeros((1, 1, 9), np.int8)
    w = np.zeros((1, 9, 3), np.int8)
    x[0, 0, :2] = (64, 1)
    # Sums 2048, -2048 and 2047 + ...: 2048 * 20481 / 2**23 = 5.0002; the negative one rounds to -5.
    w[0, 0] = (32, -32, 3)
    w[0, 1] = (0, 0, 13)  # 205 * 20481 / 2**23 = 0.50051, which rounds half up to 1
    assert op.reference(workload, {"x": x, "w": w})["y"].tolist() == [[[5, -5, 1]]]


@pytest.mark.parametrize("k", [1023, 1024, 1025, 1501, 2049, 5000])
def test_long_int8_sums_are_exact(k):
    """127 * 127 is odd: beyond 2**24, from k = 1041, fp32 alone cannot hold the sum of an odd number of them."""
    workload = parse_workload(f"matmul:m=1,n=1,k={k},dtype=int8")
    full = {"x": np.full((1, 1, k), 127, np.int8), "w": np.full((1, k, 1), 127, np.int8)}
    assert operator("matmul").reference(workload, full)["y"].item() == k * 127 * 127


def test_saturation_and_relu():
    workload = parse_workload("matmul:m=2,n=1,k=4,dtype=int8,out=int8,activation=relu")
    x = np.full((1, 2, 4), 127, np.int8)
    x[0, 1] = -128
    w = np.full((1, 4, 1), 127, np.int8)
    assert operator("matmul").reference(workload, {"x": x, "w": w})["y"].tolist() == [[[127], [0]]]
    plain = parse_workload("matmul:m=2,n=1,k=4,dtype=int8,out=int8")
    assert operator("matmul").reference(plain, {"x": x, "w": w})["y"].tolist() == [[[127], [-128]]]


def test_int8_saturates_both_ways():
    add = parse_workload("elementwise:kind=add,rows=1,columns=3,dtype=int8")
    x, z = np.array([[100, -100, 5]], np.int8), np.array([[100, -100, -9]], np.int8)
    assert operator("elementwise").reference(add, {"x": x, "z": z})["y"].tolist() == [[127, -128, -4]]
