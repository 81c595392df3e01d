"""conv2d on systolic machines: padding, stride, dilation, groups, both lowerings: is every schedule a right program?"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from presil.kernels.emitters import emitter
from presil.kernels.emitters.systolic.images import clip
from presil.kernels.operators import parse_workload
from presil.kernels.space import Schedule
from presil.simulators.errors import BadInput
from presil.simulators.machine import load_machine
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate

from ...simulators.drawn import legal_schedules
from ...simulators.tiny import memory, tiny
from .proofs import loaded, prove, without_one_wait

CONV2D = emitter("conv2d", "systolic")

WORKLOADS = {
    "one by one": "conv2d:n=2,h=4,w=5,c=7,f=6,dtype=int8,out=int8",
    "strided": "conv2d:n=1,h=7,w=6,c=3,f=6,r=2,s=3,stride=2,dtype=int8",
    "padded": "conv2d:n=2,h=5,w=4,c=4,f=7,r=3,s=3,padding=1,dtype=int8,bias=yes,activation=relu",
    "padded beyond the kernel": "conv2d:n=1,h=3,w=2,c=2,f=3,r=2,s=1,padding=3,dtype=int8",
    "dilated": "conv2d:n=1,h=7,w=8,c=2,f=4,r=3,s=2,dilation=2,padding=2,dtype=bf16",
    "grouped": "conv2d:n=2,h=4,w=4,c=6,f=9,r=2,s=2,groups=3,padding=1,dtype=int8,out=int8,bias=yes",
    "depthwise": "conv2d:n=1,h=5,w=5,c=4,f=4,r=3,s=3,groups=4,padding=1,stride=2,dtype=bf16,out=bf16",
    "all at once": "conv2d:n=2,h=9,w=7,c=4,f=6,r=3,s=2,stride=3,padding=2,dilation=2,groups=2,dtype=int8,bias=yes",
    "first layer": "conv2d:n=1,h=11,w=11,c=3,f=5,r=7,s=7,stride=2,padding=3,dtype=int8",
}
MACHINES = {
    "3 x 5": tiny(),
    "one plane, two cores": tiny(cores=2, array={"weight_planes": 1, "result_planes": 1}),
    "two arrays, own weight memory": tiny(
        array={"count": 2},
        memories={"dram": memory(burst_bytes=16), "ddr": memory(bandwidth=1e9, latency=3e-9)},
        weight_memory="ddr",
        weight_buffer=1024,
        weight_tile=15,
        issue=2,
        semaphore=3,
        dma={"setup": 3, "row_setup": 1, "load_channels": 1},
    ),
}


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("kind", WORKLOADS)
def test_random_schedules_are_right(kind, name):
    workload, machine = parse_workload(WORKLOADS[kind]), MACHINES[name]
    drawn = list(itertools.islice(legal_schedules(workload, machine, seed=len(kind)), 3))
    assert len(drawn) == 3
    for schedule, pattern in zip(drawn, ("random", "extremes", "marker"), strict=True):
        prove(workload, machine, schedule, pattern)


SIZES = {"n": 3, "h": 8, "w": 8, "r": 3, "s": 3, "stride": 3, "dilation": 3, "groups": 3}


@settings(max_examples=25)
@given(
    st.fixed_dictionaries({name: st.integers(1, most) for name, most in SIZES.items()}), st.integers(0, 3), st.data()
)
def test_any_geometry_is_right(sizes, padding, data):
    channels, filters = (sizes["groups"] * data.draw(st.integers(1, 3)) for _ in range(2))
    given_sizes = ",".join(f"{name}={size}" for name, size in sizes.items())
    try:
        workload = parse_workload(f"conv2d:{given_sizes},c={channels},f={filters},padding={padding},dtype=int8")
    except BadInput:
        assume(False)  # the kernel reaches beyond the padded image
    machine = MACHINES["3 x 5"]
    prove(workload, machine, next(legal_schedules(workload, machine, data.draw(st.integers(0, 99)))))


@pytest.mark.parametrize("lowering", ["direct", "im2col"])
@pytest.mark.parametrize("name", MACHINES)
def test_each_deleted_wait_is_a_race(name, lowering):
    workload, machine = parse_workload(WORKLOADS["padded"]), MACHINES[name]
    schedule = next(s for s in legal_schedules(workload, machine, seed=9) if s["lowering"] == lowering)
    for what, wrong in without_one_wait(CONV2D.lower(workload, machine, schedule)):
        assert "race" in {f.kind for f in sanitize(wrong, machine)}, (str(schedule), what)


def schedule_of(machine, workload, **choices) -> Schedule:
    """The first schedule of the space, with some axes set."""
    first = dict(CONV2D.space(workload, machine).unrank(0).choices)
    assert set(choices) <= set(first)
    return Schedule(tuple({**first, **choices}.items()))


def test_one_by_one_kernels_have_one_lowering():
    machine = tiny()
    axes = {a.name: a.choices for a in CONV2D.space(parse_workload(WORKLOADS["one by one"]), machine).axes}
    assert axes["lowering"] == ("im2col",)
    axes = {a.name: a.choices for a in CONV2D.space(parse_workload(WORKLOADS["padded"]), machine).axes}
    assert axes["lowering"] == ("direct", "im2col")


def test_direct_moves_each_pixel_once_and_im2col_once_a_tap():
    # 6 x 6 pixels of 3 channels under one block of 4 x 4 outputs of a 3 x 3 kernel.
    workload = parse_workload("conv2d:n=1,h=6,w=6,c=3,f=5,r=3,s=3,dtype=int8")
    machine = tiny(rows=16)
    moved = {}
    for lowering in ("direct", "im2col"):
        schedule = schedule_of(machine, workload, lowering=lowering, bi=1, bh=4, bw=4, bn=5, bk=3)
        moved[lowering] = simulate(prove(workload, machine, schedule), machine).timing.traffic_bytes["dram"]
    fixed = 3 * 3 * 3 * 5 + 4 * 4 * 5 * 4  # weights and outputs
    assert moved == {"direct": fixed + 6 * 6 * 3, "im2col": fixed + 9 * 4 * 4 * 3}


def test_padding_is_never_loaded():
    workload = parse_workload("conv2d:n=1,h=2,w=2,c=3,f=5,r=3,s=3,padding=1,dtype=int8")
    machine = tiny(rows=16)
    schedule = schedule_of(machine, workload, lowering="direct", bi=1, bh=2, bw=2, bn=5, bk=3)
    program = prove(workload, machine, schedule)
    (load,) = loaded(program, "x")
    assert [d.size for d in load.operands[1].dims] == [1, 2, 2, 3]


@given(st.integers(-12, 12), st.integers(1, 9), st.integers(1, 4), st.integers(1, 12))
def test_clip_counts_what_lies_inside(first, size, step, extent):
    inside = [0 <= first + i * step < extent for i in range(size)]
    found = clip(first, size, step, extent)
    assert found.size == sum(inside)
    if found.size:
        assert found.skip == inside.index(True)


LAYER = "conv2d:n=1,h=14,w=14,c=256,f=256,r=3,s=3,padding=1,dtype=int8,out=int8,bias=yes"


@pytest.mark.parametrize("name", ["tpu-v1", "tpu-v4", "gemmini-16"])
def test_the_machines_that_come_with_presil_run_a_layer_of_resnet_50(name):
    workload, machine = parse_workload(LAYER), load_machine(name)
    schedule = next(legal_schedules(workload, machine, seed=4))
    timing = simulate(CONV2D.lower(workload, machine, schedule), machine).timing
    assert timing.multiply_adds == 14 * 14 * 256 * 256 * 9
    assert CONV2D.prior_cycles(workload, machine, schedule) > 0


def test_blocks_of_channels_go_down_until_two_blocks_of_weights_fit():
    # 9 positions x 256 channels x 256 filters are 576 KiB; the weight buffer of TPU v1 has 256 KiB. With 32: 72 KiB.
    def channels(text: str, name: str) -> tuple[int, ...]:
        axes = {a.name: a.choices for a in CONV2D.space(parse_workload(text), load_machine(name)).axes}
        return axes["bk"]

    assert channels(LAYER, "tpu-v1") == (32, 64, 128, 256)
    assert channels(LAYER, "gemmini-16") == (16, 32, 64, 128, 256)
    assert channels(LAYER.replace("r=3,s=3,padding=1,", ""), "tpu-v1") == (256,)
