"""What GPU instructions cost: each check carries its calculation, in cycles of one SM.

Figures of the descriptions. H100: 2048 bf16, 4096 int8 or fp8 multiply-adds a cycle, 128 lanes, 64 for compare and
convert, 16 special, shared memory 128 bytes a cycle, port 64, L2 4700 a cycle for 132 SMs, HBM 3352 GB/s x 0.967 at
1.83 GHz, which is 1771.27 bytes a cycle. A100: 1024 bf16, 64 lanes of both kinds.
"""

from __future__ import annotations

import math

import pytest

from presil.simulators.timing import TICKS_PER_CYCLE

from .gpu_parts import A100, H100, changed, cycles, price, program

ALL_SMS = "grid b=132 dispatch"
HBM = 3352e9 * 0.967 / 1.83e9  # bytes a cycle, of all SMs
FAR, NEAR, TMA = 273e-9 * 1.83e9, 263, 170  # cycles to memory, to the L2, and what a copy takes more


def near(value: float) -> object:
    """Costs are whole ticks of 1/1024 cycle."""
    return pytest.approx(value, abs=2 / TICKS_PER_CYCLE)


def mma(m: int, n: int, k: int, dtype: str = "bf16", *, a: str = "shared", machine=H100, op: str = "mma"):
    total = "int32" if dtype == "int8" else "fp32"
    behind = 4 * m * n
    text = f"""
    buffer a: {dtype}[{m}, {k}] x1 @{a}+{0 if a == "shared" else behind}
    buffer b: {dtype}[{k}, {n}] x1 @shared+{m * k * 4}
    buffer c: {total}[{m}, {n}] x1 @registers+0
    {op} c{{0}}, a{{0}}, b{{0}} accumulate=0
    """
    return price(program(text, machine), op, machine)


MMA_H100 = [
    # M x N x K / rate, where shared memory is faster: A once for 256 columns and B once for 64 rows, 128 bytes a cycle.
    ((64, 256, 64), "bf16", "shared", 512),  # 64 * 256 * 64 / 2048; shared (8192 + 32768) / 128 = 320
    ((128, 128, 64), "bf16", "shared", 512),  # shared (16384 + 2 * 16384) / 128 = 384
    ((64, 256, 64), "fp16", "shared", 512),
    ((64, 256, 64), "int8", "shared", 256),  # / 4096; shared (4096 + 16384) / 128 = 160
    ((64, 256, 64), "fp8", "shared", 256),
    # Whole instructions: 64 rows, K of 32 bytes.
    ((16, 256, 64), "bf16", "shared", 512),
    ((65, 256, 64), "bf16", "shared", 1024),
    ((64, 256, 8), "bf16", "shared", 128),  # K is 16: 64 * 256 * 16 / 2048
    ((64, 256, 72), "bf16", "shared", 640),  # K is 80
    ((64, 256, 16), "fp8", "shared", 128),  # K is 32: 64 * 256 * 32 / 4096
    # Narrow tiles: shared memory cannot give A fast enough.
    ((64, 64, 64), "bf16", "shared", 128),  # both: 64 * 64 * 64 / 2048, (8192 + 8192) / 128
    ((64, 32, 64), "bf16", "shared", 96),  # (8192 + 4096) / 128 against 64
    ((64, 8, 16), "bf16", "shared", 18),  # (2048 + 256) / 128 against 4
    ((64, 32, 64), "bf16", "registers", 64),  # only B: 4096 / 128 = 32
    ((64, 8, 16), "bf16", "registers", 4),  # 256 / 128 = 2 against 4
    # More than 256 columns are two instructions: A twice. (2 * 8192 + 33792) / 128 = 392.
    ((64, 264, 64), "bf16", "shared", 528),
]


@pytest.mark.parametrize(("sizes", "dtype", "a", "wanted"), MMA_H100)
def test_products_on_the_tensor_cores_of_an_h100(sizes, dtype, a, wanted):
    found = mma(*sizes, dtype, a=a)
    assert found.engine == "tensor"
    assert cycles(found) == (wanted, wanted + 32)  # 32 to the result
    assert found.multiply_adds == math.prod(sizes)  # those of the program, not those of the padding


MMA_A100 = [
    # mma.sync: four warps two by two read both operands twice.
    ((64, 256, 64), "bf16", "shared", 1024),  # / 1024; shared 2 * (8192 + 32768) / 128 = 640
    ((64, 64, 64), "bf16", "shared", 256),  # both: 2 * (8192 + 8192) / 128
    ((64, 32, 64), "bf16", "shared", 192),  # 2 * (8192 + 4096) / 128 against 128
    ((64, 32, 64), "bf16", "registers", 128),  # 2 * 4096 / 128 = 64
    ((64, 64, 64), "int8", "shared", 128),  # / 2048; 2 * (4096 + 4096) / 128 = 128
]


