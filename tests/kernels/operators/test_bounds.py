"""Do the error bounds let every right kernel pass, and none that is wrong? Both sides, on every pattern of inputs."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.kernels.operators import PATTERNS, operator, parse_workload
from presil.kernels.operators.admission import wrong_elements
from presil.kernels.operators.rounding import gamma, half_ulp, output_bound, rounded

from . import kernels_fp32

FLOATS = (
    "matmul:batch=2,m=5,n=7,k=1,dtype=bf16",
    "matmul:batch=2,m=5,n=7,k=300,dtype=bf16",
    "matmul:m=5,n=7,k=4096,dtype=bf16,bias=yes",
    "matmul:m=5,n=7,k=300,dtype=fp16",
    "grouped_matmul:groups=4,m=12,n=7,k=300,align=2,dtype=bf16,out=bf16,bias=yes",
    "matmul:m=5,n=7,k=300,dtype=fp8,out=bf16,bias=yes",
    "matmul:m=5,n=7,k=300,dtype=fp32,bias=yes",
    "softmax:rows=13,columns=100,dtype=fp16",
    "elementwise:kind=multiply,rows=9,columns=33,dtype=fp16",
    "matmul:m=5,n=7,k=300,dtype=bf16,out=bf16,bias=yes,activation=relu",
    "elementwise:kind=add,rows=9,columns=33,dtype=bf16",
    "elementwise:kind=add,rows=9,columns=33,dtype=fp32",
    "elementwise:kind=multiply,rows=9,columns=33,dtype=bf16",
    "elementwise:kind=multiply,rows=9,columns=33,dtype=fp32",
    "reduction:kind=sum,rows=13,columns=1000,dtype=fp32",
    "reduction:kind=sum,rows=13,columns=1000,dtype=bf16",
    "reduction:kind=max,rows=13,columns=100,dtype=fp32",
    "softmax:rows=13,columns=2,dtype=fp32",
    "softmax:rows=13,columns=1000,dtype=fp32",
    "softmax:rows=13,columns=100,dtype=bf16",
    "layernorm:rows=13,columns=2,dtype=fp32",
    "layernorm:rows=13,columns=1000,dtype=fp32",
    "layernorm:rows=13,columns=100,dtype=bf16",
    "rmsnorm:rows=13,columns=2,dtype=fp32",
    "rmsnorm:rows=13,columns=1000,dtype=fp32",
    "rmsnorm:rows=13,columns=100,dtype=bf16",
)


def task(text, seed, pattern):
    workload = parse_workload(text)
    op = operator(workload.operator)
    inputs = op.inputs(workload, seed, pattern)
    return workload, inputs, op.reference(workload, inputs)["y"], op.error_bound(workload, inputs)["y"]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", FLOATS)
@pytest.mark.parametrize("order", kernels_fp32.ORDERS, ids=lambda order: order.__name__)
def test_a_right_kernel_passes_in_any_order(text, pattern, order):
    for seed in range(2):
        workload, inputs, reference, bound = task(text, seed, pattern)
        actual = getattr(kernels_fp32, workload.operator)(workload, inputs, order)
        assert not wrong_elements(actual, reference, bound).any()


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("columns", [1, 2, 3, 50])
@pytest.mark.parametrize("name", ["softmax", "layernorm", "rmsnorm"])
def test_two_units_in_the_last_place_are_allowed(name, columns, pattern):
    """exp, rsqrt and reciprocal as far off as the vector unit may be; short rows, where sums add little."""
    workload, inputs, reference, bound = task(f"{name}:rows=200,columns={columns},dtype=fp32", 1, pattern)
    kernel, off = getattr(kernels_fp32, name), kernels_fp32.two_ulps_off
    assert not wrong_elements(kernel(workload, inputs, kernels_fp32.tree, off), reference, bound).any()


@given(st.integers(1, 300), st.integers(0, 2**32), st.sampled_from(PATTERNS), st.sampled_from(kernels_fp32.ORDERS))
def test_a_right_matmul_passes_at_any_depth(depth, seed, pattern, order):
    workload, inputs, reference, bound = task(f"matmul:m=3,n=2,k={depth},dtype=bf16,bias=yes", seed, pattern)
    assert not wrong_elements(kernels_fp32.matmul(workload, inputs, order), reference, bound).any()


@pytest.mark.parametrize("pattern", ["marker", "integers"])
def test_exact_sums_have_no_room(pattern):
    """15 * 15 * 4096 < 2**24: every order gives the same integer, so one unit in the last place is already wrong."""
    _, _, reference, bound = task("matmul:m=5,n=7,k=4096,dtype=bf16,bias=yes", 1, pattern)
    assert (bound == 0).all()
    actual = reference.astype(np.float32)
    assert not wrong_elements(actual, reference, bound).any()
    assert wrong_elements(np.nextafter(actual, np.float32(np.inf)), reference, bound).all()


def test_integers_beyond_2_24_have_room():
    """255 * 255 * 1001 > 2**24 and odd: fp32 cannot hold it, so right kernels differ."""
    workload = parse_workload("matmul:m=1,n=1,k=1001,dtype=bf16")
    full = {name: np.full(shape, 255, ml_dtypes.bfloat16) for name, shape in (("x", (1, 1, 1001)), ("w", (1, 1001, 1)))}
    reference, bound = (f(workload, full)["y"] for f in (operator("matmul").reference, operator("matmul").error_bound))
    assert reference.item() == 255 * 255 * 1001
    actual = kernels_fp32.matmul(workload, full, kernels_fp32.forward)
    assert actual.item() != reference.item()
    assert not wrong_elements(actual, reference, bound).any()


def halved(values):
    return values.astype(np.float16).astype(np.float32)


def in_fp16(terms):
    """A sum whose accumulator is fp16."""
    total = halved(terms[0])
    for term in terms[1:]:
        total = halved(total + term)
    return total


@pytest.mark.parametrize("depth", [32, 256, 4096])
def test_fp16_accumulators_fail(depth):
    for pattern in ("random", "integers"):
        workload, inputs, reference, bound = task(f"matmul:m=5,n=7,k={depth},dtype=bf16", 1, pattern)
        with np.errstate(over="ignore", invalid="ignore"):
            actual = kernels_fp32.matmul(workload, inputs, in_fp16)
        if wrong_elements(actual, reference, bound).any():
            return
    pytest.fail("passed on both patterns")


def in_bf16(terms):
    total = terms[0].astype(ml_dtypes.bfloat16)
    for term in terms[1:]:
        total = (total + term).astype(ml_dtypes.bfloat16)
    return total.astype(np.float32)


@pytest.mark.parametrize(
    "text",
    [
        "matmul:m=5,n=7,k=300,dtype=bf16",
        "matmul:m=5,n=7,k=300,dtype=bf16,out=bf16",
        "reduction:kind=sum,rows=13,columns=300,dtype=bf16",
        "softmax:rows=13,columns=300,dtype=bf16",
        "layernorm:rows=13,columns=300,dtype=bf16",
        "rmsnorm:rows=13,columns=300,dtype=bf16",
    ],
)
def test_bf16_accumulators_fail(text):
    workload, inputs, reference, bound = task(text, 1, "random")
    actual = getattr(kernels_fp32, workload.operator)(workload, inputs, in_bf16)
    assert wrong_elements(actual, reference, bound).any()


@pytest.mark.parametrize("tile", [1, 16, 128])
@pytest.mark.parametrize("out", ["fp32", "bf16"])
def test_a_dropped_slice_fails_somewhere(tile, out):
    """Any slice of k, left out: the pattern `marker` must show it."""
    workload, inputs, reference, bound = task(f"matmul:m=6,n=100,k=512,dtype=bf16,out={out}", 1, "marker")
    for start in range(0, 512, tile):
        x = inputs["x"].copy()
        x[..., start : start + tile] = 0
        actual = kernels_fp32.matmul(workload, {**inputs, "x": x}, kernels_fp32.tree)
        assert wrong_elements(actual, reference, bound).any(), start


@pytest.mark.parametrize("name", ["softmax", "layernorm", "rmsnorm"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_statistic_without_its_last_tile_fails(name, dtype):
    """The last 64 of 1000 columns left out of the sums, though normalised like the others."""

    def short(terms):
        return kernels_fp32.tree(terms[:-64])

    failed = []
    for pattern in PATTERNS:
        workload, inputs, reference, bound = task(f"{name}:rows=13,columns=1000,dtype={dtype}", 1, pattern)
        actual = getattr(kernels_fp32, name)(workload, inputs, short)
        failed.append(wrong_elements(actual, reference, bound).any())
    assert failed[PATTERNS.index("marker")]
    assert failed[PATTERNS.index("random")]


def test_softmax_without_the_maximum_fails():
    _, inputs, reference, bound = task("softmax:rows=13,columns=100,dtype=fp32", 1, "extremes")
    with np.errstate(over="ignore", invalid="ignore"):
        terms = np.exp(inputs["x"])
        actual = terms / terms.sum(axis=1, keepdims=True)
    assert wrong_elements(actual, reference, bound).any()


def test_variance_from_squares_fails():
    """The mean of squares less the square of the mean loses what the mean exceeds the deviation by."""
    _, inputs, reference, bound = task("layernorm:rows=13,columns=100,dtype=fp32", 1, "extremes")
    x = inputs["x"]
    mean = x.mean(axis=1, keepdims=True)
    variance = np.maximum((x * x).mean(axis=1, keepdims=True) - mean * mean, np.float32(0))
    actual = (x - mean) / np.sqrt(variance + np.float32(1e-5)) * inputs["gamma"] + inputs["beta"]
    assert wrong_elements(actual, reference, bound).any()


def test_a_maximum_that_starts_from_zero_fails():
    _, inputs, reference, bound = task("reduction:kind=max,rows=4,columns=50,dtype=fp32", 1, "random")
    assert wrong_elements(np.maximum(inputs["x"].max(axis=1, keepdims=True), 0), reference, bound).any()


def test_truncation_to_bf16_fails():
    _, _, reference, bound = task("elementwise:kind=multiply,rows=9,columns=33,dtype=bf16", 1, "random")
    cut = (reference.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
    assert wrong_elements(cut, reference, bound).any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_wrong_under_any_bound(value):
    assert wrong_elements(np.array([value]), np.array([0.0]), np.array([1e300])).all()


def test_gamma_by_hand():
    """n * u / (1 - n * u) with n = 2**22, u = 2**-24: a quarter over three quarters."""
    assert gamma(1 << 22) == pytest.approx(1 / 3)
    assert gamma(0) == 0


def test_rounding_by_hand():
    """bf16 has 8 bits: neighbours of 1 are 1 - 2**-8 and 1 + 2**-7. A tie goes to the even one, a little more up."""
    values = np.array([1 + 2**-8, 1 + 2**-8 + 2**-40, 1 + 3 * 2**-8, 257.0, -257.5, 0.0])
    assert rounded(values, "bf16").tolist() == [1, 1 + 2**-7, 1 + 2**-6, 256, -258, 0]
    assert half_ulp(np.array([1.0, 1.999, 2.0, 256.0]), "bf16").tolist() == [2**-8, 2**-8, 2**-7, 1]
    assert half_ulp(np.array([1.0]), "fp32").tolist() == [2**-24]
    # Known exactly: only the distance to the nearest; else the error, and half a unit where it may lead.
    assert output_bound(np.array([257.0]), np.array([0.0]), "bf16").tolist() == [1]
    assert output_bound(np.array([255.0]), np.array([2.0]), "bf16").tolist() == [3]


@given(st.floats(-(2.0**100), 2.0**100, width=32))
def test_rounding_is_the_cast_where_the_cast_rounds_once(value):
    """From fp32, the cast to bf16 rounds once."""
    cast = float(np.float32(value).astype(ml_dtypes.bfloat16))
    assert rounded(np.array([value]), "bf16")[0] == cast
    assert rounded(np.array([value]), "fp32")[0] == value
