"""Are the quantised operators those of ONNX? Against the examples of the standard and its reference evaluator.

The evaluator scales in float64 and adds the zero point before it rounds. Where scales are powers of two and zero points
even, that gives the same integers, halves too; elsewhere halves and what lies next to them are left out.
"""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from presil.kernels.operators import onnx_rules
from presil.kernels.operators.onnx_rules import Quantised
from presil.simulators.errors import BadInput


def evaluated(name, arrays, outputs=("y",), **attributes):
    """What the reference evaluator computes from `arrays`."""
    inputs = [f"i{number}" for number in range(len(arrays))]
    node = onnx.helper.make_node(name, inputs, outputs, **attributes)
    return ReferenceEvaluator(node).run(None, dict(zip(inputs, arrays, strict=True)))


def near_half(exact):
    return np.abs(exact - np.floor(exact) - 0.5) < 1e-3


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantize_linear(dtype):
    x = np.array([-70, -0.5, 0.5, 1.5, 2.5, 3, 1000, -1000, 0.24], np.float32)
    scale, zero = np.float32(1), dtype(4)
    y = onnx_rules.quantize_linear(x, np.array(scale), np.array(zero))
    assert y.tolist() == evaluated("QuantizeLinear", [x, scale, zero])[0].tolist()
    assert y[1:6].tolist() == [4, 4, 6, 6, 7]  # halves to even before the zero point is added


def test_quantize_linear_along_an_axis():
    """The example `quantizelinear_axis` of the standard."""
    x = np.array([-162, 10, -100, 232, -20, -50, -76, 0, 0, 252, 32, -44], np.float32).reshape(1, 3, 2, 2)
    scale, zero = np.array([2, 4, 5], np.float32), np.array([84, 24, 196], np.uint8)
    y = onnx_rules.quantize_linear(x, scale, zero)
    assert y.ravel().tolist() == [3, 89, 34, 200, 19, 12, 5, 24, 196, 246, 202, 187]
    with pytest.raises(BadInput, match=r"of shape \(3,\); for axis 2 of \(1, 3, 2, 2\): \[\] or one each"):
        onnx_rules.quantize_linear(x, scale, zero, axis=2)


def test_dequantize_linear():
    """The example `dequantizelinear` of the standard."""
    x = np.array([0, 3, 128, 255], np.uint8)
    y = onnx_rules.dequantize_linear(x, np.array(2, np.float32), np.array(128, np.uint8))
    assert y.tolist() == [-256, -250, 0, 254]
    assert y.dtype == np.float32


@pytest.mark.parametrize(
    "x",
    [
        [0, 2, -3, -2.5, 1.34, 0.5],  # the three examples of the standard
        [-1.0, -2.1, -1.3, -2.5, -3.34, -4.0],
        [1, 2.1, 1.3, 2.5, 3.34, 4.0, 1.5, 2.6, 3.9, 4.0, 3.0, 2.345],
        [0, 0],
    ],
)
def test_dynamic_quantize_linear(x):
    x = np.array(x, np.float32)
    right = evaluated("DynamicQuantizeLinear", [x], ("y", "scale", "zero"))
    for found, expected in zip(onnx_rules.dynamic_quantize_linear(x), right, strict=True):
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


def test_dynamic_quantize_linear_by_the_standard():
    x = np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32)
    y, scale, zero = onnx_rules.dynamic_quantize_linear(x)
    assert (y.tolist(), int(zero)) == ([153, 255, 0, 26, 221, 179], 153)
    assert scale == np.float32(0.0196078438)


def test_matmul_integer_of_the_standard():
    a = np.array([[11, 7, 3], [10, 6, 2], [9, 5, 1], [8, 4, 0]], np.uint8)
    b = np.array([[1, 4], [2, 5], [3, 6]], np.uint8)
    y = onnx_rules.matmul_integer(a, b, np.array(12, np.uint8), np.array(0, np.uint8))
    assert y.tolist() == [[-38, -83], [-44, -98], [-50, -113], [-56, -128]]


def test_qlinear_matmul_of_the_standard():
    """The example `qlinearmatmul_2D_uint8_float32`."""
    a = Quantised(np.array([[208, 236, 0, 238], [3, 214, 255, 29]], np.uint8), np.float32([0.0066])[0], np.uint8(113))
    w = np.array([[152, 51, 244], [60, 26, 255], [0, 127, 246], [127, 254, 247]], np.uint8)
    b = Quantised(w, np.float32([0.00705])[0], np.uint8(114))
    y = onnx_rules.qlinear_matmul(a, b, np.float32([0.0107])[0], np.uint8(118))
    assert y.tolist() == [[168, 115, 255], [1, 66, 151]]


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([np.int8, np.uint8]), st.booleans())
def test_qlinear_matmul(seed, dtype, exact):
    rng = np.random.default_rng(seed)
    limits = np.iinfo(dtype)
    a, b = (rng.integers(limits.min, limits.max, shape, dtype, endpoint=True) for shape in ((5, 7), (7, 6)))
    a_zero, b_zero = dtype(rng.integers(0, 100)), rng.integers(0, 100, 6).astype(dtype)
    y_zero = dtype(2 * rng.integers(0, 50))
    if exact:
        a_scale, y_scale = np.float32(2.0**-6), np.float32(1)
        b_scale = np.float32(2) ** rng.integers(-7, -2, 6).astype(np.float32)
    else:
        a_scale, y_scale = (np.float32(v) for v in rng.uniform(0.01, 0.1, 2))
        b_scale = rng.uniform(0.001, 0.01, 6).astype(np.float32)
    right = evaluated("QLinearMatMul", [a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero])[0]
    y = onnx_rules.qlinear_matmul(Quantised(a, a_scale, a_zero), Quantised(b, b_scale, b_zero), y_scale, y_zero)
    total = onnx_rules.matmul_integer(a, b, a_zero, b_zero)
    assert total.tolist() == evaluated("MatMulInteger", [a, b, a_zero, b_zero])[0].tolist()
    sure = np.full(y.shape, True) if exact else ~near_half(total * (a_scale.astype(float) * b_scale / y_scale))
    assert y.dtype == right.dtype
    assert y[sure].tolist() == right[sure].tolist()


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4]), st.booleans())
def test_qlinear_conv(seed, group, per_channel):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 255, (2, 4, 7, 6), np.uint8, endpoint=True)
    w = rng.integers(-128, 127, (8, 4 // group, 3, 2), np.int8, endpoint=True)
    count = 8 if per_channel else ()
    w_scale = np.float32(2) ** rng.integers(-9, -5, count).astype(np.float32)
    x_zero, w_zero, y_zero = np.uint8(rng.integers(0, 255)), np.int8(rng.integers(-9, 9)), np.uint8(120)
    x_scale, y_scale, bias = np.float32(0.5), np.float32(0.5), rng.integers(-5000, 5000, 8, np.int32)
    where = {"pads": (1, 0, 2, 1), "strides": (2, 1), "dilations": (1, 2), "group": group}
    arrays = [x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias]
    right = evaluated("QLinearConv", arrays, kernel_shape=(3, 2), **where)[0]
    y = onnx_rules.qlinear_conv(
        Quantised(x, x_scale, x_zero), Quantised(w, w_scale, np.array(w_zero)), y_scale, y_zero, bias, **where
    )
    assert y.tolist() == right.tolist()
    total = onnx_rules.conv_integer(x, w, x_zero, np.array(w_zero), **where)
    plain = evaluated("ConvInteger", [x, w, x_zero, w_zero], kernel_shape=(3, 2), **where)[0]
    assert total.tolist() == plain.tolist()
