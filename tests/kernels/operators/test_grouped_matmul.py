"""Rows by the matrix of their expert: are the groups as they should be, and does a wrong expert show?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.kernels.operators import PATTERNS, operator, parse_workload
from presil.kernels.operators.admission import wrong_elements
from presil.simulators.errors import BadInput

from . import kernels_fp32

OP = operator("grouped_matmul")
TEXT = "grouped_matmul:groups=8,m=64,n=6,k=96,align=4,dtype=bf16"


def task(text: str, pattern: str, seed: int = 1):
    workload = parse_workload(text)
    inputs = OP.inputs(workload, seed, pattern)
    return workload, inputs, OP.reference(workload, inputs)["y"], OP.error_bound(workload, inputs)["y"]


@given(st.integers(1, 20), st.integers(1, 40), st.integers(0, 1000), st.sampled_from(PATTERNS))
def test_groups_are_sorted_and_unequal(groups, tiles, seed, pattern):
    workload = parse_workload(f"grouped_matmul:groups={groups},m={2 * tiles},n=1,k=2,align=2,dtype=bf16")
    experts = OP.inputs(workload, seed, pattern)["expert"]
    assert (experts.shape, experts.dtype) == ((tiles,), np.int32)
    assert (np.diff(experts) >= 0).all()
    counts = np.bincount(experts, minlength=groups)
    assert len(counts) == groups  # none that is not there
    assert counts.max() >= tiles / 2  # one is large
    assert (counts == 0).sum() >= groups // 4  # every fourth is idle


def test_the_large_group_is_another_by_seed():
    workload = parse_workload(TEXT)
    large = {np.bincount(OP.inputs(workload, seed, "random")["expert"]).argmax() for seed in range(30)}
    assert len(large) > 4


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("by", [1, 7])
def test_a_wrong_expert_shows(pattern, by):
    workload, inputs, reference, bound = task(TEXT, pattern)
    for tile in range(16):
        experts = inputs["expert"].copy()
        experts[tile] = (experts[tile] + by) % 8
        y = kernels_fp32.grouped_matmul(workload, {**inputs, "expert": experts}, kernels_fp32.tree)
        wrong = wrong_elements(y, reference, bound)
        assert wrong[4 * tile : 4 * tile + 4].any(), tile


@pytest.mark.parametrize("length", [1, 16])
def test_a_dropped_slice_of_any_tile_shows(length):
    workload, inputs, reference, bound = task(TEXT, "marker")
    for tile in range(16):
        for start in range(0, 96, length):
            x = inputs["x"].copy()
            x[4 * tile : 4 * tile + 4, start : start + length] = 0
            y = kernels_fp32.grouped_matmul(workload, {**inputs, "x": x}, kernels_fp32.tree)
            assert wrong_elements(y, reference, bound).any(), (tile, start)


@pytest.mark.parametrize("more", ["dtype=bf16", "dtype=int8,out=int8,bias=yes,activation=relu"])
def test_a_crop_has_whole_tiles(more):
    workload, inputs, reference, _ = task(f"grouped_matmul:groups=5,m=40,n=9,k=30,align=4,{more}", "integers")
    stored = np.zeros(reference.shape, bool)
    stored[6:13, 2:5] = True
    crop = OP.crop(workload, inputs, stored)
    # Rows 6 to 12 are of tiles 1 to 3: rows 4 to 15.
    assert (crop.workload["m"], crop.workload["n"], crop.box) == (12, 3, (slice(4, 16), slice(2, 5)))
    np.testing.assert_array_equal(OP.reference(crop.workload, crop.inputs)["y"], reference[crop.box])


def test_work_by_hand():
    counted = OP.work(parse_workload("grouped_matmul:groups=8,m=12,n=5,k=7,align=4,dtype=bf16"))
    assert counted.multiply_adds == 12 * 5 * 7
    # All rows may be of one group: of w one matrix of eight.
    assert dict(counted.tensor_bytes) == {"x": 12 * 7 * 2, "expert": 3 * 4, "w": 7 * 5 * 2, "y": 12 * 5 * 4}


def test_mistakes_are_named():
    with pytest.raises(BadInput, match="'m' is 100; a multiple of align=128 is needed"):
        parse_workload("grouped_matmul:groups=8,m=100,n=5,k=7,dtype=bf16")
