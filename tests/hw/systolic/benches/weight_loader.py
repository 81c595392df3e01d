"""Bench of `weight_loader`: random tiles from a scratchpad in Python, row by row into their plane."""

import cocotb
import numpy as np
from tests.hw.bins import Bins
from tests.hw.signals import Engine, begin, command, lanes, noise, operand, packed, parameters, rounds

from presil.simulators.systolic.encoding import OPCODES
from presil.simulators.words import ERRORS

PARAMETERS = parameters()
R, C = PARAMETERS["Rows"], PARAMETERS["Columns"]
PLANES, BYTES = 3, 512


def shift(  # noqa: PLR0917 - the shape of one tile
    rows: int, columns: int, plane: int, address: int, stride: int, number: int = 0, space: str = "scratchpad"
):
    """The command; `stride` bytes from row to row."""
    into = operand("planes", 1, plane, (rows, columns), (columns, 1))
    return command(
        OPCODES["shift"], into, operand(space, 1, address, (rows, stride), (columns, 1)), number=number
    )  # fmt: skip


def engine(dut, memory: np.ndarray, rows: list) -> Engine:
    """`memory` [byte] int8 is read; each row that is shifted is appended to `rows`: (cycle, plane, weights)."""

    def serve() -> None:
        dut.read_data_i.value = packed([memory[a % BYTES] for a in lanes(dut.read_address_o, 32)], 8)

    def watch() -> None:
        if dut.shift_o.value:
            rows.append((bench.cycle, int(dut.shift_plane_o.value), lanes(dut.weights_o, 8, signed=True)))

    bench = Engine(dut, serve, watch)
    return bench


@cocotb.test()
async def random_tiles_shift_in(dut):
    await begin(dut)
    rng, rows, wanted, commands, gaps = noise(), [], [], [], []
    bins = Bins(rows=range(1, R + 1), columns=range(1, C + 1), plane=range(PLANES), padded=(0, 1), gap=(0, 1))
    memory = rng.integers(-128, 128, BYTES)
    for number in range(rounds()):
        k, n, plane = int(rng.integers(1, R + 1)), int(rng.integers(1, C + 1)), int(rng.integers(PLANES))
        stride = n + int(rng.integers(9))
        address = int(rng.integers(BYTES - R * (C + 9)))
        tile = np.zeros((R, C), int)
        for r in range(k):
            tile[r, :n] = memory[address + r * stride : address + r * stride + n]
        wanted += [(plane, row.tolist()) for row in tile]
        commands.append(shift(k, n, plane, address, stride, number))
        gaps.append(int(rng.integers(3)) * int(rng.integers(2)))
        bins.hit(rows=k, columns=n, plane=plane, padded=int(k < R), gap=min(gaps[-1], 1))
    await engine(dut, memory, rows).run(commands, gaps)
    assert [(plane, weights) for _, plane, weights in rows] == wanted
    bins.check()


@cocotb.test()
async def a_plane_takes_rows_cycles_whatever_its_tile(dut):
    """3 rows: accepted in cycle 0, read in 1 to 3, shifted in 2 to 4, signalled in 5; the next is accepted in 3."""
    await begin(dut)
    rows: list = []
    bench = engine(dut, np.ones(BYTES, int), rows)
    await bench.run([shift(k, 1, 0, 0, 1, k) for k in (R, 1, R)])
    first = bench.accepted[0]
    assert [t - first for t in bench.accepted] == [0, R, 2 * R]
    assert [t - first for t, *_ in rows] == list(range(2, 3 * R + 2))
    assert [t - first for t in bench.done] == [R + 2, 2 * R + 2, 3 * R + 2]


@cocotb.test()
async def what_is_no_shift_is_an_error(dut):
    await begin(dut)
    bench = engine(dut, np.ones(BYTES, int), [])
    assert await bench.error(command(OPCODES["drain"])) == ERRORS.index("opcode")
    assert await bench.error(shift(1, 1, 0, 0, 1, space="accumulator")) == ERRORS.index("operand")
    assert await bench.error(shift(1, 1, 0, 0, 1)) == ERRORS.index("none")
