"""gather: what it means, what is refused, what it costs, and that neither time nor verdict depends on the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.simulators.errors import BadInput, Undefined, Unsupported
from presil.simulators.gpu.locality import shares
from presil.simulators.gpu.occupancy import WARP, threads
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import random_inputs, simulate

from .gpu_parts import H100, changed, cycles, nth, price, program
from .test_gpu_cost import FAR, HBM, NEAR, TMA, near, near_ticks

SMALL = H100.with_cores(2)


def looked_up(shape: list[int], table: str, count: int, box: str, sizes: list[int]) -> str:
    """A block that gathers `count` entries of `box` and stores them."""
    dims = ", ".join(map(str, [count, *sizes]))
    return f"""
    tensor pool: fp32[{", ".join(map(str, shape))}] in @hbm
    tensor table: int32[8] in @hbm
    tensor y: fp32[{dims}] out @hbm
    buffer t: fp32[{dims}] x1 @shared+0
    semaphore there
    gather t{{0}}, pool[0 +: {shape[0]}, {box}], table[{table}] signal(there)
    store y, t{{0}} wait(there)
    """


@settings(max_examples=40)
@given(st.data())
def test_entries_are_those_that_the_table_names(data):
    shape = data.draw(st.lists(st.integers(1, 6), min_size=3, max_size=3))
    table = data.draw(st.lists(st.integers(0, shape[0] - 1), min_size=8, max_size=8))
    at = data.draw(st.integers(0, 7))
    count = data.draw(st.integers(1, 8 - at))
    row, rows = data.draw(st.integers(-2, shape[1] + 1)), data.draw(st.integers(2, 4))
    step = data.draw(st.integers(1, 2))
    box, sizes = f"{row} +: {rows}, 0 +: {shape[2]} : {step}", [rows, shape[2]]
    found = program(looked_up(shape, f"{at} +: {count}", count, box, sizes))
    assert sanitize(found, SMALL) == ()
    pool = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    inputs = {"pool": pool, "table": np.array(table, np.int32)}
    y = simulate(found, SMALL, mode="full", inputs=inputs).outputs["y"]
    for i in range(count):
        for r in range(rows):
            for c in range(shape[2]):
                inside = 0 <= row + r < shape[1] and c * step < shape[2]
                assert y[i, r, c] == (pool[table[at + i], row + r, c * step] if inside else 0)


@pytest.mark.parametrize("wrong", [-1, 5, 2**31 - 1, -(2**31)])
def test_an_entry_that_the_pool_does_not_have_is_named(wrong):
    found = program(looked_up([5, 2, 3], "1 +: 3", 3, "0 +: 2, 0 +: 3", [2, 3]))
    inputs = {"pool": np.zeros((5, 2, 3), np.float32), "table": np.array([9, 4, wrong, 0, 0, 0, 0, 0], np.int32)}
    with pytest.raises(Undefined) as error:  # element 0 is wrong too, but is not read
        simulate(found, SMALL, mode="full", inputs=inputs)
    assert error.value.kind == "bounds"
    assert error.value.where == "gather t, pool, table"
    assert error.value.detail == f"table[2] is {wrong}; pool has entries 0 to 4"


LOOP = """
tensor pool: fp32[40, 2, 8] in @hbm
tensor table: int32[3, 12] in @hbm
tensor y: fp32[3, 12, 8] out @hbm
buffer t: fp32[2, 8] x2 @shared+0
semaphore there
semaphore free = 2
stream copies {
    loop i 6 { gather t{i}, pool[0 +: 40, 1 +: 1, 0 +: 8], table[b +: 1, 2*i +: 2] wait(free) signal(there) }
}
stream stores {
    loop i 6 { store y[b +: 1, 2*i +: 2, 0 +: 8], t{i} wait(there) signal(free) }
}
"""


def test_time_and_verdict_do_not_depend_on_the_table():
    found = program(LOOP, grid="grid b=3 dispatch")
    assert sanitize(found, SMALL) == ()
    skip = simulate(found, SMALL).timing
    pool = random_inputs(found)["pool"]
    chance = np.random.default_rng(1)
    for table in (np.zeros((3, 12)), np.arange(36).reshape(3, 12), chance.integers(0, 40, (3, 12))):
        inputs = {"pool": pool, "table": table.astype(np.int32)}
        run = simulate(found, SMALL, mode="full", inputs=inputs)
        np.testing.assert_array_equal(run.outputs["y"], pool[table.astype(int), 1])
        assert (run.timing.ticks, run.timing.traffic_bytes) == (skip.ticks, skip.traffic_bytes)
    drawn = random_inputs(found, 3, SMALL)["table"]
    assert drawn.min() >= 0  # so that a program can be run without inputs of one's own
    assert simulate(found, SMALL, mode="full").timing.ticks == skip.ticks


@pytest.mark.parametrize(("old", "kind"), [(" wait(there)", "race"), (" wait(free)", "race"), ("2*i +: 2, 0", "")])
def test_a_gather_races_as_a_copy_does(old, kind):
    changed_text = LOOP.replace(old, "2*i +: 2, 0" if not kind else "", 1)
    faults = sanitize(program(changed_text, grid="grid b=3 dispatch"), SMALL)
    assert {f.kind for f in faults} & {kind} == ({kind} if kind else set())


@pytest.mark.parametrize("column", ["2*i + 1", "2*i - 1", "3*i"])
def test_the_table_is_not_clipped(column):
    text = LOOP.replace("table[b +: 1, 2*i", f"table[b +: 1, {column}")
    with pytest.raises(Undefined, match="table dimension 1 reaches"):
        program(text, grid="grid b=3 dispatch")


def test_the_sanitizer_alone_sees_a_table_that_is_left():
    found = program(LOOP, grid="grid b=3 dispatch")
    short = replace(found.tensors[1], shape=(3, 11))
    (fault,) = sanitize(replace(found, tensors=(found.tensors[0], short, found.tensors[2])), SMALL)
    assert fault.kind == "bounds"
    assert "touches 0 to 11 of dimension 1 of table, which has 11" in fault.detail


GATHER = "gather t{0}, pool[0 +: 40, 1 +: 1, 0 +: 8], table[0 +: 1, 0 +: 2]"
REFUSED = [
    ("pool[0 +: 40, 1", "pool[0 +: 39, 1", r"first dimension of pool counts its entries and must be whole: 0 \+: 40"),
    ("pool[0 +: 40, 1", "pool[0 +: 20 : 2, 1", "first dimension of pool counts its entries and must be whole"),
    ("table[0 +: 1, 0 +: 2]", "table[0 +: 2, 0 +: 1]", r"\[2, 1\] elements of table; allowed: 1 to 32 neighbours"),
    ("table[0 +: 1, 0 +: 2]", "table[0 +: 1, 0 +: 2 : 3]", r"\[1, 2\] elements of table; allowed: 1 to 32 neighbours"),
    ("table[0 +: 1, 0 +: 2]", "table[0 +: 1, 0 +: 33]", r"\[1, 33\] elements of table; allowed: 1 to 32 neighbours"),
    ("table[0 +: 1, 0 +: 2]", "table[0 +: 1, 0 +: 3]", r"shapes do not match: \[2, 8\], \[3, 1, 8\]"),
    ("table: int32[3, 64] in", "table: fp32[3, 64] in", "the table must be int32, not fp32"),
    ("table: int32[3, 64] in", "table: int32[3, 64] out", "table is an output; a pool and its table must be inputs"),
    ("pool: fp32[40, 2, 8] in", "pool: fp32[40, 2, 8] out", "pool is an output; a pool and its table must be inputs"),
    ("t: fp32[2, 8] x1 @shared", "t: fp32[2, 8] x1 @registers", "the destination must lie in shared, not registers"),
    ("t: fp32[2, 8]", "t: int32[2, 8]", "formats differ: int32 and fp32"),
    (", table[0 +: 1, 0 +: 2]", ", t{0}", "goes from a tensor, by a table that is a tensor, to a buffer"),
]


@pytest.mark.parametrize(("old", "new", "message"), REFUSED)
def test_what_is_refused(old, new, message):
    text = f"""
    tensor pool: fp32[40, 2, 8] in @hbm
    tensor table: int32[3, 64] in @hbm
    buffer t: fp32[2, 8] x1 @shared+0
    {GATHER}
    """
    program(text)
    assert old in text
    with pytest.raises(Unsupported, match=message):
        program(text.replace(old, new))
    with pytest.raises(BadInput, match="2 operands; gather takes shared, pool, table"):
        program(text.replace(", table[0 +: 1, 0 +: 2]", ""))


def paged(grid: str, *, entries: int = 4096, element: str = "b", count: int = 2, pages: int = 4096, body: str = ""):
    """Each block gathers pages of 16 x 64 bf16, 2048 bytes each."""
    text = f"""
    tensor pool: bf16[{entries}, 16, 64] in @hbm
    tensor table: int32[{pages}] in @hbm
    buffer t: bf16[{count}, 16, 64] x1 @shared+0
    {body or f"gather t{{0}}, pool[0 +: {entries}, 0 +: 16, 0 +: 64], table[{element} +: {count}]"}
    """
    return program(text, grid=grid)


def test_a_gather_costs_a_copy_of_its_entries_behind_a_load_of_the_table():
    # 2 x 2048 bytes at 64 a cycle, all from memory; before that the table, from the L2. 8 bytes of it.
    found = price(paged("grid b=1 dispatch"), "gather")
    assert found.engine == "copy"
    assert cycles(found) == (64, near(64 + NEAR + FAR + TMA))
    assert found.traffic == (("hbm", 4096 + 8),)
    assert found.links == (("hbm", near_ticks((4096 + 8) / HBM)),)
    # All SMs: each page is read by one. The last byte is there when the memory has moved it.
    busy, link = 4096 * 132 / 4700, 4104 * 132 / HBM
    found = price(paged("grid b=132 dispatch", element="2*b"), "gather")
    assert cycles(found) == (near(busy), near(link + NEAR + FAR + TMA))
    # Each entry is a box of its own: 3 set-ups of 32 cycles for 3 rows of 128 bytes.
    one_row = "gather t{0}[0 +: 3, 0 +: 1, 0 +: 64], pool[0 +: 4096, 5 +: 1, 0 +: 64], table[0 +: 3]"
    assert cycles(price(paged("grid b=1 dispatch", count=3, body=one_row), "gather"))[0] == 96


def test_a_stream_that_only_gathers_and_copies_is_one_warp():
    found = paged("grid b=1 dispatch")
    assert threads(found.streams[0]) == WARP


def missed(found, machine) -> float:
    return shares(found, machine).of(nth(found, "gather")).memory


HUGE, NONE = 1 << 30, 1  # bytes of L2


@pytest.mark.parametrize(
    ("grid", "element", "entries", "cores", "capacity", "wanted"),
    [
        ("b=16, h=4", "b", 4096, 64, NONE, 1 / 4),  # four blocks side by side look up the same element
        ("b=16, h=4", "4*b + h", 4096, 64, HUGE, 1),  # 64 elements may name 64 entries
        ("b=16, h=4", "4*b + h", 16, 64, NONE, 1 / 4),  # but not where there are 16
        ("b=16, h=4", "4*b + h", 16, 16, HUGE, 1 / 4),  # four waves come back to all 16: there, if the L2 holds them
        ("b=16, h=4", "4*b + h", 16, 16, NONE, 1),
        ("b=16, h=4", "4*b + h", 16, 8, HUGE, 1 / 4),
    ],
)
def test_what_misses_whatever_the_table_says(grid, element, entries, cores, capacity, wanted):  # noqa: PLR0917
    chip = changed(H100.with_cores(cores), "cache", capacity=capacity)
    found = paged(f"grid {grid} persistent", element=element, entries=entries, count=1)
    assert missed(found, chip) == pytest.approx(wanted)


def test_a_block_that_walks_over_more_elements_than_there_are_entries():
    # 64 elements, 16 entries: 16 first touches of 64; with an L2 the others hit.
    walk = "loop i 16 { gather t{0}, pool[0 +: 16, 0 +: 16, 0 +: 64], table[4*i +: 4] }"
    found = paged("grid b=1 persistent", entries=16, count=4, body=walk)
    for capacity, wanted in ((HUGE, 1 / 4), (NONE, 1)):
        assert missed(found, changed(H100.with_cores(1), "cache", capacity=capacity)) == pytest.approx(wanted)


@settings(max_examples=60)
@given(st.data())
def test_no_table_misses_more_often_than_is_charged(data):
    """Blocks one behind the other on one SM, an L2 of any size with true LRU: misses of any table against the bound."""
    entries, elements = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 24))
    table = data.draw(st.lists(st.integers(0, entries - 1), min_size=elements, max_size=elements))
    ways = data.draw(st.integers(1, 9))

    def misses(names: list[int]) -> int:
        held: list[int] = []
        count = 0
        for name in names:
            count += name not in held
            held = [name, *(other for other in held if other != name)][:ways]
        return count

    assert misses(table) <= misses([i % entries for i in range(elements)])
    # With an L2 that holds all, or nothing, the model charges just that.
    found = paged(f"grid b={elements} persistent", element="b", entries=entries, count=1)
    for capacity, held in ((HUGE, min(entries, elements)), (NONE, elements)):
        chip = changed(H100.with_cores(1), "cache", capacity=capacity)
        assert missed(found, chip) * elements == pytest.approx(held)


def test_a_table_may_come_from_an_earlier_phase():
    first = program("""
        tensor given: int32[4] in @hbm
        tensor table: int32[4] out @hbm
        buffer t: int32[4] x1 @registers+0
        semaphore there
        load t{0}, given signal(there)
        store table, t{0} wait(there)
    """)
    second = program(
        looked_up([5, 2, 3], "1 +: 3", 3, "0 +: 2, 0 +: 3", [2, 3]).replace("table: int32[8]", "table: int32[4]")
    )
    both = replace(second, before=first)
    assert sanitize(both, SMALL) == ()
    pool = np.arange(30, dtype=np.float32).reshape(5, 2, 3)
    run = simulate(both, SMALL, mode="full", inputs={"pool": pool, "given": np.array([9, 4, 0, 2], np.int32)})
    np.testing.assert_array_equal(run.outputs["y"], pool[[4, 0, 2]])
    with pytest.raises(Undefined, match=r"table\[3\] is 5; pool has entries 0 to 4"):
        simulate(both, SMALL, mode="full", inputs={"pool": pool, "given": np.array([0, 4, 0, 5], np.int32)})
