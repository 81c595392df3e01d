"""Do the quantised operators compute what they are defined to be, on inputs that show every slip?"""

import numpy as np
import pytest

from presil.kernels.emitters import emitter, emitter_names
from presil.kernels.operators import PATTERNS, operator, parse_workload, workload_from_mapping
from presil.kernels.operators.admission import admit, wrong_elements
from presil.kernels.operators.quantisation import pack_int4, unpack_int4
from presil.kernels.operators.quantised_inputs import Sums, probe_plan
from presil.simulators.errors import BadInput, Unsupported

from . import naive_quantised

SMALL = (
    "qmatmul:m=3,n=5,k=8,bias=yes",
    "qmatmul:m=4,n=3,k=70,dtype=uint8,w_zero=yes,rule=tflite,activation=relu6",
    "qmatmul:m=3,n=5,k=8,weights=int4,w_zero=yes,bias=yes,rule=onnx,activation=relu",
    "qmatmul:m=3,n=5,k=9,dtype=int16,bias=yes,activation=relu6",
    "qmatmul:m=3,n=5,k=9,x_zero=-128,y_zero=127,rule=onnx",
    "qmatmul:m=3,n=5,k=9,x_zero=127,out=int32,w_zero=yes",
    "qmatmul:m=1,n=1,k=1",
    "qconv2d:n=2,h=5,w=7,c=3,f=4,r=3,s=2,padding=1,stride=2,bias=yes",
    "qconv2d:n=1,h=6,w=5,c=4,f=8,r=3,s=3,padding=1,groups=4,rule=tflite,activation=relu6",
    "qconv2d:n=1,h=9,w=8,c=8,f=6,r=3,s=2,padding=2,dilation=2,groups=2,weights=int4,rule=onnx,bias=yes,w_zero=yes",
    "qconv2d:n=1,h=4,w=5,c=3,f=3,r=3,s=3,padding=1,groups=3,dtype=int16",
    "qconv2d:n=1,h=4,w=5,c=2,f=3,r=2,s=2,dtype=uint8,out=int32,bias=yes",
    "pool2d:kind=max,n=2,h=5,w=7,c=3,r=3,s=2,stride=2,padding=1",
    "pool2d:kind=average,n=1,h=5,w=7,c=3,r=2,s=3,padding=1",
    "pool2d:kind=average,n=1,h=7,w=7,c=3,r=7,s=7,dtype=uint8",
    "pool2d:kind=average,n=1,h=6,w=4,c=3,r=2,s=2,stride=2,dtype=int16",
    "qelementwise:kind=add,rows=5,columns=7",
    "qelementwise:kind=add,rows=5,columns=7,activation=relu",
    "qelementwise:kind=multiply,rows=5,columns=7,activation=relu6,y_zero=-128",
    "qelementwise:kind=add,rows=5,columns=7,broadcast=row,rule=tflite,dtype=uint8",
    "qelementwise:kind=add,rows=5,columns=7,broadcast=column,dtype=int16",
    "qelementwise:kind=multiply,rows=5,columns=7,broadcast=scalar",
    "qelementwise:kind=multiply,rows=5,columns=7,rule=tflite,dtype=int16",
    "resize:kind=nearest,n=2,h=5,w=4,c=3,oh=7,ow=9",
    "resize:kind=nearest,n=1,h=5,w=4,c=3,oh=3,ow=6,grid=align_corners,dtype=uint8",
    "resize:kind=bilinear,n=2,h=5,w=4,c=3,oh=7,ow=9",
    "resize:kind=bilinear,n=1,h=6,w=7,c=3,oh=4,ow=1,grid=align_corners",
    "resize:kind=bilinear,n=1,h=6,w=1,c=3,oh=12,ow=2,grid=asymmetric",
    "qsoftmax:rows=13,columns=11",
    "qsoftmax:rows=13,columns=200",
    "qnorm:kind=layer,rows=13,columns=11",
    "qnorm:kind=rms,rows=13,columns=100",
    "dequantised_matmul:m=3,n=5,k=64,group=32,zero=yes",
    "dequantised_matmul:m=2,n=5,k=8,group=all,dtype=bf16,out=bf16",
    "dequantised_matmul:n=5,k=128,dtype=fp32",
)
FLOATS = ("dequantised_matmul",)


