"""Does each GPU instruction mean what its name says? Against loops over Python numbers, written apart from `isa.py`."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.simulators.errors import Unsupported
from presil.simulators.gpu.isa import FAMILY, LOWEST, OPS

from .gpu_parts import A100, H100, program

BF16, FP8 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)
SEEDS = st.integers(0, 2**32 - 1)
SIZES = st.tuples(*[st.integers(1, 9)] * 3)
PRODUCTS = st.sampled_from(["mma", "mac"])


def whole(seed: int, shape, dtype=np.int8, low: int = -128, high: int = 127) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high + 1, shape).astype(dtype)


def noise(seed: int, shape, dtype=np.float32) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def meaning(op: str, out: np.ndarray, *sources: np.ndarray, **attributes) -> np.ndarray:
    result = OPS[op].meaning(out, sources, {"accumulate": 0, **attributes})
    assert result.shape == out.shape
    return result.astype(out.dtype)


def like(shape, dtype=np.float32) -> np.ndarray:
    return np.full(shape, 77).astype(dtype)


def wrapped(value: int) -> int:
    """As an int32 register holds it."""
    return (value + 2**31) % 2**32 - 2**31


@settings(max_examples=30)
@given(SEEDS, SIZES, PRODUCTS, st.booleans(), st.booleans())
def test_products_of_int8(seed, sizes, op, accumulate, transposed):
    m, n, k = sizes
    a, b = whole(seed, (m, k)), whole(seed + 1, (k, n))
    before = whole(seed + 2, (m, n), np.int32, -(2**31), 2**31 - 1)
    attributes = {"transpose": "b"} if transposed else {}
    got = meaning(op, before, a, b.T if transposed else b, accumulate=int(accumulate), **attributes)
    for i, j in itertools.product(range(m), range(n)):
        total = sum(int(a[i, c]) * int(b[c, j]) for c in range(k)) + (int(before[i, j]) if accumulate else 0)
        assert got[i, j] == wrapped(total)


@settings(max_examples=30)
@given(SEEDS, SIZES, PRODUCTS, st.sampled_from([BF16, FP8, np.dtype(np.float16), np.dtype(np.float32)]), st.booleans())
def test_products_of_floats_are_rounded_once(seed, sizes, op, dtype, transposed):
    m, n, k = sizes
    a, b = noise(seed, (m, k), dtype), noise(seed + 1, (k, n), dtype)
    attributes = {"transpose": "b"} if transposed else {"transpose": "no"}
    got = meaning(op, like((m, n)), a, b.T if transposed else b, **attributes)
    for i, j in itertools.product(range(m), range(n)):
        exact = sum((Fraction(float(a[i, c])) * Fraction(float(b[c, j])) for c in range(k)), Fraction(0))
        assert abs(Fraction(float(got[i, j])) - exact) <= Fraction(1, 2**24) * abs(exact) + Fraction(1, 2**40)


def test_sums_of_floats_are_added_in_fp32():
    # 2^24 + 1 is no fp32: the old value and the rounded product are added, and rounded again.
    before = np.full((1, 1), 2.0**24, np.float32)
    one = np.ones((1, 1), BF16)
    assert meaning("mma", before, one, one, accumulate=1)[0, 0] == 2**24
    three = np.full((1, 1), 3, BF16)
    assert meaning("mma", before, one, three, accumulate=1)[0, 0] == 2**24 + 4  # halves to even
    assert meaning("mma", before, one, three)[0, 0] == 3


def test_rows_of_several_dimensions_are_the_rows_of_the_product():
    a, b = whole(1, (2, 3, 2, 4)), whole(2, (1, 1, 4, 5))
    wanted = np.einsum("ihwc,cf->ihwf", a.astype(np.int64), b[0, 0].astype(np.int64))
    assert np.array_equal(meaning("mma", like((2, 3, 2, 5), np.int32), a, b), wanted)
    assert np.array_equal(meaning("mma", like((12, 5), np.int32), a, b), wanted.reshape(12, 5))
    turned = np.ascontiguousarray(b.transpose(0, 1, 3, 2))
    assert np.array_equal(meaning("mma", like((12, 5), np.int32), a, turned, transpose="b"), wanted.reshape(12, 5))


@pytest.mark.parametrize("op", ["copy", "load", "store", "move"])
def test_copies_keep_the_order_of_the_elements(op):
    a = np.arange(24, dtype=np.int8).reshape(2, 3, 4)
    assert meaning(op, like((4, 6), np.int8), a).tolist() == np.arange(24).reshape(4, 6).tolist()


def test_fill_and_sync():
    assert meaning("fill", like((2, 3)), value=-0.5).tolist() == [[-0.5] * 3] * 2
    assert meaning("fill", like((2,), np.int32), value=7).tolist() == [7, 7]
    assert meaning("sync", like((2,))).tolist() == [77, 77]


@settings(max_examples=40)
@given(SEEDS, st.integers(1, 6), st.integers(1, 6), st.integers(-8, 8), st.integers(-8, 8))
def test_mask_hides_what_lies_behind_the_row(seed, rows, columns, row, column):
    a = noise(seed, (rows, columns))
    got = meaning("mask", like((rows, columns)), a, row=row, column=column)
    for i, j in itertools.product(range(rows), range(columns)):
        assert got[i, j] == (a[i, j] if column + j <= row + i else np.float32(-3.0e38))


@settings(max_examples=40)
@given(SEEDS, st.integers(1, 6), st.integers(1, 6), st.integers(0, 9), st.integers(0, 12))
def test_limit_hides_the_columns_behind(seed, rows, columns, column, most):
    a = noise(seed, (rows, columns))
    got = meaning("limit", like((rows, columns)), a, column=column, most=most)
    for i, j in itertools.product(range(rows), range(columns)):
        assert got[i, j] == (a[i, j] if column + j < most else np.float32(-3.0e38))


def test_what_is_hidden_gives_no_nan():
    # A row of nothing else: its maximum is the lowest score, and e^(lowest - lowest) is 1, not NaN.
    hidden = meaning("limit", like((1, 4)), np.ones((1, 4), np.float32), column=4, most=4)
    most = meaning("max", like((1, 1)), hidden)
    assert most[0, 0] == LOWEST
    assert meaning("exp", like((1, 4)), hidden, most).tolist() == [[1.0] * 4]
    # Beside a score it is nothing.
    score = np.zeros((1, 1), np.float32)
    assert meaning("exp", like((1, 4)), hidden, score).tolist() == [[0.0] * 4]


def test_mask_of_images_of_rows():
    # The last two axes are rows and columns, whatever is before.
    a = noise(3, (2, 3, 4))
    got = meaning("mask", like((2, 3, 4)), a, row=0, column=0)
    for n in range(2):
        assert np.array_equal(got[n], meaning("mask", like((3, 4)), a[n], row=0, column=0))


@settings(max_examples=40)
@given(SEEDS, st.sampled_from([None, 1.0, 0.125, -2.0, 0.1]), st.booleans())
def test_exp_of_a_scaled_difference(seed, factor, rowed):
    a, most = noise(seed, (3, 5)), noise(seed + 1, (3, 1))
    got = meaning("exp", like((3, 5)), a, *([most] if rowed else []), **({} if factor is None else {"factor": factor}))
    for i, j in itertools.product(range(3), range(5)):
        # The product and the difference are fp32 each; the power is rounded correctly.
        power = np.float32(a[i, j] * np.float32(1.0 if factor is None else factor))
        power = np.float32(power - most[i, 0]) if rowed else power
        assert got[i, j] == np.float32(math.exp(float(power)))


def test_exp_of_a_row_and_of_narrow_formats():
    a, row = noise(5, (3, 4), BF16), noise(6, (4,))
    got = meaning("exp", like((3, 4), BF16), a, row)
    for i, j in itertools.product(range(3), range(4)):
        exact = np.float32(math.exp(float(np.float32(float(a[i, j])) - row[j])))
        assert got[i, j] == exact.astype(BF16)
    with np.errstate(over="ignore"):  # as in memory
        assert meaning("exp", like((1,)), np.array([200], np.float32)).tolist() == [math.inf]
    assert meaning("exp", like((1,)), np.array([-200], np.float32)).tolist() == [0.0]


BINARY = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
}


@settings(max_examples=40)
@given(SEEDS, st.sampled_from(sorted(BINARY)), st.sampled_from([(3, 4), (3, 1), (1, 4), (4,), (1,)]))
def test_operations_of_two(seed, op, small):
    a, b = noise(seed, (3, 4)), noise(seed + 1, small)
    got, wide = meaning(op, like((3, 4)), a, b), np.broadcast_to(b, (3, 4))
    for i, j in itertools.product(range(3), range(4)):
        assert got[i, j] == np.float32(BINARY[op](float(a[i, j]), float(wide[i, j])))
    c, d = whole(seed, (3, 4), np.int32), whole(seed + 1, small, np.int32)
    ints, wide = meaning(op, like((3, 4), np.int32), c, d), np.broadcast_to(d, (3, 4))
    for i, j in itertools.product(range(3), range(4)):
        assert ints[i, j] == BINARY[op](int(c[i, j]), int(wide[i, j]))


UNARY = {
    "cast": lambda a: a,
    "relu": lambda a: max(a, 0.0),
    "square": lambda a: a * a,
    "reciprocal": lambda a: 1 / a,
    "rsqrt": lambda a: 1 / math.sqrt(a),
}


@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), BF16, np.dtype(np.float16)])
def test_operations_of_one(op, dtype):
    a = noise(1, (5, 7))
    a = abs(a) if op == "rsqrt" else a
    got = meaning(op, like((5, 7), dtype), a)
    for i, j in itertools.product(range(5), range(7)):
        assert got[i, j] == np.float32(UNARY[op](float(a[i, j]))).astype(dtype)


def test_scale_and_reductions():
    a = np.array([[1, 2, 3], [4, -5, 6]], np.float32)
    assert meaning("scale", like((2, 3)), a, factor=2.0, offset=-1.0).tolist() == [[1, 3, 5], [7, -11, 11]]
    assert meaning("scale", like((2, 3)), a, factor=0.5).tolist() == [[0.5, 1, 1.5], [2, -2.5, 3]]
    assert meaning("sum", like((2, 1)), a).tolist() == [[6], [5]]
    assert meaning("sum", like((2, 1)), a, accumulate=1).tolist() == [[83], [82]]
    assert meaning("max", like((2, 1)), a).tolist() == [[3], [6]]
    assert meaning("max", np.array([[2], [9]], np.float32), a, accumulate=1).tolist() == [[3], [9]]


def test_epilogues_by_hand():
    # A quarter of each, halves up: 1.25, 1.5, -1.25, -1.5, 150.
    acc = np.array([[5, 6, -5, -6, 600]], np.int32)
    quarter = {"multiplier": 1, "shift": 2}
    assert meaning("requantize", like((1, 5), np.int8), acc, **quarter).tolist() == [[1, 2, -1, -1, 127]]
    relu = meaning("requantize", like((1, 5), np.int8), acc, **quarter, activation="relu")
    assert relu.tolist() == [[1, 2, 0, 0, 127]]
    bias = np.array([3, 0, 0, -4, 0], np.int32)
    assert meaning("requantize", like((1, 5), np.int8), acc, bias, **quarter).tolist() == [[2, 2, -1, -2, 127]]
    row = np.array([1, -1], np.float32)
    rows = np.array([[0.5, 0.5], [-3, 4]], np.float32)
    assert meaning("bias", like((2, 2)), rows, row).tolist() == [[1.5, -0.5], [-2, 3]]
    assert meaning("bias", like((2, 2)), rows, row, activation="relu").tolist() == [[1.5, 0], [0, 3]]
    assert meaning("bias", like((2, 2)), rows).tolist() == rows.tolist()


def test_only_what_accumulates_reads_its_destination():
    for name, op in OPS.items():
        assert op.access({"accumulate": 0}) == "w"
        assert op.access({"accumulate": 1}) == ("rw" if name in ("mma", "mac", "sum", "max") else "w")
        assert op.clips == (name in ("copy", "gather", "load", "store"))
        assert op.lookup == (name == "gather")
        assert op.engine in FAMILY.engines(H100)


ILLEGAL = [
    # (what stands there, machine, why not)
    ("mma c{0}, f{0}, f{1} accumulate=0", H100, "the tensor cores do not multiply fp32; mac does"),
    ("mma c{0}, e{0}, e{1} accumulate=0", A100, "there is no fp8 x fp8 -> fp32; there is: bf16 x bf16 -> fp32"),
    ("mma c{0}, a{0}, h{0} accumulate=0", H100, "b from shared memory, not shared and registers"),
    ("mma c{0}[0 +: 64, 0 +: 60], a{0}, b{0}[0 +: 64, 0 +: 60] accumulate=0", H100, "60 columns; a multiple of 8"),
    ("mma c{0}, a{0}[0 +: 32, 0 +: 64], b{0} accumulate=0", H100, "shapes do not match"),
    ("mma c{0}, a{0}, b{0}[0 +: 64, 0 +: 32] accumulate=0 transpose=b", H100, "shapes do not match"),
    ("mma s{0}, a{0}, b{0} accumulate=0", H100, "the sum lies in registers, not shared"),
    ("mma c{0}, x, b{0} accumulate=0", H100, "takes buffers only; a tensor must be loaded first"),
    ("load a{0}, x", H100, "the destination must lie in registers, not shared"),
    ("copy h{0}, x", H100, "the destination must lie in shared, not registers"),
    ("copy a{0}, a{1}", H100, "one side must be a buffer, the other a tensor"),
    ("copy s{0}, x", H100, "formats differ: fp32 and bf16"),
    ("copy a{0}[0 +: 8, 0 +: 8], x", H100, "shapes do not match"),
    ("move c{0}, c{1}", H100, "moves between registers and shared memory"),
    ("move c{0}, a{0}", H100, "formats differ: fp32 and bf16"),
    ("add s{0}, s{0}, s{0}", H100, "works on registers; move it there first"),
    ("add c{0}, c{0}, i{0}", H100, "integers and floats do not mix"),
    ("exp i{0}, i{0}", H100, "exp works on floats, not int32, int32"),
    ("sum c{0}, c{1} accumulate=0", H100, "shapes do not match"),
    ("requantize h{0}, i{0} multiplier=1 shift=1", H100, "no requantize from int32 to bf16"),
    ("copy a{0}, x multicast=2", A100, "multicast=2; allowed: 1 to 1"),
    ("copy a{0}, x multicast=9", H100, "multicast=9; allowed: 1 to 8"),
    ("copy a{0}, x multicast=4", H100, "multicast=4: the innermost grid variable must be a multiple of it"),
    ("copy a{0}, x[v +: 64, 0 +: 64] multicast=2", H100, "multicast=2: what is copied depends on v"),
]


@pytest.mark.parametrize(("text", "machine", "why"), ILLEGAL)
def test_what_a_machine_cannot_do_is_refused_by_name(text, machine, why):
    declared = """
    tensor x: bf16[64, 64] in @hbm
    buffer a: bf16[64, 64] x2 @shared+0
    buffer b: bf16[64, 64] x1 @shared+16384
    buffer f: fp32[64, 64] x2 @shared+24576
    buffer e: fp8[64, 64] x2 @shared+57344
    buffer s: fp32[64, 64] x1 @shared+65536
    buffer c: fp32[64, 64] x2 @registers+0
    buffer h: bf16[64, 64] x1 @registers+32768
    buffer i: int32[64, 64] x1 @registers+40960
    """
    with pytest.raises(Unsupported) as found:
        program(declared + text, machine, "grid u=3, v=6 dispatch")
    assert why in str(found.value)


def test_streams_have_no_units():
    with pytest.raises(Unsupported, match="unit 1: an SM has one of each engine"):
        program("stream s unit 1 { sync }")
