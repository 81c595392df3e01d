"""Pages: is the task the same as without, is every page somebody's or poison, and does a wrong page show?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.kernels.operators import PATTERNS, operator, parse_workload
from presil.kernels.operators.admission import wrong_elements
from presil.kernels.operators.paging import in_one_piece, pages
from presil.simulators.errors import BadInput

from .test_attention import blocked

OP = operator("attention")
DECODE = "attention:batch=3,heads=4,kv_heads=2,q=1,kv=100,head=32,dtype=bf16"
CAUSAL = "attention:batch=2,heads=4,kv_heads=1,q=5,kv=64,head=32,dtype=fp16,causal=true"


def task(text: str, pattern: str = "random", seed: int = 1):
    workload = parse_workload(text)
    return workload, OP.inputs(workload, seed, pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("page", [1, 16, 64, 128])
@pytest.mark.parametrize("text", [DECODE, CAUSAL])
def test_the_task_is_the_one_without_pages(text, page, pattern):
    plain, contiguous = task(text, pattern)
    workload, inputs = task(f"{text},page={page}", pattern)
    flat, again = in_one_piece(workload, inputs)
    assert flat == plain
    assert {name: array.tobytes() for name, array in again.items()} == {
        name: array.tobytes() for name, array in contiguous.items()
    }
    for part in (OP.reference, OP.error_bound):
        np.testing.assert_array_equal(part(workload, inputs)["y"], part(plain, contiguous)["y"])
    assert OP.work(workload).multiply_adds == OP.work(plain).multiply_adds


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 70), st.integers(1, 40), st.integers(0, 99))
def test_each_key_lies_once_and_all_else_is_poison(batch, kv_heads, kv, page, seed):
    text = f"attention:batch={batch},heads={kv_heads},kv_heads={kv_heads},q=1,kv={kv},head=8,page={page}"
    workload, inputs = task(text, "random", seed)
    each, count = pages(workload)
    table = inputs["table"]
    assert (each, table.shape, table.dtype) == (-(-kv // page), (batch, each), np.int32)
    assert count > batch * each  # some are of no sequence
    assert len(np.unique(table)) == table.size
    assert inputs["k_pool"].shape == (count, kv_heads, page, 8)
    poisoned = {
        name: np.abs(inputs[name].astype(np.float64)) == value for name, value in (("k_pool", 64), ("v_pool", 4096))
    }
    for name, found in poisoned.items():
        assert (~found).sum() == batch * kv * kv_heads * 8, name
        for b, number, place in np.ndindex(batch, each, page):
            assert found[table[b, number], :, place].all() == (number * page + place >= kv)


def test_tables_differ_by_seed_and_pattern():
    tables = [task(f"{DECODE},page=16", pattern, seed)[1]["table"].tobytes() for pattern in PATTERNS for seed in (1, 2)]
    assert len(set(tables)) == len(tables)


def _swapped(table: np.ndarray, spare: int) -> np.ndarray:
    return table[[1, 0, 2]]


def _reversed(table: np.ndarray, spare: int) -> np.ndarray:
    return table[:, ::-1]


def _plus_one(table: np.ndarray, spare: int) -> np.ndarray:
    return np.roll(table, -1, axis=1)


def _in_order(table: np.ndarray, spare: int) -> np.ndarray:
    return np.arange(table.size).reshape(table.shape)


def _one_spare(table: np.ndarray, spare: int) -> np.ndarray:
    changed = table.copy()
    changed[2, 3] = spare
    return changed


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("wrong", [_swapped, _reversed, _plus_one, _in_order, _one_spare])
def test_pages_that_are_not_meant_show(wrong: Callable, pattern):
    workload, inputs = task(f"{DECODE},page=16", pattern)
    reference, bound = OP.reference(workload, inputs)["y"], OP.error_bound(workload, inputs)["y"]
    right = blocked(*in_one_piece(workload, inputs), 32)
    assert not wrong_elements(right, reference, bound).any()
    (spare, *_) = set(range(pages(workload)[1])) - set(inputs["table"].ravel().tolist())
    other = {**inputs, "table": wrong(inputs["table"], spare)}
    assert wrong_elements(blocked(*in_one_piece(workload, other), 32), reference, bound).any()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_keys_behind_the_last_show(pattern):
    # 100 keys in 7 pages of 16: a kernel that takes all 112.
    workload, inputs = task(f"{DECODE},page=16", pattern)
    reference, bound = OP.reference(workload, inputs)["y"], OP.error_bound(workload, inputs)["y"]
    longer = parse_workload(f"{DECODE},page=16".replace("kv=100", "kv=112"))
    assert wrong_elements(blocked(*in_one_piece(longer, inputs), 32), reference, bound).any()


def test_a_crop_has_no_pages():
    workload, inputs = task(f"{DECODE},page=16")
    stored = np.zeros((3, 4, 1, 32), bool)
    stored[1, 3] = True
    crop = OP.crop(workload, inputs, stored)
    assert str(crop.workload) == "attention:heads=2,kv_heads=1,q=1,kv=100,head=32,dtype=bf16"
    whole = OP.reference(workload, inputs)["y"]
    np.testing.assert_allclose(OP.reference(crop.workload, crop.inputs)["y"], whole[crop.box], rtol=1e-12)


def test_work_counts_what_is_of_a_sequence():
    # 3 sequences of 100 keys, 2 heads of 32 elements, 2 bytes each; 3 x 7 elements of the table.
    moved = OP.work(parse_workload(f"{DECODE},page=16")).tensor_bytes
    assert dict(moved) == {
        "q": 3 * 4 * 32 * 2,
        "k_pool": 3 * 100 * 2 * 32 * 2,
        "v_pool": 3 * 100 * 2 * 32 * 2,
        "table": 21 * 4,
        "y": 3 * 4 * 32 * 2,
    }


@pytest.mark.parametrize("page", ["-1", "1025"])
def test_mistakes_are_named(page):
    with pytest.raises(BadInput, match=f"'page' is {page}; a whole number from 0 to 1024"):
        parse_workload(f"{DECODE},page={page}")
