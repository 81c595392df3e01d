"""What hits in the L2, on grids that can be worked out by hand. Panels are 1 KiB; persistent blocks, so one per SM."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.simulators.gpu.locality import shares
from presil.simulators.kinds import points
from presil.simulators.machine import Machine
from presil.simulators.program import Program, instructions

from .gpu_parts import H100, changed, nth, program

KIB = 1024
HUGE, NONE = 1 << 30, 1  # bytes of L2: all of a grid fits, nothing does


def machine(cores: int, capacity: int, ways: int = 32) -> Machine:
    return changed(H100.with_cores(cores), "cache", capacity=capacity, ways=ways)


def blocks(grid: str, i: str, j: str, after: str = "") -> Program:
    """Each block loads panel `i` of x and panel `j` of w, and stores one of its own."""
    text = f"""
    tensor x: int8[64, 1024] in @hbm
    tensor w: int8[64, 1024] in @hbm
    tensor y: int8[64, 64, 1024] out @hbm
    buffer t: int8[1024] x3 @registers+0
    stream s {{
        load t{{0}}, x[{i} +: 1, 0 +: 1024]
        load t{{1}}, w[{j} +: 1, 0 +: 1024]
        {after}
        store y[{i} +: 1, {j} +: 1, 0 +: 1024], t{{2}}
    }}
    """
    return program(text, H100, f"grid {grid} persistent")


def memory(found: Program, chip: Machine) -> list[float]:
    """The part of its bytes that memory moves, of each load."""
    known = shares(found, chip)
    return [known.of(i).memory for s in found.streams for i, _ in instructions(s.body) if i.op == "load"]


def poisson(mean: float, ways: int) -> float:
    """P(fewer than `ways` of a Poisson number), summed term by term."""
    return math.fsum(math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(ways))


def test_what_a_wave_shares_is_fetched_once():
    # 4 x 4 blocks in one wave of 16: 4 panels of each, 16 blocks.
    grid = blocks("i=4, j=4", "i", "j")
    assert memory(grid, machine(16, NONE)) == [0.25, 0.25]
    assert memory(grid, machine(132, NONE)) == [0.25, 0.25]


def test_what_the_last_wave_has_read_is_there_if_it_fits():
    # Waves are rows of 4: a panel of x is fetched once a wave, each by its own; panels of w come back in each.
    grid = blocks("i=4, j=4", "i", "j")
    assert memory(grid, machine(4, HUGE)) == [0.25, 0.25]
    assert memory(grid, machine(4, NONE)) == [0.25, 1.0]


def test_stores_go_to_memory_and_are_in_the_way():
    grid = blocks("i=4, j=4", "i", "j")
    chip = machine(4, HUGE)
    share = shares(grid, chip).of(nth(grid, "store"))
    assert (share.cache, share.memory, share.active) == (1.0, 1.0, 4)
    # 16 KiB stored, 4 + 4 read.
    assert share.written == pytest.approx(16 / 24)
    # With no L2: 4 + 16 read.
    assert shares(grid, machine(4, NONE)).of(nth(grid, "store")).written == pytest.approx(16 / 36)


@pytest.mark.parametrize(
    ("capacity", "ways", "hit"),
    [
        # A wave touches 1 panel of x, 4 of w and stores 4: 9 KiB lie between two uses of one of w.
        (9 * KIB, 1, math.exp(-1)),  # Poisson(1) is 0
        (9 * KIB, 2, 3 * math.exp(-2)),  # Poisson(2) is 0 or 1: e^-2 (1 + 2)
        (18 * KIB, 2, 2 * math.exp(-1)),  # Poisson(1): e^-1 (1 + 1)
        (18 * KIB, 4, 19 / 3 * math.exp(-2)),  # Poisson(2) below 4: e^-2 (1 + 2 + 2 + 4/3)
        (18 * KIB, 32, poisson(16, 32)),  # 0.9999: twice what is needed
        (9 * KIB, 32, poisson(32, 32)),  # 0.4764: just what is needed
        (6 * KIB, 32, poisson(48, 32)),  # 0.0050: two thirds
    ],
)
def test_between_the_chance_is_that_of_a_set_that_is_not_full(capacity, ways, hit):
    # The first wave fetches 4 panels; in the other three each is missed by 1 - hit.
    grid = blocks("i=4, j=4", "i", "j")
    assert memory(grid, machine(4, capacity, ways)) == [0.25, pytest.approx((4 + 12 * (1 - hit)) / 16)]


def test_a_last_use_several_waves_ago_is_further_back():
    # Waves are (j, i): 2 x 2 of them with 4 blocks. A panel of w comes back after two waves, of x after one.
    # Touched in a wave: 4 of x (its rows), 1 of w, 4 stored: 9 KiB. Of w: (0, 0), (1, 0), then (0, 1), (1, 1) again.
    grid = blocks("r=2, j=2, i=4", "i", "j")
    one, two = poisson(1, 2), poisson(2, 2)
    chip = machine(4, 18 * KIB, 2)
    assert memory(grid, chip) == [pytest.approx((4 + 12 * (1 - one)) / 16), pytest.approx((2 + 2 * (1 - two)) / 16)]


def test_the_order_of_blocks_changes_what_is_missed():
    # 4 x 4 blocks on 4 SMs without an L2. By rows: 1 panel of x and 4 of w a wave, 20. In squares: 2 and 2, 16.
    rows = blocks("i=4, j=4", "i", "j")
    squares = blocks("io=2, jo=2, ii=2, ji=2", "2*io + ii", "2*jo + ji")
    chip = machine(4, NONE)
    assert 16 * sum(memory(rows, chip)) == 20
    assert 16 * sum(memory(squares, chip)) == 16
    # 4 x 16 blocks, without an L2: 1 of x and 4 of w in each of 16 waves, by rows or by groups of 4 columns.
    assert 64 * sum(memory(blocks("i=4, j=16", "i", "j"), chip)) == 16 + 64
    assert 64 * sum(memory(blocks("jo=4, i=4, ji=4", "i", "4*jo + ji"), chip)) == 16 + 64
    # With one they differ: to the same panels of w it is one wave of 9 KiB by groups, four of them by rows.
    some = machine(4, 12 * KIB, 32)
    assert sum(memory(blocks("jo=4, i=4, ji=4", "i", "4*jo + ji"), some)) < 0.8 * sum(
        memory(blocks("i=4, j=16", "i", "j"), some)
    )


def test_slots_make_waves_wider():
    # The same on 2 SMs that hold two blocks each (101 KiB of shared memory of 228): dispatched, so waves of 4.
    shared = "buffer s: int8[100, 1024] x1 @shared+0"
    text = f"""
    tensor x: int8[64, 1024] in @hbm
    {shared}
    buffer t: int8[1024] x1 @registers+0
    load t{{0}}, x[i +: 1, 0 +: 1024]
    """
    for place, wanted in (("dispatch", 0.25), ("persistent", 0.5)):
        grid = program(text, H100, f"grid i=4, j=4 {place}")
        assert memory(grid, machine(2, NONE)) == [wanted]


def test_what_a_loop_reads_again_is_there_if_the_wave_fits():
    # One wave; x[0] in 4 turns, by all 4 blocks: the first costs a quarter. In between the wave touches 1 KiB of x.
    def found(chip: Machine) -> float:
        text = """
        tensor x: int8[64, 1024] in @hbm
        buffer t: int8[1024] x1 @registers+0
        loop k 4 { load t{0}, x[0 +: 1, 0 +: 1024] }
        """
        return memory(program(text, H100, "grid b=4 persistent"), chip)[0]

    assert found(machine(4, HUGE)) == pytest.approx(1 / 16)  # of 16 reads one
    assert found(machine(4, NONE)) == pytest.approx(1 / 4)  # of each turn one
    hit = poisson(1, 1)
    assert found(machine(4, KIB, 1)) == pytest.approx((1 + 3 * (1 - hit)) / 16)


def test_a_loop_over_a_tensor_touches_all_of_it():
    # Each block reads 8 panels of x, 32 in all, that no other reads; and w[0] 8 times, by all.
    text = """
    tensor x: int8[64, 1024] in @hbm
    tensor w: int8[64, 1024] in @hbm
    buffer t: int8[1024] x2 @registers+0
    loop k 8 {
        load t{0}, x[8*b + k +: 1, 0 +: 1024]
        load t{1}, w[0 +: 1, 0 +: 1024]
    }
    """
    grid = program(text, H100, "grid b=4 persistent")
    assert memory(grid, machine(4, HUGE)) == [1.0, pytest.approx(1 / 32)]
    assert memory(grid, machine(4, NONE)) == [1.0, pytest.approx(1 / 4)]
    # Between two uses of w lies all that the wave touches: 33 KiB.
    hit = poisson(1, 1)
    assert memory(grid, machine(4, 33 * KIB, 1)) == [1.0, pytest.approx((1 + 7 * (1 - hit)) / 32)]


def test_a_second_instruction_finds_what_the_first_has_read():
    again = "load t{2}, x[i +: 1, 0 +: 1024]"
    grid = blocks("i=4, j=4", "i", "j", after=again)
    assert memory(grid, machine(16, HUGE)) == [0.25, 0.25, 0.0]
    assert memory(grid, machine(16, NONE)) == [0.25, 0.25, 0.25]
    # It counts once among what lies between: 4 + 4 + 16 stored.
    hit = poisson(1, 1)
    assert memory(grid, machine(16, 24 * KIB, 1)) == [0.25, 0.25, pytest.approx(0.25 * (1 - hit))]


def test_a_part_of_a_tensor_that_is_read_whole_is_no_larger():
    # A loop over 200 trips of 1 KiB of a tensor of 64 KiB (clipped behind it) is 64 KiB.
    text = """
    tensor x: int8[64, 1024] in @hbm
    tensor w: int8[64, 1024] in @hbm
    buffer t: int8[1024] x2 @registers+0
    loop k 200 { load t{0}, x[k +: 1, 0 +: 1024] }
    loop k 2 { load t{1}, w[0 +: 1, 0 +: 1024] }
    """
    grid = program(text, H100, "grid b=1 persistent")
    hit = poisson(1, 1)
    assert memory(grid, machine(1, 65 * KIB, 1))[1] == pytest.approx((1 + (1 - hit)) / 2)


def test_all_blocks_that_run_share():
    for instances, active in ((1, 1), (100, 100), (1000, 132)):
        text = "tensor x: int8[1024] in @hbm\nbuffer t: int8[1024] x1 @registers+0\nload t{0}, x"
        grid = program(text, H100, f"grid i={instances} dispatch")
        assert shares(grid, H100).of(nth(grid, "load")).active == active


def test_a_copy_for_several_blocks_crosses_the_l2_once():
    text = """
    tensor x: int8[64, 1024] in @hbm
    buffer t: int8[1024] x1 @shared+0
    copy t{0}, x[i +: 1, 0 +: 1024] multicast=2
    """
    grid = program(text, H100, "grid i=4, j=4 persistent")
    share = shares(grid, machine(16, NONE)).of(nth(grid, "copy"))
    assert (share.cache, share.memory) == (0.5, 0.25)


def test_trips_that_depend_on_the_grid_count_on_average():
    # 1, 2, 3 and 4 trips: 2.5 KiB of x for each block, all different; w[0] is read 2.5 times.
    text = """
    tensor x: int8[64, 1024] in @hbm
    tensor w: int8[64, 1024] in @hbm
    tensor y: int8[4, 1024] out @hbm
    buffer t: int8[1024] x3 @registers+0
    loop k 1 + b {
        load t{0}, x[4*b + k +: 1, 0 +: 1024]
        load t{1}, w[0 +: 1, 0 +: 1024]
    }
    store y[b +: 1, 0 +: 1024], t{2}
    """
    grid = program(text, H100, "grid b=4 dispatch")
    known = shares(grid, machine(4, NONE))
    assert known.of(nth(grid, "load", 1)).memory == pytest.approx(1 / 4)
    # 4 KiB are stored, 10 + 2.5 read.
    assert known.of(nth(grid, "store")).written == pytest.approx(4 / 16.5)


@given(st.permutations(["i", "j", "k"]), st.integers(1, 20), st.sampled_from([NONE, 8 * KIB, 64 * KIB, HUGE]))
def test_parts_are_parts(order, cores, capacity):
    """Whatever the order: at least one fetch of each panel, at most one for each block; a larger L2 misses no more."""
    sizes = {"i": 4, "j": 3, "k": 5}
    grid = blocks(", ".join(f"{name}={sizes[name]}" for name in order), "i", "j")
    x, w = memory(grid, machine(cores, capacity))
    assert 4 / 60 - 1e-9 <= x <= 1
    assert 3 / 60 - 1e-9 <= w <= 1
    larger = memory(grid, machine(cores, 2 * capacity))
    assert larger[0] <= x + 1e-12
    assert larger[1] <= w + 1e-12


def walked(found: Program, chip: Machine, capacity: int, ways: int) -> list[float]:
    """The part of each load that memory moves, by walking through the waves with sets of panels: 1 KiB each."""
    values = list(points(found))
    waves = [values[i : i + chip.cores] for i in range(0, len(values), chip.cores)]
    loads = [nth(found, "load", 0), nth(found, "load", 1)]
    used = [[{load.operands[1].dims[0].start.at(v) for v in wave} for wave in waves] for load in loads]
    touched = [KIB * (len(wave) + sum(len(each[n]) for each in used)) for n, wave in enumerate(waves)]  # with stores
    parts = []
    for each in used:
        last: dict[int, int] = {}
        missed = 0.0
        for n, panels in enumerate(each):
            for panel in panels:
                between = sum(touched[last[panel] : n]) if panel in last else 0
                missed += 1 - poisson(ways * between / capacity, ways) if panel in last else 1
                last[panel] = n
        parts.append(missed / len(values))
    return parts


@given(
    st.permutations([("i", 3), ("j", 4), ("k", 2)]),
    st.tuples(*[st.tuples(*[st.integers(0, 3)] * 3)] * 2),
    st.integers(1, 13),
    st.integers(1, 40),
    st.sampled_from([1, 2, 16, 32]),
)
@settings(max_examples=60)
def test_random_grids_miss_what_one_counts_by_walking(sizes, factors, cores, kib, ways):
    x, w = (f"{i}*i + {j}*j + {k}*k" for i, j, k in factors)
    text = f"""
    tensor x: int8[64, 1024] in @hbm
    tensor w: int8[64, 1024] in @hbm
    tensor y: int8[3, 4, 2, 1024] out @hbm
    buffer t: int8[1024] x3 @registers+0
    load t{{0}}, x[{x} +: 1, 0 +: 1024]
    load t{{1}}, w[{w} +: 1, 0 +: 1024]
    store y[i +: 1, j +: 1, k +: 1, 0 +: 1024], t{{2}}
    """
    found = program(text, H100, f"grid {', '.join(f'{name}={size}' for name, size in sizes)} persistent")
    chip = machine(cores, kib * KIB, ways)
    assert memory(found, chip) == pytest.approx(walked(found, chip, kib * KIB, ways))
