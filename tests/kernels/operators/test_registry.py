"""Are workloads read and written as they should be, and does each mistake name itself?"""

import importlib.metadata
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.kernels.operators import (
    Workload,
    operator,
    operator_names,
    parse_workload,
    registry,
    workload_from_mapping,
)
from presil.simulators.errors import BadInput

FLOATS = (
    "attention", "conv2d", "elementwise", "grouped_matmul", "layernorm", "matmul", "reduction", "rmsnorm", "softmax",
)  # fmt: skip
QUANTISED = ("pool2d", "qconv2d", "qelementwise", "qmatmul", "qnorm", "qsoftmax", "resize")
OPERATORS = tuple(sorted((*FLOATS, *QUANTISED, "dequantised_matmul")))


@pytest.fixture
def fresh_registry():
    registry._operators.cache_clear()
    yield
    registry._operators.cache_clear()


def test_operators_are_found_by_listing():
    assert operator_names() == OPERATORS
    for name in OPERATORS:
        assert operator(name).name == name
        assert all(p.doc for p in operator(name).parameters)


def test_all_defaults_are_filled_in():
    workload = parse_workload("matmul:m=512,n=256,k=128,dtype=int8")
    assert workload == Workload(
        "matmul",
        (
            ("batch", 1), ("m", 512), ("n", 256), ("k", 128),
            ("dtype", "int8"), ("out", "int32"), ("bias", "no"), ("activation", "none"),
        ),
    )  # fmt: skip
    assert workload.int("m") == 512
    assert workload.word("out") == "int32"
    with pytest.raises(KeyError):
        workload["rows"]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("matmul:k=3,n=2,m=1", "matmul:m=1,n=2,k=3,dtype=int8"),
        (" matmul : m = 1 , n=+2,k=003 ", "matmul:m=1,n=2,k=3,dtype=int8"),
        ("matmul:m=1,n=2,k=3,dtype=bf16,out=fp32", "matmul:m=1,n=2,k=3,dtype=bf16"),
        ("matmul:m=1,n=2,k=3,out=int8,batch=1", "matmul:m=1,n=2,k=3,dtype=int8,out=int8"),
        (
            "conv2d:n=1,h=8,w=9,c=4,f=6,r=3,s=3,padding=0,groups=2,activation=relu",
            "conv2d:n=1,h=8,w=9,c=4,f=6,r=3,s=3,groups=2,dtype=int8,activation=relu",
        ),
        ("softmax:rows=3,columns=4", "softmax:rows=3,columns=4,dtype=fp32"),
    ],
)
def test_canonical_text(text, canonical):
    assert str(parse_workload(text)) == canonical
    assert parse_workload(canonical) == parse_workload(text)


@st.composite
def texts(draw):
    """A workload text with any parameters given, in any order. Those of quantised operators bind each other."""
    op = operator(draw(st.sampled_from(FLOATS)))
    dtype = draw(st.sampled_from(next(p.words for p in op.parameters if p.name == "dtype")))
    given_values = {"dtype": dtype}
    for p in op.parameters:
        if p.name == "align":  # m is a multiple of it
            given_values[p.name] = 16
        elif p.name == "dtype" or (p.default_for(dtype) is not None and draw(st.booleans())):
            continue
        elif p.name == "out":
            words = {"int8": ("int32", "int8"), "fp8": ("fp32", "bf16"), "bf16": ("fp32", "bf16")}.get(dtype, ("fp32",))
            given_values["out"] = draw(st.sampled_from(words))
        elif p.words:
            given_values[p.name] = draw(st.sampled_from(p.words))
        elif p.name in ("r", "s", "stride", "dilation"):
            given_values[p.name] = draw(st.integers(1, 3))
        elif p.name == "groups":
            given_values[p.name] = 4
        elif p.name in ("heads", "kv_heads"):
            given_values[p.name] = {"heads": 8, "kv_heads": 4}[p.name]
        elif p.name in ("q", "kv"):  # a causal query needs a key
            given_values[p.name] = draw(st.integers(*{"q": (1, 20), "kv": (20, 64)}[p.name]))
        elif op.name == "grouped_matmul" and p.name == "m":
            given_values[p.name] = 16 * draw(st.integers(1, 8))
        elif p.name in ("c", "f"):
            given_values[p.name] = 4 * draw(st.integers(1, 8))
        else:
            given_values[p.name] = draw(st.integers(max(p.low, 7), 64))
    items = draw(st.permutations(list(given_values.items())))
    return op.name, dict(items)


