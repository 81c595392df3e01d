"""Does each instruction mean what its name says? Against loops over Python numbers, written apart from `isa.py`."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.simulators.assembly import parse
from presil.simulators.errors import BadInput, Unsupported
from presil.simulators.family import family
from presil.simulators.legality import check_legality
from presil.simulators.systolic.isa import OPS

from .tiny import tiny

BF16 = np.dtype(ml_dtypes.bfloat16)
SEEDS = st.integers(0, 2**32 - 1)


def whole(seed: int, shape, dtype=np.int8, low: int = -128, high: int = 127) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high + 1, shape).astype(dtype)


def meaning(op: str, out: np.ndarray, *sources: np.ndarray, **attributes) -> np.ndarray:
    result = OPS[op].meaning(out, sources, {"accumulate": 0, **attributes})
    assert result.shape == out.shape
    return result.astype(out.dtype)


def wrapped(value: int) -> int:
    """As an int32 register holds it."""
    return (value + 2**31) % 2**32 - 2**31


@settings(max_examples=30)
@given(SEEDS, st.tuples(*[st.integers(1, 9)] * 3), st.sampled_from(["matmul", "mac"]), st.booleans())
def test_products_of_int8(seed, sizes, op, accumulate):
    m, k, n = sizes
    x, w = whole(seed, (m, k)), whole(seed + 1, (k, n))
    before = whole(seed + 2, (m, n), np.int32, -(2**31), 2**31 - 1)
    got = meaning(op, before, x, w, accumulate=int(accumulate))
    for i, j in itertools.product(range(m), range(n)):
        total = sum(int(x[i, c]) * int(w[c, j]) for c in range(k)) + (int(before[i, j]) if accumulate else 0)
        assert got[i, j] == wrapped(total)


def test_products_of_int8_stay_exact_where_float32_would_not():
    # 2,000 times 128 * 128 is 2**24 and more: a float32 sum would lose the last 1.
    x = np.full((1, 2001), -128, np.int8)
    w = np.full((2001, 1), -128, np.int8)
    x[0, -1], w[-1, 0] = 1, 1
    assert meaning("matmul", np.zeros((1, 1), np.int32), x, w)[0, 0] == 2000 * 16384 + 1


@settings(max_examples=20)
@given(SEEDS, st.integers(1, 4), st.integers(1, 9), st.integers(1, 4))
def test_products_of_bf16_are_rounded_once(seed, m, k, n):
    noise = np.random.default_rng(seed)
    x, w = noise.normal(size=(m, k)).astype(BF16), noise.normal(size=(k, n)).astype(BF16)
    got = meaning("matmul", np.zeros((m, n), np.float32), x, w)
    for i, j in itertools.product(range(m), range(n)):
        exact = math.fsum(float(x[i, c]) * float(w[c, j]) for c in range(k))
        assert abs(float(got[i, j]) - exact) <= 2**-24 * abs(exact) + 2**-50


def test_the_rows_of_an_image_are_the_rows_of_the_product():
    x, w = whole(1, (2, 3, 2, 4)), whole(2, (1, 1, 4, 5))
    got = meaning("mac", np.zeros((12, 5), np.int32), x, w)
    image = meaning("matmul", np.zeros((2, 3, 2, 5), np.int32), x, w[0, 0])
    wanted = np.einsum("ihwc,cf->ihwf", x.astype(np.int64), w[0, 0].astype(np.int64))
    assert np.array_equal(got, wanted.reshape(12, 5))
    assert np.array_equal(image, wanted)


@settings(max_examples=40)
@given(SEEDS, st.integers(1, 40), st.integers(0, 2**15), st.booleans(), st.booleans())
def test_requantisation_rounds_half_up_and_clamps(seed, shift, multiplier, biased, relu):
    acc = whole(seed, (3, 4), np.int32, -(2**31), 2**31 - 1)
    bias = whole(seed + 1, (4,), np.int32, -(2**20), 2**20)
    sources = (acc, bias) if biased else (acc,)
    activation = "relu" if relu else "none"
    got = meaning(
        "requantize", np.zeros((3, 4), np.int8), *sources, multiplier=multiplier, shift=shift, activation=activation
    )
    for i, j in itertools.product(range(3), range(4)):
        total = int(acc[i, j]) + (int(bias[j]) if biased else 0)
        rounded = math.floor(Fraction(total * multiplier, 2**shift) + Fraction(1, 2))
        assert got[i, j] == max(0 if relu else -128, min(127, rounded))


def test_requantisation_by_hand():
    acc = np.array([[5, 6, 7, -5, -6, -7, 600, -600]], np.int32)
    # A quarter of each, halves up: 1.25, 1.5, 1.75, -1.25, -1.5, -1.75, 150, -150.
    got = meaning("requantize", np.zeros((1, 8), np.int8), acc, multiplier=1, shift=2)
    assert got.tolist() == [[1, 2, 2, -1, -1, -2, 127, -128]]
    relu = meaning("requantize", np.zeros((1, 8), np.int8), acc, multiplier=1, shift=2, activation="relu")
    assert relu.tolist() == [[1, 2, 2, 0, 0, 0, 127, 0]]


BINARY = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
}


@settings(max_examples=30)
@given(SEEDS, st.sampled_from(sorted(BINARY)), st.sampled_from(["row", "column", "whole", "one"]))
def test_pairs_of_int8_saturate_and_broadcast(seed, op, kind):
    shape = {"row": (5,), "column": (3, 1), "whole": (3, 5), "one": (1, 1)}[kind]
    a, b = whole(seed, (3, 5)), whole(seed + 1, shape)
    got = meaning(op, np.zeros((3, 5), np.int8), a, b)
    for i, j in itertools.product(range(3), range(5)):
        at = {"row": (j,), "column": (i, 0), "whole": (i, j), "one": (0, 0)}[kind]
        other = int(b[at])
        assert got[i, j] == max(-128, min(127, BINARY[op](int(a[i, j]), other)))


@settings(max_examples=20)
@given(SEEDS, st.sampled_from(sorted(BINARY)), st.sampled_from([np.dtype(np.float32), BF16]))
def test_pairs_of_floats_are_computed_in_fp32(seed, op, dtype):
    noise = np.random.default_rng(seed)
    a, b = noise.normal(size=(3, 5)).astype(dtype), noise.normal(size=(3, 5)).astype(dtype)
    got = meaning(op, np.zeros((3, 5), dtype), a, b)
    for i, j in itertools.product(range(3), range(5)):
        wide = np.float32(BINARY[op](np.float32(a[i, j]), np.float32(b[i, j])))
        assert got[i, j] == wide.astype(dtype)


UNARY = {
    "relu": lambda v: max(v, 0.0),
    "exp": math.exp,
    "reciprocal": lambda v: 1 / v,
    "rsqrt": lambda v: 1 / math.sqrt(v),
    "square": lambda v: v * v,
    "cast": lambda v: v,
}


@pytest.mark.parametrize("op", sorted(UNARY))
def test_functions_of_one_number(op):
    a = np.array([[0.25, 1.0, 3.5, 80.0]] if op != "relu" else [[-2.0, 0.0, 3.5, -0.1]], np.float32)
    got = meaning(op, np.zeros((1, 4), np.float32), a)
    wanted = [UNARY[op](float(v)) for v in a[0]]
    assert np.allclose(got[0].astype(np.float64), wanted, rtol=2**-22, atol=0)


def test_casts_saturate_integers_and_round_floats():
    wide = np.array([[300, -300, 5]], np.int32)
    assert meaning("cast", np.zeros((1, 3), np.int8), wide).tolist() == [[127, -128, 5]]
    assert meaning("cast", np.zeros((1, 3), np.uint8), wide).tolist() == [[255, 0, 5]]
    assert meaning("cast", np.zeros((1, 3), np.int16), 1000 * wide).tolist() == [[32767, -32768, 5000]]
    assert meaning("add", np.zeros((1, 1), np.uint8), np.uint8([[200]]), np.uint8([[55]])).tolist() == [[255]]
    # 1 + 2**-8 lies between two bf16 numbers, 1 and 1 + 2**-7: the even one is 1. A little more goes up.
    floats = np.array([[1 + 2**-8, 1 + 2**-8 + 2**-20]], np.float32)
    assert meaning("cast", np.zeros((1, 2), BF16), floats).astype(np.float64).tolist() == [[1.0, 1 + 2**-7]]


def test_scale_and_the_reductions():
    a = np.array([[1.0, -2.0, 4.0], [0.5, 0.25, 8.0]], np.float32)
    assert meaning("scale", np.zeros_like(a), a, factor=2.0, offset=1.0).tolist() == [[3, -3, 9], [2, 1.5, 17]]
    assert meaning("scale", np.zeros_like(a), a, factor=0.5).tolist() == (a / 2).tolist()
    before = np.array([[10.0], [-20.0]], np.float32)
    assert meaning("sum", before, a).tolist() == [[3], [8.75]]
    assert meaning("sum", before, a, accumulate=1).tolist() == [[13], [-11.25]]
    assert meaning("max", before, a).tolist() == [[4], [8]]
    assert meaning("max", before, a, accumulate=3).tolist() == [[10], [8]]


def test_bias_and_activation():
    acc = np.array([[1, -7, 3]], np.int32)
    bias = np.array([2, 2, -9], np.int32)
    assert meaning("bias", np.zeros((1, 3), np.int32), acc, bias).tolist() == [[3, -5, -6]]
    assert meaning("bias", np.zeros((1, 3), np.int32), acc, bias, activation="relu").tolist() == [[3, 0, 0]]
    assert meaning("bias", np.zeros((1, 3), np.int32), acc).tolist() == acc.tolist()


def test_copies_go_in_row_major_order():
    x = whole(5, (2, 3, 4))
    for op in ("load", "store"):
        assert np.array_equal(meaning(op, np.zeros((6, 4), np.int8), x), x.reshape(6, 4))
    assert np.array_equal(meaning("shift", np.zeros((3, 4), np.int8), x[:1]), x[0])
    assert meaning("fill", np.zeros((2, 2), np.int8), value=-3).tolist() == [[-3, -3], [-3, -3]]
    results = whole(6, (6, 5), np.int32)
    assert np.array_equal(
        meaning("drain", np.ones((2, 3, 5), np.int32), results, accumulate=1).reshape(6, 5), results + 1
    )


def test_accumulation_reads_the_destination_and_all_else_only_writes_it():
    for op in OPS.values():
        adds = "accumulate" in op.attributes
        assert op.access({"accumulate": 1}) == ("rw" if adds else "w")
        assert op.access({"accumulate": 0}) == "w"


def test_the_family_names_its_engines_once_each():
    machine = tiny(array={"count": 2})
    names = family("systolic").engines(machine)
    assert names == (
        "load0", "load1", "weights0", "weights1", "matrix0", "matrix1", "drain0", "drain1", "vector", "store",
    )  # fmt: skip
    assert family("systolic").spaces(machine) == {
        "scratchpad": 4096, "accumulator": 2048,
        "planes0": 2 * 3 * 5 * 2, "planes1": 2 * 3 * 5 * 2, "results0": 2 * 3 * 5 * 4, "results1": 2 * 3 * 5 * 4,
    }  # fmt: skip


DECLARED = """
program "p" on "tiny"
workload "none"
tensor x: int8[4, 7] in @dram
tensor y: int32[4, 5] out @dram
buffer a: int8[4, 7] x1 @scratchpad+0
buffer c: int8[4, 3] x1 @scratchpad+32
buffer w: int8[3, 5] x1 @scratchpad+64
buffer wide: int32[4, 7] x1 @scratchpad+128
buffer f: fp32[4, 5] x1 @scratchpad+512
buffer bias: int32[4] x1 @scratchpad+640
buffer u: uint8[4, 5] x1 @scratchpad+704
buffer p: int8[3, 5] x2 @planes+0
buffer p3: int8[3, 5] x3 @planes+0
buffer r: int32[3, 5] x1 @results+0
buffer acc: int32[4, 5] x1 @accumulator+0
stream s UNIT { LINE }
"""
REFUSED = {
    "load a{0}, x[0 +: 4, 0 +: 6]": "sizes differ: [4, 7] and [4, 6]",
    "load wide{0}, x": "formats differ: int32 and int8",
    "load p{0}, x[0 +: 3, 0 +: 5]": "the on-chip side must be a buffer in scratchpad, accumulator, weights",
    "load a{0}, w{0}": "the memory side must be a tensor",
    "store y, p{0}": "the on-chip side must be a buffer in scratchpad, accumulator, weights",
    "fill a{0} value=128": "value=128 does not fit int8; allowed: -128 to 127",
    "fill u{0} value=256": "value=256 does not fit uint8; allowed: 0 to 255",
    "add u{0}, u{0}, f{0}": "integers and floats do not mix: uint8, uint8, fp32",
    "fill f{0} value=16777217": "value=16777217 does not fit fp32; allowed: -16777216 to 16777216",
    "fill p{0} value=0": "writes a buffer in scratchpad, accumulator, weights",
    "shift p3{0}, w{0}": "3 slots, but the array has 2 weight planes",
    "shift p{0}[0 +: 2, 0 +: 5], w{0}": "shapes differ: [2, 5] and [3, 5]",
    "shift w{0}, w{0}": "the destination must lie in planes, not scratchpad",
    "shift p{0}, acc{0}[0 +: 3, 0 +: 5]": "weights come from scratchpad, not accumulator",
    "matmul acc{0}, a{0}, p{0}": "shapes do not match: [4, 5] = [4, 7] @ [3, 5]",
    "matmul acc{0}, c{0}, w{0}": "takes accumulator, scratchpad, planes, not accumulator, scratchpad, scratchpad",
    "matmul acc{0}, x[0 +: 4, 0 +: 3], p{0}": "takes buffers only; a tensor must be loaded first",
    "mac r{0}, c{0}, w{0}": "shapes do not match: [3, 5] = [4, 3] @ [3, 5]",
    "drain acc{0}, r{0}": "shapes differ: [4, 5] and [3, 5]",
    "exp a{0}, a{0}": "exp works on bf16 and fp32, not int8, int8",
    "add a{0}, a{0}, f{0}[0 +: 4, 0 +: 1]": "integers and floats do not mix: int8, int8, fp32",
    "add a{0}, a{0}, c{0}": "shapes do not match: [4, 7], [4, 7], [4, 3]",
    "relu a{0}[0 +: 4, 0 +: 3], a{0}": "shapes do not match: [4, 3], [4, 7]",
    "sum wide{0}, a{0}": "shapes do not match: [4, 7], [4, 7]",
    "requantize a{0}, a{0} multiplier=1 shift=1": "no requantize from int8 to int8",
    "requantize a{0}, wide{0}, bias{0} multiplier=1 shift=1": "the bias must be 7 elements of int32",
    "requantize a{0}, wide{0} multiplier=536870913 shift=1": "multiplier=536870913; allowed: -536870912 to 536870912",
    "bias f{0}, acc{0}": "no bias from int32 to fp32",
}


def refusal(line: str, machine=None, unit: int = 0) -> str:
    with pytest.raises(Unsupported) as caught:
        check_legality(parse(DECLARED.replace("UNIT", f"unit {unit}").replace("LINE", line)), machine or tiny())
    return str(caught.value)


@pytest.mark.parametrize(("line", "reason"), REFUSED.items())
def test_what_the_machine_cannot_do_is_refused_by_name(line, reason):
    assert refusal(line).endswith(f": {reason}")


def test_what_a_machine_lacks_is_refused_by_name():
    program = parse(DECLARED.replace("UNIT", "").replace("LINE", "shift p{0}, w{0}"))
    (shift,) = program.streams[0].body
    only_os = tiny(array={"dataflows": ("os",)})
    assert family("systolic").legal(shift, 0, program, only_os) == "the array is not weight-stationary"
    with pytest.raises(
        BadInput, match="buffer p: tiny has no space 'planes'; it has: scratchpad, accumulator, results"
    ):
        check_legality(program, only_os)
    assert "the vector unit has no exp; it has: relu" in refusal(
        "exp f{0}, f{0}", tiny(vector={"operations": ("relu",)})
    )
    assert "unit 2: there are 2 channels" in refusal("load a{0}, x", unit=2)
    assert "unit 1: there are 1 arrays" in refusal("drain acc{0}[0 +: 3, 0 +: 5], r{0}", unit=1)
    assert "a tile of [3, 5] does not fit the array of 2 rows and 5 columns" in refusal(
        "mac r{0}, c{0}[0 +: 3, 0 +: 3], w{0}", tiny(rows=2, array={"result_planes": 8, "weight_planes": 8})
    )