@pytest.mark.parametrize(("sizes", "dtype", "a", "wanted"), MMA_A100)
def test_products_on_the_tensor_cores_of_an_a100(sizes, dtype, a, wanted):
    assert cycles(mma(*sizes, dtype, a=a, machine=A100)) == (wanted, wanted + 25)


def test_the_tile_of_rows_may_have_several_dimensions():
    text = """
    buffer a: bf16[4, 32, 64] x1 @shared+0
    buffer b: bf16[1, 64, 128] x1 @shared+16384
    buffer c: fp32[4, 32, 128] x1 @registers+0
    mma c{0}, a{0}, b{0} accumulate=0
    """
    assert cycles(price(program(text), "mma"))[0] == 512  # 128 rows


@pytest.mark.parametrize(
    ("sizes", "dtype", "machine", "wanted"),
    [
        # 65536 on 128 lanes, and reads: 2 of 8 elements of 4 bytes each, 65536 bytes, 16 a slot: 4096 / 128 = 32.
        ((64, 64, 16), "fp32", H100, 512 + 32),
        ((64, 64, 16), "fp32", A100, 1024 + 64),  # 64 lanes
        # Half the bytes, 16 cycles; (64 * 16 + 16 * 64) conversions at 64 a cycle, 32 cycles.
        ((64, 64, 16), "bf16", H100, 512 + 16 + 32),
        # One row: 4096 * (1 + 1/8) * 4 = 18432 bytes from shared memory, against (4096 + 1152) / 128 = 41.
        ((1, 64, 64), "fp32", H100, 144),
        # 4 x 4: 4 * 4 * 64 * (1/4 + 1/4) * 4 = 2048 bytes, 16 cycles, against (1024 + 128) / 128 = 9.
        ((4, 4, 64), "fp32", H100, 16),
    ],
)
def test_products_on_the_lanes(sizes, dtype, machine, wanted):
    found = mma(*sizes, dtype=dtype, machine=machine, op="mac")
    assert (found.engine, cycles(found)) == ("vector", (wanted, wanted + 4))


VECTOR = """
buffer a: fp32[64, 64] x2 @registers+0
buffer h: bf16[64, 64] x1 @registers+32768
buffer r: fp32[64, 1] x2 @registers+40960
buffer s: bf16[64, 64] x1 @shared+0
semaphore done = 0
"""
ROWS = [
    # 4096 elements by the lanes of their kind; 4 cycles to the result; the stream goes on after 8.
    ("add a{0}, a{0}, a{1}", H100, 32, 4, 8),
    ("add a{0}, a{0}, a{1}", A100, 64, 4, 8),
    ("add a{0}, a{0}, r{0}", H100, 32, 4, 8),  # a column beside: the tile counts
    ("scale a{0}, a{0} factor=2.0", H100, 32, 4, 8),
    ("fill a{0} value=0.0", H100, 32, 4, 8),
    ("maximum a{0}, a{0}, a{1}", H100, 64, 4, 8),
    ("maximum a{0}, a{0}, a{1}", A100, 64, 4, 8),
    ("mask a{0}, a{0} row=0 column=0", H100, 64, 4, 8),
    ("exp a{0}, a{0}", H100, 256, 4, 8),
    ("exp a{0}, a{0}", A100, 256, 4, 8),
    ("cast h{0}, a{0}", H100, 32, 4, 8),  # two narrow results at once
    ("cast a{0}, h{0}", H100, 64, 4, 8),
    # Along a row: two exchanges of 23 cycles, and the next needs the result.
    ("sum r{0}, a{0} accumulate=0", H100, 32, 4 + 2 * 23, 32 + 50),
    ("max r{0}, a{0} accumulate=0", H100, 64, 4 + 2 * 23, 64 + 50),
    # One instruction of a warpgroup, of 128 threads, for 64 elements; the next needs the result.
    ("add r{0}, r{0}, r{1}", H100, 1, 4, 1 + 4),
    ("maximum r{0}, r{0}, r{1}", H100, 2, 4, 2 + 4),
    ("reciprocal r{0}, r{0}", H100, 8, 4, 8 + 4),
    ("move s{0}, h{0}", H100, 64, 29, 8),  # 8192 bytes at 128 a cycle
    ("sync", H100, 8, 0, 8),
]