@given(texts())
def test_text_and_mapping_round_trip(drawn):
    name, values = drawn
    workload = parse_workload(f"{name}:" + ",".join(f"{key}={value}" for key, value in values.items()))
    assert parse_workload(str(workload)) == workload
    assert str(parse_workload(str(workload))) == str(workload)
    assert workload_from_mapping({"operator": name, **values}) == workload
    assert all(workload[key] == value for key, value in values.items())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mamul:m=1", "unknown operator 'mamul' (did you mean 'matmul'?); there are: attention, conv2d,"),
        ("", "unknown operator ''; there are"),
        ("matmul", "'m' is missing (rows of the output; a whole number from 1 to 1048576)"),
        ("matmul:m=1,n=2", "'k' is missing (length of the sums; a whole number from 1 to 1048576)"),
        ("elementwise:rows=1,columns=2", "'kind' is missing (what is computed; one of: add, multiply, relu)"),
        ("matmul:m=1,n=2,kk=3", "matmul has no parameter 'kk' (did you mean 'k'?); it has: batch, m, n, k, dtype"),
        ("matmul:m=1,m=2", "'m' is given twice"),
        ("matmul:m=1,,n=2", "'' is not of the form name=value"),
        ("matmul:m", "'m' is not of the form name=value"),
        ("matmul:m=", "'m=' is not of the form name=value"),
        ("matmul:m=0,n=2,k=3", "'m' is 0; a whole number from 1 to 1048576"),
        ("matmul:m=-4,n=2,k=3", "'m' is -4; a whole number from 1 to 1048576"),
        ("matmul:m=1.5,n=2,k=3", "'m' is '1.5'; a whole number from 1 to 1048576"),
        ("matmul:m=1e3,n=2,k=3", "'m' is '1e3'; a whole number"),
        ("matmul:m=1_000,n=2,k=3", "'m' is '1_000'; a whole number"),
        ("matmul:m=\u0663,n=2,k=3", "'m' is '\u0663'; a whole number"),
        ("matmul:m=1048577,n=2,k=3", "'m' is 1048577; a whole number from 1 to 1048576"),
        (f"matmul:m={'9' * 100},n=2,k=3", "a whole number from 1 to 1048576"),
        ("matmul:m=1048576,n=1048576,batch=1048576,k=2", "tensor 'x' of 1048576x1048576x2 has 2199023255552 elements"),
        (
            "matmul:m=1,n=2,k=3,dtype=int9",
            "'dtype' is 'int9' (did you mean 'int8'?); one of: int8, fp8, bf16, fp16, fp32",
        ),
        ("matmul:m=1,n=2,k=3,dtype=int8,out=fp32", "'out' is 'fp32'; for dtype=int8 one of: int32, int8"),
        ("matmul:m=1,n=2,k=65537", "sums of 65537 int8 products can overflow int32; at most 65536"),
        ("conv2d:n=1,h=9,w=9,c=3,f=4,groups=2", "'c' is 3; a multiple of groups=2 is needed"),
        ("conv2d:n=1,h=9,w=9,c=4,f=3,groups=2", "'f' is 3; a multiple of groups=2 is needed"),
        ("conv2d:n=1,h=9,w=4,c=1,f=1,s=3,dilation=2", "'s' is 3, which reaches over 5; 'w' with padding is 4"),
        ("conv2d:n=1,h=9,w=9,c=1,f=1,padding=-1", "'padding' is -1; a whole number from 0 to 1024"),
        ("x" * 2000, "2000 characters; at most 1000"),
    ],
)
def test_each_mistake_is_named(text, message):
    with pytest.raises(BadInput) as caught:
        parse_workload(text, file="suite.yaml", line=7)
    assert message in str(caught.value)
    assert str(caught.value).startswith("suite.yaml:7: workload '")


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({}, "'operator' must be one of: attention"),
        ({"operator": 7}, "'operator' must be one of"),
        ({"operator": "matmul", "m": 1.0, "n": 2, "k": 3}, "'m' is 1.0; a whole number or a word is needed"),
        ({"operator": "matmul", "m": [1], "n": 2, "k": 3}, "'m' is [1]; a whole number or a word is needed"),
        ({"operator": "matmul", "m": None}, "'m' is None; a whole number or a word is needed"),
        ({"operator": "matmul", "m": True, "n": 2, "k": 3}, "'m' is 'yes'; a whole number from 1"),
        (
            {"operator": "matmul", "m": 10**5000, "n": 2, "k": 3},
            "'m' is a number of more than 20 digits; a whole number",
        ),
        ({"operator": "matmul", "m": 1, "n": 2, "k": 3, "dtype": "i" * 10**6}, "'dtype' is 'iiii"),
        ({"operator": "matmul", 3: 4}, "matmul has no parameter '3'"),
    ],
)
def test_each_mistake_of_a_mapping_is_named(mapping, message):
    with pytest.raises(BadInput) as caught:
        workload_from_mapping(mapping)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


def test_yes_and_no_of_yaml_are_words():
    given = {"operator": "matmul", "m": 1, "n": 2, "k": 3, "bias": True}
    assert workload_from_mapping(given)["bias"] == "yes"


def test_unknown_operator_by_name():
    with pytest.raises(BadInput, match=r"unknown operator 'softmx' \(did you mean 'softmax'\?\)"):
        operator("softmx")


def test_a_workload_of_an_operator_that_is_gone_still_prints():
    assert str(Workload("lookup", (("heads", 8), ("dtype", "bf16")))) == "lookup:heads=8,dtype=bf16"


class Outside:
    name = "lookup"
    summary = "from another package"
    parameters = ()


def entry(value):
    return SimpleNamespace(name="outside", value="package:OPERATOR", load=lambda: value)


@pytest.mark.usefixtures("fresh_registry")
def test_outside_packages_add_operators(monkeypatch):
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry(Outside)] if group == "presil.operators" else [])
    assert operator_names() == tuple(sorted(("lookup", *OPERATORS)))
    assert operator("lookup").summary == "from another package"


@pytest.mark.usefixtures("fresh_registry")
def test_an_outside_operator_cannot_take_a_name(monkeypatch):
    monkeypatch.setattr(registry, "entry_points", lambda **_: [entry(SimpleNamespace(name="matmul"))])
    with pytest.raises(
        BadInput, match="entry point 'outside' = 'package:OPERATOR': there is an operator 'matmul' already"
    ):
        operator_names()


def test_entry_points_come_from_the_installed_packages():
    assert registry.entry_points is importlib.metadata.entry_points