def made(text, seed, pattern):
    workload = parse_workload(text)
    op = operator(workload.operator)
    return workload, op, op.inputs(workload, seed, pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", SMALL)
def test_reference_is_the_definition(text, pattern):
    workload, op, inputs = made(text, 5, pattern)
    actual = op.reference(workload, inputs)["y"]
    expected = getattr(naive_quantised, workload.operator)(workload, inputs)
    bound = op.error_bound(workload, inputs)["y"]
    if workload.operator in FLOATS:
        assert (np.abs(actual - expected) <= np.maximum(bound / 100, 1e-14 * np.abs(expected))).all()
    else:
        assert actual.dtype == np.int64
        assert np.array_equal(actual, expected)
        assert not bound.any()


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", SMALL)
def test_tensors_inputs_and_outputs_agree(text, pattern):
    workload, op, inputs = made(text, 1, pattern)
    *specs, output = op.tensors(workload)
    assert [spec.name for spec in specs] == list(inputs)
    for spec in specs:
        assert (inputs[spec.name].shape, inputs[spec.name].nbytes) == (spec.shape, spec.size_bytes)
    y = op.reference(workload, inputs)["y"]
    assert y.shape == op.error_bound(workload, inputs)["y"].shape == output.shape
    if workload.operator not in FLOATS:
        limits = np.iinfo(output.dtype)
        assert limits.min <= y.min() <= y.max() <= limits.max
    assert set(op.work(workload).tensor_bytes) == {spec.name for spec in op.tensors(workload)}


@pytest.mark.parametrize("text", SMALL)
def test_text_and_mapping_round_trip(text):
    workload = parse_workload(text)
    assert parse_workload(str(workload)) == workload
    assert workload_from_mapping({"operator": workload.operator, **dict(workload.parameters)}) == workload


def test_what_is_at_its_default_is_left_out():
    """Zero points and rules have a default for each dtype."""
    given = "qmatmul:m=1,n=2,k=4,dtype=uint8,out=uint8,x_zero=123,y_zero=0,rule=tflite_double"
    assert str(parse_workload(given)) == "qmatmul:m=1,n=2,k=4,dtype=uint8,y_zero=0"


@pytest.mark.parametrize("text", SMALL)
def test_sound_tasks_are_admitted(text):
    workload = parse_workload(text)
    for seed in range(5):
        admit(operator(workload.operator), workload, seed)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", SMALL)
def test_repeatable_and_unlike_under_another_seed(text, pattern):
    (_, _, first), (_, _, again), (_, _, other) = (made(text, seed, pattern) for seed in (7, 7, 8))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert any(not np.array_equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize(
    "text",
    [
        "qmatmul:m=64,n=64,k=512,bias=yes",
        "qmatmul:m=64,n=64,k=9,weights=int4,w_zero=yes,rule=onnx".replace("k=9", "k=10"),
        "qmatmul:m=64,n=64,k=4096,dtype=uint8,rule=tflite",
        "qconv2d:n=1,h=16,w=16,c=32,f=64,r=3,s=3",
        "qconv2d:n=1,h=16,w=16,c=64,f=64,r=3,s=3,groups=64",
    ],
)
def test_random_outputs_spread_over_8_bits(text):
    workload, op, inputs = made(text, 1, "random")
    y = op.reference(workload, inputs)["y"] - workload.int("y_zero")
    assert 15 < y.std() < 40
    assert (np.abs(y) >= 120).mean() < 0.05


def unlike(op, workload, inputs, right, **changed):
    return not np.array_equal(op.reference(workload, {**inputs, **changed})["y"], right)


@pytest.mark.parametrize(
    "rows", ["m=8,n=64,k=512", "m=1,n=500,k=1024", "m=300,n=1,k=512", "m=1,n=16,k=4096", "m=2,n=3,k=10"]
)
@pytest.mark.parametrize(
    "kind",
    [
        "",
        ",weights=int4",
        ",dtype=int16",
        ",activation=relu",
        ",x_zero=-128,rule=onnx,w_zero=yes",
        ",x_zero=127,y_zero=100",
    ],
)
def test_every_slice_of_a_sum_shows(rows, kind):
    """Slices of a group of probes, each replaced by what adds nothing: the zero point."""
    workload, op, inputs = made(f"qmatmul:{rows}{kind}", 2, "marker")
    m, n, k = (workload.int(name) for name in ("m", "n", "k"))
    plan, _ = probe_plan(workload, Sums(shape=(k, n), depth=k, channels=n, rows=m))
    assert plan.group <= 16
    right = op.reference(workload, inputs)["y"]
    for start in range(0, k, plan.group):
        x = inputs["x"].copy()
        x[:, start : start + plan.group] = workload.int("x_zero")
        assert unlike(op, workload, inputs, right, x=x), start


@pytest.mark.parametrize("shape", ["c=16,f=24,r=3,s=3,padding=1", "c=6,f=12,r=3,s=3,groups=6", "c=32,f=8,stride=2"])
@pytest.mark.parametrize("kind", ["", ",dtype=int16", ",rule=onnx,w_zero=yes,activation=relu6"])
def test_every_tap_of_every_channel_shows(shape, kind):
    workload, op, inputs = made(f"qconv2d:n=1,h=7,w=6,{shape},bias=yes{kind}", 2, "marker")
    right = op.reference(workload, inputs)["y"]
    for tap in np.ndindex(inputs["w"].shape[:3]):
        w = inputs["w"].copy()
        w[tap] = inputs.get("w_zero", 0)
        assert unlike(op, workload, inputs, right, w=w), tap


@pytest.mark.parametrize("kind", ["max", "average"])
def test_every_pixel_of_a_window_shows(kind):
    """Without one row or column of taps: the windows of a smaller pooling, shifted."""
    workload, op, inputs = made(f"pool2d:kind={kind},n=1,h=12,w=12,c=20,r=3,s=3,stride=3", 3, "marker")
    right = op.reference(workload, inputs)["y"]
    for tap in np.ndindex(3, 3):
        x = inputs["x"].copy()
        x[:, tap[0] :: 3, tap[1] :: 3] = -128
        assert unlike(op, workload, inputs, right, x=x), tap


@pytest.mark.parametrize("kind", ["add", "multiply"])
@pytest.mark.parametrize("more", ["", ",activation=relu", ",dtype=uint8,broadcast=row", ",broadcast=column,z_zero=120"])
def test_a_shifted_elementwise_kernel_shows(kind, more):
    """Neighbours along either axis differ, so that a kernel off by one row or column is wrong."""
    workload, op, inputs = made(f"qelementwise:kind={kind},rows=20,columns=30{more}", 4, "marker")
    y = op.reference(workload, inputs)["y"]
    assert (y[1:] != y[:-1]).any(axis=1).all()
    assert (y[:, 1:] != y[:, :-1]).any(axis=0).all()


@pytest.mark.parametrize("pattern", ["marker", "random"])
@pytest.mark.parametrize("text", ["qsoftmax:rows=64,columns=50", "qnorm:kind=layer,rows=64,columns=50"])
def test_every_column_of_a_row_shows(text, pattern):
    """Each column in turn gets the value of its neighbour, as a kernel that is off by one has it."""
    workload, op, inputs = made(text, 4, pattern)
    right = op.reference(workload, inputs)["y"]
    for column in range(50):
        x = inputs["x"].copy()
        x[:, column] = x[:, column - 1]
        others = np.arange(50) != column
        assert not np.array_equal(op.reference(workload, {**inputs, "x": x})["y"][:, others], right[:, others])


@pytest.mark.parametrize(
    "text", ["qmatmul:m=16,n=32,k=64", "qmatmul:m=16,n=32,k=1024", "qconv2d:n=1,h=8,w=8,c=16,f=16,r=3,s=3"]
)
def test_another_rule_of_rounding_shows(text):
    """On `integers`, where sums lie halfway, each rule gives other outputs than each other one."""
    _, op, inputs = made(f"{text},bias=yes", 1, "integers")
    scale = np.ldexp(inputs["multiplier"].astype(np.float64), inputs["shift"].astype(int) - 31).astype(np.float32)
    found = []
    for rule in ("tflite_double", "tflite", "onnx"):
        other = parse_workload(f"{text},bias=yes,rule={rule}")
        found.append(op.reference(other, {**inputs, "scale": scale})["y"])
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert (found[i] != found[j]).sum() > 1


@pytest.mark.parametrize(
    "text", ["qmatmul:m=16,n=32,k=64,bias=yes,w_zero=yes", "qconv2d:n=1,h=8,w=8,c=16,f=32,r=3,s=3,bias=yes"]
)
@pytest.mark.parametrize("name", ["multiplier", "shift", "bias", "w_zero"])
def test_constants_of_another_channel_or_seed_show(text, name):
    """A kernel cannot know them beforehand."""
    workload, op, inputs = made(text, 1, "random")
    if name not in inputs:
        return
    right = op.reference(workload, inputs)["y"]
    _, _, other = made(text, 2, "random")
    assert unlike(op, workload, inputs, right, **{name: other[name]})
    assert unlike(op, workload, inputs, right, **{name: np.roll(inputs[name], 1)})


@pytest.mark.parametrize("family", ["systolic", "gpu"])
def test_what_has_no_emitter_is_refused_by_name(family):
    for name in sorted({parse_workload(text).operator for text in SMALL} - set(emitter_names(family))):
        with pytest.raises(Unsupported, match=f"operator '{name}' is not built for the family '{family}'"):
            emitter(name, family)


def test_padding_is_the_zero_point():
    """An image of x_zero gives y_zero everywhere, at the edges too."""
    workload, op, inputs = made("qconv2d:n=1,h=5,w=4,c=3,f=4,r=3,s=3,padding=1", 1, "random")
    y = op.reference(workload, {**inputs, "x": np.full_like(inputs["x"], -5)})["y"]
    assert (y == 6).all()


def test_attributes_are_the_zero_points_and_the_clamp():
    found = {
        text: dict(operator("qmatmul").attributes(parse_workload(f"qmatmul:m=1,n=1,k=1{text}")))
        for text in (
            "",
            ",activation=relu",
            ",activation=relu6,dtype=uint8",
            ",out=int32",
            ",activation=relu6,y_zero=90",
        )
    }
    assert list(found.values()) == [
        {"x_zero": -5, "y_zero": 6, "low": -128, "high": 127},
        {"x_zero": -5, "y_zero": 6, "low": 6, "high": 127},
        {"x_zero": 123, "y_zero": 134, "low": 134, "high": 214},
        {"x_zero": -5},
        {"x_zero": -5, "y_zero": 90, "low": 90, "high": 127},
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("qmatmul:m=1,n=1,k=1,out=uint8", "'out' is 'uint8'; for dtype=int8 one of: int8, int32"),
        ("qmatmul:m=1,n=1,k=1,dtype=int16,rule=onnx", "'rule' is 'onnx'; dtype=int16 has one: tflite, which scales"),
        ("qmatmul:m=1,n=1,k=1,x_zero=128", "'x_zero' is 128; for dtype=int8 from -128 to 127"),
        ("qmatmul:m=1,n=1,k=1,dtype=int16,y_zero=1", "'y_zero' is 1; for dtype=int16 from 0 to 0"),
        ("qmatmul:m=1,n=1,k=3,weights=int4", "int4 weights are packed in pairs along 3 input channels; an even number"),
        ("qmatmul:m=1,n=1,k=1,out=int32,rule=onnx", "'rule' is onnx; out=int32 is not rescaled: leave it at tflite"),
        ("qmatmul:m=1,n=1,k=63551", "sums of 63551 products can overflow the accumulator; at most 63550"),
        ("qmatmul:m=1,n=1,k=1,weight=int4", "qmatmul has no parameter 'weight' (did you mean 'weights'?)"),
        ("qconv2d:n=1,h=3,w=3,c=3,f=4,groups=3", "'f' is 4; a multiple of groups=3 is needed"),
        ("qconv2d:n=1,h=3,w=3,c=4,f=4,groups=4,weights=int4", "packed in pairs along 1 input channels"),
        ("pool2d:kind=max,n=1,h=3,w=3,c=3,r=4,s=1", "'r' is 4; 'h' with padding is 3"),
        ("pool2d:kind=max,n=1,h=3,w=3,c=3,r=2,s=1,padding=1", "'padding' is 1; less than s=1 is needed"),
        ("qelementwise:kind=add,rows=1,columns=1,z_zero=200", "'z_zero' is 200; for dtype=int8 from -128 to 127"),
        ("resize:kind=bilinear,n=1,h=3,w=3,c=3,oh=1,ow=1,dtype=uint8", "'dtype' is 'uint8'; kind=bilinear is defined"),
        ("dequantised_matmul:n=1,k=100", "'k' is 100; a multiple of group=128 is needed"),
        ("dequantised_matmul:n=1,k=3,group=all", "'k' is 3; int4 weights are packed in pairs along k"),
        ("dequantised_matmul:n=1,k=128,out=bf16", "'out' is 'bf16'; for dtype=fp16 one of: fp32"),
    ],
)
def test_what_contradicts_itself_is_refused(text, says):
    with pytest.raises(BadInput) as error:
        parse_workload(text)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("more", "product"),
    [("", 132 * 128), (",x_zero=127", 255 * 128), (",w_zero=yes", 132 * 255), (",weights=int4,w_zero=yes", 132 * 15)],
)
def test_the_largest_sum_is_among_the_extremes(more, product):
    """The end of x that is farther from -5 is 127; weights of -128 with a zero point of 127 count as -255."""
    workload, op, inputs = made(f"qmatmul:m=4,n=5,k=100,out=int32{more}", 1, "extremes")
    y = op.reference(workload, inputs)["y"]
    assert abs(y[0, 0]) == np.abs(y).max() == 100 * product


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_the_largest_sums_fit_int32(weights):
    """All operands at their ends, the bias at its: the accumulator, bias and all, stays within int32."""
    text = f"qmatmul:m=2,n=64,k=16512,weights={weights},w_zero=yes,x_zero=127,bias=yes,out=int32"
    workload, op, inputs = made(text, 3, "extremes")
    w = inputs["w"] if weights == "int8" else unpack_int4(inputs["w"], 0)
    inputs["w"] = np.full_like(w, -128) if weights == "int8" else pack_int4(np.full_like(w, -8), 0)
    inputs["w_zero"] = np.full_like(inputs["w_zero"], 127 if weights == "int8" else 7)
    y = op.reference(workload, {**inputs, "x": np.full_like(inputs["x"], -128)})["y"]
    assert y.max() < 1 << 31
    assert y.min() > -(1 << 31)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("qmatmul:m=7,n=5,k=34,bias=yes,weights=int4,w_zero=yes", (2, 1), (5, 3)),
        ("qmatmul:m=7,n=5,k=34,rule=onnx", (2, 1), (5, 3)),
        ("qconv2d:n=3,h=6,w=5,c=4,f=7,r=3,s=2,padding=1,bias=yes", (1, 0, 2, 3), (2, 3, 2, 5)),
        ("qconv2d:n=2,h=4,w=5,c=4,f=6,groups=2", (1, 0, 0, 4), (1, 3, 4, 5)),
        ("pool2d:kind=max,n=3,h=4,w=5,c=6,r=2,s=2", (1, 0, 0, 4), (2, 1, 2, 5)),
        ("resize:kind=bilinear,n=3,h=4,w=5,c=6,oh=3,ow=7", (1, 0, 0, 4), (2, 1, 2, 5)),
        ("qsoftmax:rows=4,columns=8", (1, 1), (2, 3)),
        ("dequantised_matmul:m=4,n=8,k=64,group=32,zero=yes", (1, 1), (2, 3)),
    ],
)
def test_reference_of_a_crop(text, first, last):
    workload, op, inputs = made(text, 5, "integers")
    reference = op.reference(workload, inputs)["y"]
    stored = np.zeros(reference.shape, bool)
    stored[first] = stored[last] = True
    crop = op.crop(workload, inputs, stored)
    assert stored[crop.box].sum() == 2
    assert all(crop.inputs[s.name].shape == s.shape for s in op.tensors(crop.workload) if s.role != "out")
    assert np.array_equal(op.reference(crop.workload, crop.inputs)["y"], reference[crop.box])


def test_zeros_fail_on_every_pattern():
    for text in SMALL:
        for pattern in PATTERNS:
            workload, op, inputs = made(text, 1, pattern)
            y, bound = op.reference(workload, inputs)["y"], op.error_bound(workload, inputs)["y"]
            assert wrong_elements(np.zeros(y.shape), y, bound).any(), (text, pattern)
