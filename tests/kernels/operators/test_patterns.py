"""Are the inputs repeatable, unlike each other, and such that no part of the work can be left out unseen?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.kernels.operators import PATTERNS, operator, parse_workload
from presil.kernels.operators.contraction import accumulator_step, requantisation
from presil.kernels.operators.probes import plan
from presil.simulators.errors import BadInput, Unsupported

TEXTS = (
    "matmul:batch=2,m=6,n=8,k=40,dtype=int8,out=int8,bias=yes",
    "matmul:m=6,n=8,k=40,dtype=bf16,bias=yes",
    "matmul:m=6,n=8,k=40,dtype=fp8",
    "matmul:m=6,n=8,k=40,dtype=fp16",
    "grouped_matmul:groups=3,m=8,n=8,k=40,align=2,dtype=bf16",
    "attention:batch=2,heads=2,kv_heads=1,q=2,kv=20,head=16,page=8,dtype=bf16",
    "conv2d:n=2,h=7,w=6,c=4,f=6,r=3,s=2,groups=2,dtype=int8,bias=yes",
    "elementwise:kind=add,rows=20,columns=30,dtype=int8",
    "reduction:kind=max,rows=20,columns=30,dtype=fp32",
    "softmax:rows=20,columns=30,dtype=bf16",
    "layernorm:rows=20,columns=30,dtype=fp32",
    "rmsnorm:rows=20,columns=30,dtype=bf16",
)


def make(text, seed, pattern):
    workload = parse_workload(text)
    return operator(workload.operator).inputs(workload, seed, pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", TEXTS)
def test_repeatable_and_unlike_under_another_seed(text, pattern):
    first, again, other = make(text, 7, pattern), make(text, 7, pattern), make(text, 8, pattern)
    for name, values in first.items():
        assert values.tobytes() == again[name].tobytes()
    assert any(values.tobytes() != other[name].tobytes() for name, values in first.items())


def test_tensors_of_one_workload_are_independent():
    inputs = make("elementwise:kind=add,rows=20,columns=30,dtype=fp32", 1, "random")
    assert abs(np.corrcoef(inputs["x"].ravel(), inputs["z"].ravel())[0, 1]) < 0.2


@pytest.mark.parametrize("text", TEXTS)
def test_inputs_are_finite_and_signed(text):
    for pattern in PATTERNS:
        inputs = make(text, 3, pattern)
        assert all(np.isfinite(values.astype(np.float64)).all() for values in inputs.values())
    x = next(iter(make(text, 3, "random").values())).astype(np.float64)
    assert x.min() < 0 < x.max()


def test_integers_are_integers():
    for text in TEXTS:
        for values in make(text, 3, "integers").values():
            wide = values.astype(np.float64)
            assert (wide == np.rint(wide)).all()


def test_the_largest_sum_is_among_the_extremes():
    """-128 * -128 in every place: depth * 2**14, and no sum is larger."""
    workload = parse_workload("matmul:m=4,n=5,k=100,dtype=int8")
    op = operator("matmul")
    y = op.reference(workload, op.inputs(workload, 1, "extremes"))["y"]
    assert y[0, 0, 0] == y.max() == 100 << 14


def test_bad_pattern_and_seed():
    with pytest.raises(BadInput, match=r"unknown input pattern 'randm' \(did you mean 'random'\?\); one of: random"):
        make(TEXTS[0], 0, "randm")
    with pytest.raises(BadInput, match="seed -1 is negative"):
        make(TEXTS[0], -1, "random")


def test_what_cannot_be_held_is_refused_by_name():
    """x 4 GiB, w 4 GiB, y 4 * 2**34 = 64 GiB."""
    with pytest.raises(Unsupported, match=r"the tensors take 72\.0 GiB; values are computed for at most 16 GiB"):
        make("matmul:m=131072,n=131072,k=32768,dtype=int8", 0, "random")


@given(st.integers(1, 1 << 16))
def test_requantisation_brings_sums_to_the_same_spread(depth):
    """The standard deviation 5461 * sqrt(depth) becomes 40, within the 15 bits of the multiplier."""
    multiplier, shift = requantisation(depth)
    assert 1 << 14 <= multiplier < 1 << 15
    assert 5461 * depth**0.5 * multiplier / 2**shift == pytest.approx(40, rel=2**-14)
    assert accumulator_step(depth) * multiplier >= 1 << shift


@pytest.mark.parametrize("k", [9, 64, 576, 4096])
def test_random_requantised_outputs_spread_over_int8(k):
    workload = parse_workload(f"matmul:m=64,n=64,k={k},dtype=int8,out=int8")
    op = operator("matmul")
    y = op.reference(workload, op.inputs(workload, 1, "random"))["y"]
    assert 35 < y.std() < 45
    assert (np.abs(y) >= 127).mean() < 0.01


def shows(text, pieces):
    """Whether zeroing each piece of the weights in turn changes the answer to `marker`: the pieces that do not."""
    workload = parse_workload(text)
    op = operator(workload.operator)
    inputs = op.inputs(workload, 2, "marker")
    right = op.reference(workload, inputs)["y"]
    hidden = []
    for piece in pieces:
        w = inputs["w"].copy()
        w[piece] = 0
        if np.array_equal(op.reference(workload, {**inputs, "w": w})["y"], right):
            hidden.append(piece)
    return hidden


@pytest.mark.parametrize("out", ["int32", "int8"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(8, 64, 512), (1, 500, 1024), (300, 1, 512), (5, 7, 640), (1, 16, 4096), (2, 3, 9)]
)
def test_every_slice_of_a_matmul_shows(m, n, k, out):
    """Slices as short as a group of probes, 3/4 of which is enough to move an int8 output by 1."""
    text = f"matmul:batch=2,m={m},n={n},k={k},dtype=int8,out={out}"
    tile = plan(parse_workload(text), k, rows=m, columns=n).group
    assert tile <= 4
    pieces = [(b, slice(start, start + tile)) for b in range(2) for start in range(0, k, tile)]
    assert shows(text, pieces) == []


@pytest.mark.parametrize("out", ["int32", "int8"])
@pytest.mark.parametrize("shape", ["c=16,f=24,r=3,s=3,padding=1", "c=6,f=6,r=3,s=3,groups=6", "c=32,f=8,stride=2"])
def test_every_tap_of_every_channel_shows(shape, out):
    text = f"conv2d:n=1,h=7,w=6,{shape},dtype=int8,out={out},bias=yes"
    workload = parse_workload(text)
    taps = np.ndindex(workload.int("r"), workload.int("s"), workload.int("c") // workload.int("groups"))
    assert shows(text, list(taps)) == []


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_every_column_of_a_reduction_shows(kind):
    workload = parse_workload(f"reduction:kind={kind},rows=64,columns=50,dtype=fp32")
    op = operator("reduction")
    x = op.inputs(workload, 4, "marker")["x"]
    right = op.reference(workload, {"x": x})["y"]
    for column in range(50):
        without = np.delete(x, column, axis=1)
        assert not np.array_equal(op.reference(workload, {"x": without})["y"], right)


@pytest.mark.parametrize("kind", ["add", "multiply", "relu"])
def test_a_shifted_elementwise_kernel_shows(kind):
    """Neighbours along either axis differ, so that a kernel off by one row or column is wrong."""
    workload = parse_workload(f"elementwise:kind={kind},rows=20,columns=30,dtype=int8")
    op = operator("elementwise")
    y = op.reference(workload, op.inputs(workload, 4, "marker"))["y"]
    assert (y[1:] != y[:-1]).any(axis=1).all()
    assert (y[:, 1:] != y[:, :-1]).any(axis=0).all()