@pytest.mark.parametrize(("text", "machine", "busy", "flight", "issue"), ROWS)
def test_vector_instructions(text, machine, busy, flight, issue):
    found = price(program(VECTOR + text, machine), text.split(" ")[0], machine)
    assert (found.engine, cycles(found)) == ("vector", (busy, busy + flight))
    assert found.issue == issue * TICKS_PER_CYCLE
    # Whoever waits for it goes through a barrier of 20 cycles.
    told = price(program(f"{VECTOR}{text} signal(done)\nsync wait(done)", machine), text.split(" ")[0], machine)
    assert cycles(told) == (busy, busy + flight + 20)


def test_operations_are_counted_for_power_by_whole_warpgroups():
    assert price(program(VECTOR + "exp a{0}, a{0}"), "exp").operations == 4096
    assert price(program(VECTOR + "reciprocal r{0}, r{0}"), "reciprocal").operations == 128


def moved(op: str, *, grid: str = "grid b=1 dispatch", machine=H100, start: str = "64*b", more: str = ""):
    """A transfer of 64 x 64 bf16, 8192 bytes, of each block's own part (or `start`)."""
    space = "shared" if op == "copy" else "registers"
    role = "out" if op == "store" else "in"
    operands = f"x[{start} +: 64, 0 +: 64]", "t{0}"
    local, remote = reversed(operands)
    text = f"""
    tensor x: bf16[16896, 64] {role} @hbm
    buffer t: bf16[64, 64] x1 @{space}+0
    {op} {", ".join(operands if op == "store" else (local, remote))} {more}
    """
    return price(program(text, machine, grid), op, machine)


def test_one_sm_is_bound_by_its_port():
    # 8192 bytes at 64 a cycle. All 256 lines come from memory. One SM has all of it: 8192 / 1771.27 = 4.6 cycles.
    found = moved("copy")
    assert cycles(found) == (128, near(128 + FAR + TMA))
    assert found.links == (("hbm", near_ticks(8192 / HBM)),)
    assert found.traffic == (("hbm", 8192),)
    assert cycles(moved("load")) == (128, near(128 + FAR))  # no descriptor
    assert cycles(moved("store")) == (128, 128 + NEAR)  # is done when the L2 has it


def near_ticks(value: float) -> object:
    return pytest.approx(value * TICKS_PER_CYCLE, abs=1)


def test_all_sms_are_bound_by_their_share_of_the_l2_and_the_memory():
    # 8192 * 132 / 4700 = 230.07 cycles. The memory needs 8192 * 132 / 1771.27 = 610.5, so the last byte is there
    # 380.4 cycles after the engine is free of it, and what it takes beyond that.
    found = moved("load", grid=ALL_SMS)
    busy, link = 8192 * 132 / 4700, 8192 * 132 / HBM
    assert cycles(found) == (near(busy), near(link + FAR))
    assert found.links == (("hbm", near_ticks(link)),)
    half = moved("load", grid="grid b=66 dispatch")  # as many SMs share both: 115.04, so the port it is
    assert cycles(half) == (128, near(8192 * 66 / HBM + FAR))


def test_what_may_be_outstanding_bounds_a_far_memory():
    # Little's law: 16 KiB in flight for 499.59 + 170 cycles; 8192 bytes take half of that.
    small = changed(H100, "path", in_flight_bytes=16384)
    busy = (FAR + TMA) / 2
    assert cycles(moved("copy", machine=small)) == (near(busy), near(busy + FAR + TMA))
    assert cycles(moved("load", machine=small)) == (near(FAR / 2), near(FAR / 2 + FAR))
    assert cycles(moved("store", machine=small)) == (128, 128 + NEAR)  # nobody waits for a store


def test_a_copy_for_two_blocks_crosses_the_l2_once():
    # All read the same 8192 bytes: 230.07 cycles of the L2 for each SM, 115.04 where one copy serves two, 57.5 four.
    alone, two, four = (
        moved("copy", grid=ALL_SMS, start="0", more="" if n == 1 else f"multicast={n}") for n in (1, 2, 4)
    )
    assert cycles(alone)[0] == near(8192 * 132 / 4700)
    assert cycles(two)[0] == cycles(four)[0] == 128  # the port of each takes them all the same
    wide = changed(H100, "path", port_bytes_per_cycle=1024)
    found = moved("copy", grid=ALL_SMS, start="0", more="multicast=4", machine=wide)
    outstanding = 8192 / 65536 * (cycles(found)[1] - cycles(found)[0])
    assert cycles(found)[0] == near(max(8192 * 33 / 4700, outstanding))


