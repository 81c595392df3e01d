"""Bench of `drain_engine`: random planes into random rows of an accumulator."""

import cocotb
import numpy as np
from tests.hw.bins import Bins
from tests.hw.signals import Engine, begin, command, lanes, noise, operand, packed, parameters, rounds

from presil.simulators.systolic.encoding import OPCODES
from presil.simulators.words import ERRORS

PARAMETERS = parameters()
R, C = PARAMETERS["Rows"], PARAMETERS["Columns"]
PLANES, ELEMENTS = 2, 256


def drain(  # noqa: PLR0917 - the shape of one drain
    rows: int, columns: int, plane: int, accumulate: int, address: int, stride: int, number: int = 0
):
    """The command; `address` and `stride` (from row to row) in elements."""
    into = operand("accumulator", 4, 4 * address, (rows, 4 * stride), (columns, 4))
    result = operand("results", 4, plane, (rows, 4 * columns), (columns, 4))
    return command(OPCODES["drain"], into, result, accumulate=accumulate, number=number)


def engine(dut, planes: np.ndarray, sums: np.ndarray) -> Engine:
    """`planes` [plane, row, column] int32 are read, `sums` [element] int32 are changed."""

    def serve() -> None:
        plane, row = int(dut.result_plane_o.value), int(dut.result_row_o.value)
        dut.results_i.value = packed(planes[plane, row], 32) if row < R else 0
        dut.sum_old_i.value = packed([sums[a % ELEMENTS] for a in lanes(dut.sum_address_o, 32)], 32)

    def watch() -> None:
        new, write = lanes(dut.sum_new_o, 32, signed=True), lanes(dut.sum_write_o, 1)
        for address, value, valid in zip(lanes(dut.sum_address_o, 32), new, write, strict=True):
            if valid:
                sums[address] = value

    return Engine(dut, serve, watch)


@cocotb.test()
async def random_planes_reach_their_rows(dut):
    await begin(dut)
    rng = noise()
    bins = Bins(rows=range(1, R + 1), columns=range(1, C + 1), accumulate=(0, 1), plane=range(PLANES), gap=(0, 1))
    planes = rng.integers(-(1 << 31), 1 << 31, (PLANES, R, C)).astype(np.int32)
    sums = rng.integers(-(1 << 31), 1 << 31, ELEMENTS).astype(np.int32)
    wanted, commands, gaps = sums.copy(), [], []
    for number in range(rounds()):
        rows, columns = int(rng.integers(1, R + 1)), int(rng.integers(1, C + 1))
        plane, accumulate, stride = int(rng.integers(PLANES)), int(rng.integers(2)), columns + int(rng.integers(4))
        address = int(rng.integers(ELEMENTS - R * stride))
        commands.append(drain(rows, columns, plane, accumulate, address, stride, number))
        gaps.append(int(rng.integers(3)) * int(rng.integers(2)))
        bins.hit(rows=rows, columns=columns, accumulate=accumulate, plane=plane, gap=min(gaps[-1], 1))
        for r in range(rows):
            there = slice(address + r * stride, address + r * stride + columns)
            wanted[there] = (wanted[there] if accumulate else 0) + planes[plane, r, :columns]
    await engine(dut, planes, sums).run(commands, gaps)
    assert np.array_equal(sums, wanted)
    bins.check()


@cocotb.test()
async def a_plane_takes_rows_cycles_whatever_its_tile(dut):
    """Accepted in cycle 0, rows in cycles 1 to R, the signal 2 behind the last; the next is accepted in cycle R."""
    await begin(dut)
    bench = engine(dut, np.ones((PLANES, R, C), np.int32), np.zeros(ELEMENTS, np.int32))
    await bench.run([drain(rows, 1, 0, 0, 0, 1, rows) for rows in (R, 1, R)])
    first = bench.accepted[0]
    assert [t - first for t in bench.accepted] == [0, R, 2 * R]
    assert [t - first for t in bench.done] == [R + 2, 2 * R + 2, 3 * R + 2]


@cocotb.test()
async def another_opcode_is_an_error(dut):
    await begin(dut)
    bench = engine(dut, np.ones((PLANES, R, C), np.int32), np.zeros(ELEMENTS, np.int32))
    assert await bench.error(command(OPCODES["matmul"])) == ERRORS.index("opcode")
    assert await bench.error(drain(1, 1, 0, 0, 0, 1)) == ERRORS.index("none")
