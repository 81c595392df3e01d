"""matmul and conv2d on GPUs, any shape: is every schedule right, does it move no more than it must?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from presil.kernels.checking import check
from presil.kernels.emitters import emitter
from presil.kernels.operators import operator, parse_workload
from presil.kernels.operators.operator import Workload
from presil.kernels.space import Schedule
from presil.simulators.errors import BadInput
from presil.simulators.machine import load_machine
from presil.simulators.program import Instruction, Loop, Node, Program, Region, instructions
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate

from .proofs import without_one_wait
from .test_gpu_kernels import drawn

MACHINE = load_machine("h100").with_cores(3)  # few, so that small grids take several rounds
CONV2D = emitter("conv2d", "gpu")
KINDS = (
    "dtype=int8",
    "dtype=int8,out=int8,bias=yes",
    "dtype=int8,bias=yes,activation=relu",
    "dtype=bf16",
    "dtype=bf16,out=bf16,activation=relu",
    "dtype=bf16,bias=yes",
    "dtype=fp16,bias=yes,activation=relu",
    "dtype=fp8,out=bf16,bias=yes",
    "dtype=fp32",
)
PLACES = ("dispatch", "persistent")


def require_right(workload: Workload, schedule: Schedule) -> Program:
    program = emitter(workload.operator, "gpu").lower(workload, MACHINE, schedule)
    try:
        verdict = check(program, workload, MACHINE, seeds=1)
    except BadInput:  # a kernel that knows nothing of its inputs would pass
        assume(False)
    assert verdict.right, (str(schedule), verdict.reasons)
    return program


def schedule_of(workload: Workload, **choices: int | str) -> Schedule:
    """The first schedule of the space with some axes set, found legal."""
    found = emitter(workload.operator, "gpu")
    first = dict(found.space(workload, MACHINE).unrank(0).choices)
    assert set(choices) <= set(first)
    schedule = Schedule(tuple({**first, **choices}.items()))
    assert found.legal(workload, MACHINE, schedule) is None, found.legal(workload, MACHINE, schedule)
    return schedule


@pytest.mark.slow
@settings(max_examples=15)
@given(
    st.integers(1, 3),
    st.integers(1, 300),
    st.integers(1, 200),
    st.integers(1, 200),
    st.sampled_from(KINDS),
    st.sampled_from(PLACES),
)
def test_any_matmul_is_right(batch, m, n, k, kind, place):  # noqa: PLR0917 - what is drawn
    workload = parse_workload(f"matmul:batch={batch},m={m},n={n},k={k},{kind}")
    for schedule in drawn(workload, MACHINE, 1, lambda s: s["place"] == place):
        require_right(workload, schedule)


SIZES = {"n": 5, "h": 20, "w": 24, "r": 3, "s": 4, "stride": 3, "dilation": 3, "groups": 3}


@pytest.mark.slow
@settings(max_examples=15)
@given(
    st.fixed_dictionaries({name: st.integers(1, most) for name, most in SIZES.items()}),
    st.integers(0, 3),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(KINDS),
    st.sampled_from(PLACES),
)
def test_any_conv2d_is_right(sizes, padding, channels, filters, kind, place):  # noqa: PLR0917 - what is drawn
    channels, filters = channels * sizes["groups"], filters * sizes["groups"]
    shape = ",".join(f"{name}={size}" for name, size in sizes.items())
    try:
        workload = parse_workload(f"conv2d:{shape},c={channels},f={filters},padding={padding},{kind}")
    except BadInput:
        assume(False)  # the filter reaches beyond the padded image
    for schedule in drawn(workload, MACHINE, 1, lambda s: s["place"] == place):
        require_right(workload, schedule)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "text",
    [
        "matmul:m=300,n=200,k=256,dtype=bf16",
        "conv2d:n=8,h=13,w=13,c=64,f=96,r=3,s=3,padding=1,dtype=int8",
        "conv2d:n=3,h=30,w=33,c=24,f=48,r=2,s=2,padding=1,groups=2,dtype=bf16,bias=yes",
    ],
)
@pytest.mark.parametrize("order", ["m", "n"])
def test_clusters_are_right(text, place, order):
    workload = parse_workload(text)
    clustered = drawn(workload, MACHINE, 2, lambda s: (s["cluster"], s["order"], s["place"]) == (2, order, place))
    assert len(clustered) == 2
    for schedule in clustered:
        program = require_right(workload, schedule)
        copies = {i.operands[1].name: i.attribute("multicast", 1) for i in _of(program, "copy")}
        assert copies == ({"x": 1, "w": 2} if order == "m" else {"x": 2, "w": 1})


def _of(program: Program, op: str) -> Iterator[Instruction]:
    for stream in (stream for phase in program.phases for stream in phase.streams):
        yield from (i for i, _ in instructions(stream.body) if i.op == op)


@pytest.mark.parametrize(
    "text",
    [
        "conv2d:n=2,h=9,w=9,c=24,f=24,r=3,s=3,padding=1,groups=24,dtype=bf16",  # depthwise
        "conv2d:n=1,h=7,w=6,c=8,f=24,r=3,s=3,stride=2,padding=1,groups=8,dtype=int8,out=int8,bias=yes",  # 3 a channel
        "conv2d:n=1,h=9,w=9,c=10,f=74,r=2,s=2,groups=2,dtype=fp16,bias=yes",  # 37 filters a group: 48 or 1 a block
        "conv2d:n=1,h=4,w=8,c=4,f=600,groups=2,dtype=bf16",  # 300 a group, beyond the widest block
    ],
)
def test_groups_of_any_width_are_right(text):
    workload = parse_workload(text)
    schedules = drawn(workload, MACHINE, 4)
    assert len(schedules) == 4
    for schedule in schedules:
        require_right(workload, schedule)


@pytest.mark.parametrize(
    "text",
    [
        "conv2d:n=1,h=3,w=1,c=2,f=2,r=2,s=2,padding=3,groups=2,dtype=int8",
        "conv2d:n=2,h=4,w=5,c=3,f=20,r=3,s=2,padding=5,dilation=2,dtype=bf16",
    ],
)
def test_boxes_wholly_in_the_padding_are_zeros(text):
    # Narrow blocks at the edges see nothing of the image: all of a box lies before it or behind it.
    workload = parse_workload(text)
    narrow = drawn(workload, MACHINE, 3, lambda s: s["height"] == 2 or s["width"] == 2)
    assert len(narrow) == 3
    for schedule in narrow:
        require_right(workload, schedule)


@pytest.mark.parametrize("consumers", [1, 2, 4])
@pytest.mark.parametrize("box", [(1, 16, 16), (2, 8, 16), (8, 4, 8), (64, 1, 4), (1, 2, 128), (4, 1, 64)])
def test_consumers_store_the_pixels_that_they_multiply(box, consumers):
    # 64 images of 16 x 128 outputs: all boxes fit.
    workload = parse_workload("conv2d:n=64,h=16,w=128,c=16,f=16,dtype=int8")
    images, height, width = box
    schedule = schedule_of(
        workload, images=images, height=height, width=width, columns=16, inner=32, consumers=consumers
    )
    program = CONV2D.lower(workload, MACHINE, schedule)
    pixels = np.arange(images * height * width).reshape(box)
    products = [i.operands[1] for i in _of(program, "mma")]
    stores = [i.operands[0] for i in _of(program, "store")]
    assert len(products) == len(stores) == consumers
    for product, store in zip(products, stores, strict=True):
        rows = product.dims[0] if product.dims else None
        first, count = (rows.start.base, rows.size) if rows else (0, pixels.size)
        own = pixels[tuple(slice(d.start.base, d.start.base + d.size) for d in store.dims[:3])]
        np.testing.assert_array_equal(own.ravel(), np.arange(first, first + count))


def grid_of(text: str, **choices: int | str) -> tuple[tuple[str, int], ...]:
    workload = parse_workload(text)
    return CONV2D.lower(workload, MACHINE, schedule_of(workload, **choices)).grid


def test_blocks_side_by_side_are_near():
    text = "conv2d:n=6,h=20,w=12,c=16,f=80,dtype=int8"
    box = {"height": 8, "width": 16, "columns": 32, "inner": 32}
    # 3 blocks down, 1 across, 3 of filters. The innermost variable is one that runs, whatever the order.
    assert grid_of(text, **box, order="m") == (("i", 6), ("g", 1), ("n", 3), ("q", 1), ("p", 3))
    assert grid_of(text, **box, order="n") == (("i", 6), ("g", 1), ("q", 1), ("p", 3), ("n", 3))
    # Blocks of whole images: images are the pixels that run.
    text = "conv2d:n=6,h=5,w=7,c=16,f=80,dtype=int8"
    box = {"images": 2, "height": 8, "width": 8, "columns": 32, "inner": 32}
    assert grid_of(text, **box, order="m") == (("p", 1), ("q", 1), ("g", 1), ("n", 3), ("i", 3))
    assert grid_of(text, **box, order="n") == (("p", 1), ("q", 1), ("g", 1), ("i", 3), ("n", 3))


def test_padding_and_what_lies_beyond_edges_is_not_moved():
    # One block, one step a tap. A 1x1 filter with padding 2 on 4 x 4 pixels: 8 x 8 outputs, of which 4 x 4 see pixels.
    workload = parse_workload("conv2d:n=1,h=4,w=4,c=16,f=20,padding=2,dtype=int8,bias=yes")
    schedule = schedule_of(workload, height=8, width=8, columns=32, inner=32)
    timing = simulate(CONV2D.lower(workload, MACHINE, schedule), MACHINE).timing
    # x and w once, 20 biases of 4 bytes, 64 outputs of 20 filters of 4 bytes.
    assert timing.traffic_bytes == {"hbm": 16 * 16 + 16 * 20 + 20 * 4 + 64 * 20 * 4}
    assert timing.multiply_adds == 64 * 32 * 32  # the tensor core multiplies the whole tile


@pytest.mark.parametrize("place", PLACES)
def test_each_wait_of_conv2d_is_needed(place):
    workload = parse_workload("conv2d:n=4,h=12,w=12,c=32,f=48,r=3,s=3,padding=1,dtype=bf16,out=bf16,bias=yes")
    wanted: Callable[[Schedule], bool] = lambda s: s["place"] == place and s["consumers"] == 2  # noqa: E731
    (schedule,) = drawn(workload, MACHINE, 1, wanted)
    program = CONV2D.lower(workload, MACHINE, schedule)
    assert sanitize(program, MACHINE) == ()
    for what, wrong in without_one_wait(program):
        assert {"race", "leftover", "uninitialised"} & {f.kind for f in sanitize(wrong, MACHINE)}, (str(schedule), what)


def _changed(program: Program, op: str, tensor: str, change: Callable[[Region], Region]) -> Program:
    """`program` with the regions of `tensor` changed in all instructions `op`."""

    def walk(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(
            replace(n, body=walk(n.body))
            if isinstance(n, Loop)
            else replace(n, operands=tuple(change(r) if n.op == op and r.name == tensor else r for r in n.operands))
            for n in nodes
        )

    return replace(program, streams=tuple(replace(s, body=walk(s.body)) for s in program.streams))


def _moved(dim: int, by: int) -> Callable[[Region], Region]:
    def change(region: Region) -> Region:
        dims = list(region.dims)
        dims[dim] = replace(dims[dim], start=dims[dim].start + by)
        return replace(region, dims=tuple(dims))

    return change


def _stepped(dim: int) -> Callable[[Region], Region]:
    def change(region: Region) -> Region:
        dims = list(region.dims)
        dims[dim] = replace(dims[dim], step=1)
        return replace(region, dims=tuple(dims))

    return change


@pytest.mark.parametrize(
    ("op", "tensor", "change"),
    [
        ("copy", "x", _moved(1, 1)),  # the padding above is one row less
        ("copy", "x", _moved(2, -1)),
        ("copy", "x", _moved(3, 1)),  # channels of the next group at the end
        ("copy", "x", _stepped(1)),  # no stride
        ("copy", "w", _moved(2, 1)),
        ("copy", "w", _moved(3, 1)),
        ("load", "bias", _moved(0, 1)),
    ],
)
def test_wrong_conv2d_is_found(op, tensor, change):
    text = "conv2d:n=2,h=15,w=15,c=32,f=64,r=3,s=3,stride=2,padding=1,groups=2,dtype=bf16,bias=yes"
    workload = parse_workload(text)
    (schedule,) = drawn(workload, MACHINE, 1)
    program = require_right(workload, schedule)
    wrong = _changed(program, op, tensor, change)
    assert wrong != program
    assert not check(wrong, workload, MACHINE).right


@pytest.mark.parametrize("text", ["conv2d:n=3,h=17,w=30,c=40,f=72,r=3,s=3,padding=1,dtype=bf16"])
def test_conv2d_takes_the_same_ticks_on_data_and_in_part(text):
    workload = parse_workload(text)
    inputs = operator("conv2d").inputs(workload, 3, "integers")
    wanted = operator("conv2d").reference(workload, inputs)["y"]
    for schedule in drawn(workload, MACHINE, 3):
        program = CONV2D.lower(workload, MACHINE, schedule)
        full = simulate(program, MACHINE, mode="full", inputs=inputs)
        skip = simulate(program, MACHINE, mode="skip").timing
        np.testing.assert_array_equal(full.outputs["y"], wanted)
        for what in ("ticks", "traffic_bytes", "multiply_adds", "issued_instructions"):
            assert getattr(full.timing, what) == getattr(skip, what), (what, str(schedule))