def test_short_transfers_cost_their_setup():
    text = """
    tensor x: bf16[8, 32] in @hbm
    buffer s: bf16[32] x1 @shared+0
    buffer r: bf16[32] x1 @registers+0
    copy s{0}, x[0 +: 1, 0 +: 32]
    load r{0}, x[1 +: 1, 0 +: 32]
    """
    assert cycles(price(program(text), "copy"))[0] == 32
    assert cycles(price(program(text, A100), "copy", A100))[0] == 16
    # A load of 64 bytes takes the port for 1 cycle.
    assert cycles(price(program(text), "load"))[0] == 1


@pytest.mark.parametrize(
    ("elements", "misses"),
    [
        (16, 0.5),  # 32 bytes, one line: it comes from memory for one of the two blocks that share it
        (32, 0.75),  # two lines: both hit in one case of four
        (48, 0.875),
    ],
)
def test_a_transfer_waits_for_memory_if_any_of_its_lines_does(elements, misses):
    text = f"""
    tensor x: bf16[66, {elements}] in @hbm
    buffer t: bf16[{elements}] x1 @registers+0
    load t{{0}}, x[i +: 1, 0 +: {elements}]
    """
    found = price(program(text, grid="grid i=66, j=2 dispatch"), "load")
    busy, latency = cycles(found)
    assert found.traffic == (("hbm", elements),)  # half of 2 bytes each
    link = elements * 132 / HBM
    assert latency == near(max(busy, link) + NEAR + misses * (FAR - NEAR))


@pytest.mark.parametrize(
    ("loads", "stores", "factor"),
    # Of all bytes the part w is written: 1 + 0.085 * 2 * min(w, 1 - w).
    [(1, 0, 1.0), (1, 1, 1.085), (3, 1, 1.0425), (1, 3, 1.0425), (0, 1, 1.0)],
)
def test_memory_that_is_read_and_written_loses_time_to_the_turns(loads, stores, factor):
    head, body = [], []
    for kind, count, role in (("load", loads, "in"), ("store", stores, "out")):
        for i in range(count):
            name = f"{kind[0]}{i}"
            head.append(f"tensor {name}: bf16[132, 64, 64] {role} @hbm")
            region = f"{name}[b +: 1, 0 +: 64, 0 +: 64]"
            body.append(f"load t{{0}}, {region}" if kind == "load" else f"store {region}, t{{0}}")
    text = "\n".join([*head, "buffer t: bf16[64, 64] x1 @registers+0", *body])
    for op in (["load"] if loads else []) + (["store"] if stores else []):
        assert price(program(text, grid=ALL_SMS), op).links == (("hbm", near_ticks(factor * 8192 * 132 / HBM)),)


def test_what_lies_outside_is_not_moved():
    # 40 x 48 of the 64 x 64 lie inside: 3840 bytes, 60 cycles of the port.
    text = """
    tensor x: bf16[40, 48] in @hbm
    buffer t: bf16[64, 64] x1 @registers+0
    load t{0}, x[0 +: 64, 0 +: 64]
    """
    found = price(program(text), "load")
    assert cycles(found)[0] == 60
    assert found.traffic == (("hbm", 3840),)


@pytest.mark.parametrize(("tile", "region", "sectors"), [("64, 1", "0 +: 64, 5 +: 1", 64), ("4", "0 +: 4 : 512", 4)])
def test_short_runs_cost_whole_sectors(tile, region, sectors):
    # A column of 64 rows of 4096: each of its elements of 2 bytes lies in a sector of 32. So do steps of 512.
    shape = "4096, 4096" if "," in tile else "4096"
    text = f"""
    tensor x: bf16[{shape}] in @hbm
    buffer t: bf16[{tile}] x1 @registers+0
    load t{{0}}, x[{region}]
    """
    assert price(program(text), "load").traffic == (("hbm", 32 * sectors),)


def test_what_a_load_brings_needs_no_barrier():
    text = """
    tensor x: bf16[64, 64] in @hbm
    buffer t: bf16[64, 64] x1 @registers+0
    buffer c: bf16[64, 64] x1 @shared+0
    semaphore here = 0
    semaphore there = 0
    load t{0}, x signal(here)
    copy c{0}, x signal(there)
    """
    found = program(text)
    assert cycles(price(found, "load")) == (128, near(128 + FAR))
    # The second reads what the first has just brought (of 8192 bytes nothing is lost): the latency of the L2.
    assert cycles(price(found, "copy")) == (128, near(128 + NEAR + TMA + 20))
