"""What transfers, arrays and vector work cost: each check carries its formula, worked out in cycles."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.simulators.family import Cost
from presil.simulators.formats import size_bytes
from presil.simulators.program import Affine, Buffer, Count, Dim, Instruction, Program, Region, Tensor
from presil.simulators.systolic.cost import contiguous_runs, cost
from presil.simulators.timing import TICKS_PER_CYCLE

from .tiny import memory, tiny


def region(
    sizes: tuple[int, ...], steps: tuple[int, ...] | None = None, name: str = "x", slot: Affine | None = None
) -> Region:
    pairs = zip(sizes, steps or (1,) * len(sizes), strict=True)
    return Region(name, slot, tuple(Dim(Affine(), size, step) for size, step in pairs))


def transfer(
    shape, sizes, steps=None, *, op="load", machine=None, dtype="int8", space="scratchpad", signals=(), unit=0
) -> Cost:
    """The price of moving a region of a tensor of `shape` to or from a buffer of its sizes."""
    tensor = Tensor("x", dtype, shape, "in" if op == "load" else "out", "dram")
    buffer = Buffer("b", dtype, sizes, 1, space, 0)
    program = Program("p", "tiny", "none", (tensor,), (buffer,), (), ())
    local, remote = Region("b", Affine()), region(sizes, steps)
    operands = (local, remote) if op == "load" else (remote, local)
    return cost(Instruction(op, operands, signals=signals), unit, program, machine or tiny())


def cycles(price: Cost) -> tuple[float, float]:
    return price.occupancy / TICKS_PER_CYCLE, price.latency / TICKS_PER_CYCLE


def test_the_link_bounds_a_long_transfer():
    # 240 bytes at 4 a cycle; the port takes 8 a cycle; 20 cycles to the first byte.
    price = transfer((4, 60), (4, 60))
    assert cycles(price) == (60, 80)
    assert price.links == (("dram", 60 * TICKS_PER_CYCLE),)
    assert price.traffic == (("dram", 240),)
    assert price.engine == "load0"


def test_the_port_bounds_a_fast_memory():
    machine = tiny(memories={"dram": memory(bandwidth=64e9)})
    price = transfer((4, 60), (4, 60), machine=machine)
    assert cycles(price) == (30, 50)  # 240 bytes at 8 a cycle
    assert price.links == (("dram", 240 * TICKS_PER_CYCLE // 64),)  # others may use the link meanwhile


def test_set_up_bounds_many_short_rows():
    # 10 rows of 4 bytes: 7 to set up and 3 for each row beyond the first, 34; the link needs only 10. The last row is
    # asked for 27 cycles behind the first, which is 7 behind the start; it moves for 1 and is there 20 later.
    machine = tiny(dma={"setup": 7, "row_setup": 3})
    price = transfer((10, 9), (10, 4), machine=machine)
    assert cycles(price) == (34, 7 + 27 + 1 + 20)
    assert price.links == (("dram", 10 * TICKS_PER_CYCLE),)


def test_outstanding_bytes_bound_a_far_memory():
    # A burst of 1 byte takes the link for 1/4 cycle, is there 20 cycles later, and one more is asked for a cycle behind
    # that: 21.25. Little's law: 16 bytes in 21.25 cycles, so 240 bytes take 318.75. The last, asked for behind 14
    # such rounds and 15 bursts, ends its burst at 14 * 21.25 + 16 / 4 = 301.5.
    assert cycles(transfer((4, 60), (4, 60), machine=tiny(dma={"in_flight_bytes": 16}))) == (318.75, 301.5 + 20)


def test_efficiency_lengthens_the_link():
    assert cycles(transfer((4, 60), (4, 60), machine=tiny(memories={"dram": memory(efficiency=0.5)}))) == (120, 140)


def test_short_runs_cost_whole_bursts():
    # 10 rows of 4 bytes touch 10 bursts of 32.
    price = transfer((10, 9), (10, 4), machine=tiny(memories={"dram": memory(burst_bytes=32)}))
    assert price.traffic == (("dram", 320),)
    assert price.links == (("dram", 80 * TICKS_PER_CYCLE),)
    # One run of 40 bytes touches two.
    whole = transfer((10, 4), (10, 4), machine=tiny(memories={"dram": memory(burst_bytes=32)}))
    assert whole.traffic == (("dram", 64),)


def test_a_store_takes_the_store_engine_and_the_same_link():
    price = transfer((4, 60), (4, 60), op="store")
    assert (price.engine, cycles(price)) == ("store", (60, 80))


def test_channels_are_engines_of_their_own():
    assert transfer((4,), (4,), unit=1).engine == "load1"
    assert transfer((4,), (4,), machine=tiny(dma={"load_channels": 1})).engine == "load"


def test_weights_move_in_whole_tiles_where_the_machine_says_so():
    # A tile of 3 x 5 bytes; 4 x 6 weights touch 2 x 2 of them.
    machine = tiny(weight_buffer=256, weight_tile=15)
    assert transfer((4, 6), (4, 6), machine=machine, space="weights").traffic == (("dram", 60),)
    assert transfer((4, 6), (4, 6), machine=machine).traffic == (("dram", 24),)
    # Each of 2 x 3 kernel positions is tiles of its own: 6 times as many.
    assert transfer((2, 3, 4, 6), (2, 3, 4, 6), machine=machine, space="weights").traffic == (("dram", 6 * 60),)


def test_a_tile_of_a_wider_format_moves_all_of_its_bytes():
    # A full tile of 3 x 5 bf16 weights is 30 bytes, whatever the machine says of its int8 tiles.
    machine = tiny(weight_buffer=256, weight_tile=15)
    assert transfer((3, 5), (3, 5), machine=machine, space="weights", dtype="bf16").traffic == (("dram", 30),)


RUNS = [
    ((4, 6), (4, 6), None, (1, 24)),  # the whole tensor is one run
    ((4, 6), (2, 6), None, (1, 12)),  # whole rows too
    ((4, 6), (4, 5), None, (4, 5)),
    ((4, 6), (1, 5), None, (1, 5)),
    ((4, 6), (4, 3), (1, 2), (12, 1)),  # every second element: each is a run
    ((4, 6), (2, 6), (2, 1), (2, 6)),  # every second row
    ((2, 4, 6), (2, 4, 6), None, (1, 48)),
    ((2, 4, 6), (2, 3, 6), None, (2, 18)),
    ((2, 4, 6), (2, 1, 6), None, (2, 6)),
    ((5, 1, 6), (3, 1, 6), None, (1, 18)),
]


@pytest.mark.parametrize(("shape", "sizes", "steps", "wanted"), RUNS)
@pytest.mark.parametrize("dtype", ["int8", "fp32"])
def test_contiguous_runs(shape, sizes, steps, wanted, dtype):
    tensor = Tensor("x", dtype, shape, "in", "dram")
    assert contiguous_runs(region(sizes, steps), tensor) == (wanted[0], wanted[1] * size_bytes(dtype))


@given(st.data())
def test_contiguous_runs_are_those_one_counts(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    sizes = tuple(data.draw(st.integers(1, extent)) for extent in shape)
    steps = tuple(
        data.draw(st.integers(1, max(1, (extent - 1) // max(1, size - 1)))) if size > 1 else 1
        for extent, size in zip(shape, sizes, strict=True)
    )
    addresses = [0]
    stride = 1
    for extent, size, step in reversed(list(zip(shape, sizes, steps, strict=True))):
        addresses = [i * step * stride + a for i in range(size) for a in addresses]
        stride *= extent
    breaks = sum(b != a + 1 for a, b in itertools.pairwise(addresses))
    runs, length = contiguous_runs(region(sizes, steps), Tensor("x", "int8", shape, "in", "dram"))
    assert runs * length == len(addresses)
    assert runs >= breaks + 1  # never fewer; more only where rows happen to touch across a gap in the region


def on_chip(op: str, *operands: tuple[str, str, tuple[int, ...]], machine=None, unit: int = 0, signals=()) -> Cost:
    """The price of `op` on whole buffers (space, dtype, shape)."""
    buffers = tuple(Buffer(f"b{i}", dtype, shape, 1, space, 0) for i, (space, dtype, shape) in enumerate(operands))
    program = Program("p", "tiny", "none", (), buffers, (), ())
    regions = tuple(Region(b.name, Affine()) for b in buffers)
    return cost(Instruction(op, regions, signals=signals), unit, program, machine or tiny())


def matmul(rows: int, inner: int = 3, outputs: int = 5, dtype: str = "int8", machine=None) -> Cost:
    acc = "int32" if dtype == "int8" else "fp32"
    return on_chip(
        "matmul",
        ("accumulator", acc, (rows, outputs)),
        ("scratchpad", dtype, (rows, inner)),
        ("planes", dtype, (inner, outputs)),
        machine=machine,
    )


def test_a_product_takes_its_rows_whatever_part_of_the_array_it_uses():
    assert cycles(matmul(17)) == (17, 17 + 3 + 5 - 2)
    assert cycles(matmul(17, 1, 1)) == cycles(matmul(17))
    assert matmul(17, 2, 4).multiply_adds == 17 * 2 * 4


def test_a_format_at_half_the_rate_takes_twice_as_long():
    assert cycles(matmul(17, dtype="bf16")) == (34, 34 + 6)


def test_issue_and_semaphores_are_paid_for():
    machine = tiny(issue=4, semaphore=3)
    assert cycles(matmul(17, machine=machine)) == (17, 17 + 6 + 4)
    assert cycles(matmul(1, machine=machine)) == (4, 1 + 6 + 4)  # never taken for less than the issue of the next
    signalled = on_chip(
        "relu", ("scratchpad", "int8", (1, 5)), ("scratchpad", "int8", (1, 5)), machine=machine, signals=(Count("s"),)
    )
    assert cycles(signalled) == (4, 4 + 4 + 3)
    # 8 bytes take the link for 2 cycles, and the channel for the 4 until the next can be issued.
    assert cycles(transfer((8,), (8,), machine=machine, signals=(Count("s"),))) == (4, 2 + 20 + 4 + 3)


def test_vector_work_is_paid_by_the_largest_operand():
    # 5 lanes: 22 sums take 5 cycles, of which 2 rows are left; 2 more in flight.
    price = on_chip("sum", ("scratchpad", "fp32", (2, 1)), ("scratchpad", "fp32", (2, 11)))
    assert cycles(price) == (5, 7)
    assert price.engine == "vector"
    assert cycles(on_chip("sync")) == (1, 2)  # nothing is free


def test_fill_is_paid_by_the_port():
    assert cycles(on_chip("fill", ("scratchpad", "int8", (3, 11)))) == (5, 5)  # 33 bytes at 8 a cycle


def test_arrays_are_engines_of_their_own():
    machine = tiny(array={"count": 2})
    plane = ("planes1", "int8", (3, 5)), ("scratchpad", "int8", (3, 5))
    assert on_chip("shift", *plane, machine=machine, unit=1).engine == "weights1"


@given(st.integers(1, 50), st.integers(1, 50), st.sampled_from([1, 4, 64]), st.sampled_from([0, 3]))
def test_no_transfer_beats_its_link_or_is_free(rows, row, burst, setup):
    machine = tiny(memories={"dram": memory(burst_bytes=burst)}, dma={"setup": setup, "row_setup": 1})
    price = transfer((rows, row + 1), (rows, row), machine=machine)
    assert price.latency >= price.occupancy >= price.links[0][1] >= rows * row * TICKS_PER_CYCLE / 4
    assert price.traffic[0][1] >= rows * row
