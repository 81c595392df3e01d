"""Are the rules of rounding those of TensorFlow Lite and ONNX? Against Python integers, and TFLite's own results."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.kernels.operators import operator, parse_workload
from presil.kernels.operators.quantisation import (
    multiply_by_quantised_multiplier,
    multiply_by_quantised_multiplier_double,
    multiply_wide_by_quantised_multiplier,
    pack_int4,
    quantised_multiplier,
    quantised_multipliers,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
    scaled_by_fp32,
    unpack_int4,
)
from presil.simulators.errors import BadInput

from . import runtime_tables

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
MULTIPLIERS = st.integers(1 << 30, (1 << 31) - 1)
HALF = Fraction(1, 2)


def upwards(value: Fraction) -> int:
    return math.floor(value + HALF)


def away_from_zero(value: Fraction) -> int:
    return upwards(value) if value >= 0 else -upwards(-value)


def applied(function, *values):
    return int(function(*(np.array([value]) for value in values))[0])


@pytest.mark.parametrize(
    ("scale", "pair"),
    [
        (1.0, (1 << 30, 1)),  # 0.5 * 2**1
        (0.5, (1 << 30, 0)),
        (0.75, (3 << 29, 0)),
        (0.0003, (1319413953, -11)),  # 0.0003 * 2**11 = 0.6144; * 2**31 = 1319413953.3
        (0.0, (0, 0)),
        (2.0**-32, (1 << 30, -31)),
        (2.0**-33, (0, 0)),
        (1 - 2.0**-40, (1 << 30, 1)),  # rounds to 2**31, which no int32 holds
        (2.0**30, ((1 << 31) - 1, 30)),
    ],
)
def test_multiplier_of_a_scale(scale, pair):
    assert quantised_multiplier(scale) == pair


@given(st.floats(2.0**-31, 2.0**29))
def test_a_multiplier_is_the_nearest(scale):
    multiplier, shift = quantised_multiplier(scale)
    assert 1 << 30 <= multiplier < 1 << 31
    assert abs(Fraction(multiplier) * Fraction(2) ** (shift - 31) - Fraction(scale)) <= Fraction(2) ** (shift - 32)


@pytest.mark.parametrize("scale", [-1.0, math.inf, math.nan])
def test_what_is_no_scale(scale):
    with pytest.raises(BadInput, match=r"a scale is .*; a finite number from 0 up is needed"):
        quantised_multiplier(scale)


@given(INT32, INT32)
def test_high_mul_rounds_halves_upwards(a, b):
    expected = min(upwards(Fraction(a * b, 1 << 31)), (1 << 31) - 1)
    assert applied(saturating_rounding_doubling_high_mul, a, b) == expected


@pytest.mark.parametrize(("a", "expected"), [(1, 1), (-1, 0), (3, 2), (-3, -1), (-(1 << 31), -(1 << 30))])
def test_high_mul_by_hand(a, expected):
    """By 2**30, that is 0.5: 0.5, -0.5, 1.5 and -1.5 go up."""
    assert applied(saturating_rounding_doubling_high_mul, a, 1 << 30) == expected


def test_only_the_least_times_itself_saturates():
    assert applied(saturating_rounding_doubling_high_mul, -(1 << 31), -(1 << 31)) == (1 << 31) - 1


@given(INT32, st.integers(0, 31))
def test_division_by_a_power_rounds_halves_away_from_zero(x, exponent):
    assert applied(rounding_divide_by_pot, x, exponent) == away_from_zero(Fraction(x, 1 << exponent))


@given(INT32, MULTIPLIERS, st.integers(-31, 0))
def test_two_roundings(x, multiplier, shift):
    once = upwards(Fraction(x * multiplier, 1 << 31))
    expected = away_from_zero(Fraction(once, 1 << -shift))
    assert applied(multiply_by_quantised_multiplier_double, x, multiplier, shift) == expected


@given(st.integers(-(1 << 20), (1 << 20) - 1), MULTIPLIERS, st.integers(0, 10))
def test_a_left_shift_comes_first(x, multiplier, shift):
    expected = upwards(Fraction((x << shift) * multiplier, 1 << 31))
    assert applied(multiply_by_quantised_multiplier_double, x, multiplier, shift) == expected


@given(INT32, MULTIPLIERS, st.integers(-31, 30))
def test_one_rounding(x, multiplier, shift):
    expected = upwards(Fraction(x * multiplier) / Fraction(2) ** (31 - shift))
    assert applied(multiply_by_quantised_multiplier, x, multiplier, shift) == expected


@given(st.integers(-(1 << 47), (1 << 47) - 1), MULTIPLIERS, st.integers(-31, 7))
def test_48_bits_by_a_multiplier_of_15(x, multiplier, shift):
    reduced = min(upwards(Fraction(multiplier, 1 << 16)), 0x7FFF)
    expected = upwards(Fraction(x * reduced) / Fraction(2) ** (15 - shift))
    assert applied(multiply_wide_by_quantised_multiplier, x, multiplier, shift) == expected


@given(INT32, st.floats(2.0**-20, 2.0**-3, width=32))
def test_fp32_rounds_the_sum_then_the_product_then_to_even(x, scale):
    """The float64 product of two fp32 numbers is exact, so each rounding is seen alone."""
    product = np.float32(float(np.float32(x)) * scale)
    assert applied(scaled_by_fp32, x, np.float32(scale)) == round(Fraction(float(product)))


def test_the_rules_differ_at_halves():
    """Sums of 1, 3, -1 and -3 times 1/2. The first rounding of two sees 0.5 * 2**31 exactly: the second decides."""
    sums, (multiplier, shift) = np.array([1, 3, -1, -3]), quantised_multipliers(np.full(4, 0.25))
    assert multiply_by_quantised_multiplier(2 * sums, multiplier, shift).tolist() == [1, 2, 0, -1]
    assert multiply_by_quantised_multiplier_double(2 * sums, multiplier, shift).tolist() == [1, 2, -1, -2]
    assert scaled_by_fp32(2 * sums, np.float32(0.25)).tolist() == [0, 2, 0, -2]


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        (runtime_tables.CONV_2D_INT8, multiply_by_quantised_multiplier_double),
        (runtime_tables.CONV_2D_INT16, multiply_wide_by_quantised_multiplier),
    ],
)
def test_convolutions_of_tflite(rows, rule):
    sums, x_scale, w_scale, y_scale, right = map(np.array, zip(*rows, strict=True))
    multiplier, shift = quantised_multipliers(x_scale * w_scale / y_scale)
    assert rule(sums, multiplier, shift).tolist() == right.tolist()
    assert multiply_by_quantised_multiplier(sums, multiplier, shift).tolist() != right.tolist()


def test_products_of_onnxruntime():
    """Halves go to the even number before the zero point is added, odd or not."""
    total, a_scale, b_scale, y_scale, zero, right = map(np.array, zip(*runtime_tables.QLINEAR_MATMUL, strict=True))
    scale = np.float32(a_scale) * np.float32(b_scale) / np.float32(y_scale)
    assert (scaled_by_fp32(total, scale) + zero).tolist() == right.tolist()


@pytest.mark.parametrize(
    "row", [*(("add", *r) for r in runtime_tables.ADD), *(("multiply", *r) for r in runtime_tables.MUL)]
)
def test_sums_and_products_of_tflite(row):
    kind, dtype, scales, x, z, y = row
    left = 15 if dtype == "int16" else 20
    s_x, s_z, s_y = map(float, np.float32(scales))
    twice = 2 * max(s_x, s_z)
    real = [s_x / twice, s_z / twice, twice / (s_y * 2**left)]
    if kind == "multiply":
        real = [float(np.float32(s_x) * np.float32(s_z) / np.float32(s_y))]  # TFLite computes this one in fp32
    multiplier, shift = quantised_multipliers(np.array(real))
    workload = parse_workload(f"qelementwise:kind={kind},rows=1,columns={len(x)},dtype={dtype}")
    inputs = {"x": np.array([x]), "z": np.array([z]), "multiplier": multiplier, "shift": shift}
    assert operator("qelementwise").reference(workload, inputs)["y"].tolist() == [y]


def test_average_pooling_of_tflite():
    x, plain, padded = runtime_tables.AVERAGE_POOL_2D
    for window, right in (("r=2,s=3", plain), ("r=3,s=3,padding=1", padded)):
        workload = parse_workload(f"pool2d:kind=average,n=1,h=3,w=4,c=1,{window}")
        y = operator("pool2d").reference(workload, {"x": np.array(x)[None, ..., None]})["y"]
        assert y[0, ..., 0].tolist() == right


@pytest.mark.parametrize(("kind", "grid", "right"), runtime_tables.RESIZE)
def test_resizing_of_tflite(kind, grid, right):
    workload = parse_workload(f"resize:kind={kind},n=1,h=3,w=2,c=1,oh=4,ow=5,grid={grid}")
    x = np.array(runtime_tables.RESIZED)[None, ..., None]
    assert operator("resize").reference(workload, {"x": x})["y"][0, ..., 0].tolist() == right


def test_int4_by_hand():
    """The first of two neighbours lies in the low nibble: 1 and -1 are 0xF1, -8 and 7 are 0x78."""
    assert pack_int4(np.array([1, -1, -8, 7]), 0).tolist() == [0xF1, 0x78]
    assert pack_int4(np.array([[1, 5], [-1, 0]]), 0).tolist() == [[0xF1, 0x05]]


@given(st.integers(0, 2**32), st.integers(0, 2))
def test_int4_is_unpacked_as_packed(seed, axis):
    values = np.random.default_rng(seed).integers(-8, 8, (2, 4, 6))
    packed = pack_int4(values, axis)
    assert packed.dtype == np.uint8
    assert 2 * packed.size == values.size
    assert np.array_equal(unpack_int4(packed, axis), values)


def test_what_cannot_be_packed():
    with pytest.raises(BadInput, match="3 int4 numbers along axis 0; an even number is needed"):
        pack_int4(np.zeros(3, np.int8), 0)
    with pytest.raises(BadInput, match="int4 numbers lie between 0 and 8; allowed: -8 to 7"):
        pack_int4(np.array([0, 8]), 0)
