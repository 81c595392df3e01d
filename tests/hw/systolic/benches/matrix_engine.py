"""Bench of `matrix_engine`: random `matmul` and `mac` between memories and an array in Python."""

import cocotb
import numpy as np
from tests.hw.bins import Bins
from tests.hw.signals import Engine, begin, command, lanes, noise, operand, packed, parameters, rounds

from presil.simulators.systolic.encoding import OPCODES
from presil.simulators.words import ERRORS

PARAMETERS = parameters()
R, C = PARAMETERS["Rows"], PARAMETERS["Columns"]
LENGTH = R + C - 1  # cycles from x to its sums
PLANES, BYTES, ELEMENTS = 2, 1024, 256


class Surroundings:
    """What the engine stands between: a scratchpad, an accumulator, an array with `weights` and `results`."""

    def __init__(self, dut, rng: np.random.Generator) -> None:
        self.dut = dut
        self.memory = rng.integers(-128, 128, BYTES)
        self.sums = rng.integers(-(1 << 31), 1 << 31, ELEMENTS).astype(np.int32)
        self.weights = rng.integers(-128, 128, (PLANES, R, C))
        self.results = np.zeros((PLANES, R, C), np.int32)
        self.leaving = [[0] * C] * LENGTH
        self.engine = Engine(dut, self.serve, self.watch)

    def serve(self) -> None:
        dut = self.dut
        dut.x_data_i.value = packed([self.memory[a % BYTES] for a in lanes(dut.x_address_o, 32)], 8)
        dut.w_data_i.value = packed([self.memory[a % BYTES] for a in lanes(dut.w_address_o, 32)], 8)
        dut.sum_old_i.value = packed([self.sums[a % ELEMENTS] for a in lanes(dut.sum_address_o, 32)], 32)
        dut.sums_i.value = packed(self.leaving.pop(0), 32)

    def watch(self) -> None:
        dut = self.dut
        x, plane = np.array(lanes(dut.x_o, 8, signed=True)), int(dut.plane_o.value)
        if dut.valid_o.value and dut.stationary_o.value:
            product = np.outer(x, lanes(dut.w_o, 8, signed=True)).astype(np.int32)
            self.results[plane] = product + (0 if dut.clear_o.value else self.results[plane])
        self.leaving.append((x @ self.weights[plane % PLANES]).tolist())
        new, write = lanes(dut.sum_new_o, 32, signed=True), lanes(dut.sum_write_o, 1)
        for address, value, valid in zip(lanes(dut.sum_address_o, 32), new, write, strict=True):
            if valid:
                self.sums[address] = value

    def tile(self, address: int, rows: int, stride: int, columns: int) -> np.ndarray:
        """Bytes [rows, columns] of the scratchpad."""
        return self.memory[address + stride * np.arange(rows)[:, None] + np.arange(columns)]


def matmul(  # noqa: PLR0917 - the shape of one product
    rows: int, inner: int, outputs: int, plane: int, accumulate: int, x: tuple[int, int], into: tuple[int, int],
    number: int = 0,
):  # fmt: skip
    """x and `into` are (address, stride), in bytes and in elements."""
    return command(
        OPCODES["matmul"],
        operand("accumulator", 4, 4 * into[0], (rows, 4 * into[1]), (outputs, 4)),
        operand("scratchpad", 1, x[0], (rows, x[1]), (inner, 1)),
        operand("planes", 1, plane, (inner, outputs), (outputs, 1)),
        accumulate=accumulate,
        number=number,
    )


def mac(  # noqa: PLR0917 - the shape of one product
    rows: int, inner: int, outputs: int, plane: int, accumulate: int, x: tuple[int, int], w: tuple[int, int],
    number: int = 0,
):  # fmt: skip
    """x and w are (address, stride) in bytes."""
    return command(
        OPCODES["mac"],
        operand("results", 4, plane, (rows, 4 * outputs), (outputs, 4)),
        operand("scratchpad", 1, x[0], (rows, x[1]), (inner, 1)),
        operand("scratchpad", 1, w[0], (inner, w[1]), (outputs, 1)),
        accumulate=accumulate,
        number=number,
    )


@cocotb.test()
async def random_products(dut):
    await begin(dut)
    rng = noise()
    around = Surroundings(dut, rng)
    sums, results, commands, gaps = around.sums.copy(), around.results.copy(), [], []
    bins = Bins(
        change=[(a, b) for a in ("matmul", "mac") for b in ("matmul", "mac")],
        use=[(op, plane, acc) for op in ("matmul", "mac") for plane in range(PLANES) for acc in (0, 1)],
        rows=range(1, R + 1), outputs=range(1, C + 1), inner=(1, R, R + 1, 7), many=(0, 1), gap=(0, 1),
        same_sums=("one behind the other",),
    )  # fmt: skip
    before, before_sums = "matmul", -1
    for number in range(3 * rounds()):
        op = str(rng.choice(["matmul", "mac"]))
        plane, accumulate, n = int(rng.integers(PLANES)), int(rng.integers(2)), int(rng.integers(1, C + 1))
        rows = int(rng.integers(1, R + 1 if op == "mac" else 9))
        inner = int(rng.integers(1, 9 if op == "mac" else R + 1))
        x, w = (int(rng.integers(BYTES // 2)), inner + int(rng.integers(9))), (BYTES // 2, n + int(rng.integers(9)))
        into = (int(rng.integers(ELEMENTS - 9 * (C + 3)) if rng.integers(2) else 0), n + int(rng.integers(3)))
        left = around.tile(x[0], rows, x[1], inner)
        if op == "matmul":
            commands.append(matmul(rows, inner, n, plane, accumulate, x, into, number))
            product = (left @ around.weights[plane, :inner, :n]).astype(np.int32)
            there = into[0] + into[1] * np.arange(rows)[:, None] + np.arange(n)
            sums[there] = product + (sums[there] if accumulate else 0)
            if accumulate and before_sums == into[0]:
                bins.hit(same_sums="one behind the other")
        else:
            commands.append(mac(rows, inner, n, plane, accumulate, x, w, number))
            product = np.zeros((R, C), np.int32)
            product[:rows, :n] = left @ around.tile(w[0], inner, w[1], n)
            results[plane] = product + (results[plane] if accumulate else 0)
        before_sums = into[0] if op == "matmul" else -1
        gaps.append(int(rng.integers(4)) * int(rng.integers(2)))
        bins.hit(change=(before, op), use=(op, plane, accumulate), outputs=n, inner=inner, gap=min(gaps[-1], 1))
        bins.hit(rows=rows, many=int(rows > R))
        before = op
    await around.engine.run(commands, gaps)
    assert np.array_equal(around.sums, sums)
    assert np.array_equal(around.results, results)
    bins.check()


@cocotb.test()
async def cycles_of_products(dut):
    """3 rows, 5 columns. A product is taken for as many cycles as vectors go in: 4 rows of x, 4; inner length 7, 7.

    A command is registered in cycle 0, its last vector read in cycle 4, in the array in cycle 5, out R + C - 1 = 7
    later, in 12: written at its end, and signalled in it. For `mac` the sums stand after 7 + 1 + 7 = 15.
    """
    await begin(dut)
    around = Surroundings(dut, noise())
    engine = around.engine
    x, w, into = (0, 9), (BYTES // 2, C), (0, C)
    await engine.run([matmul(4, R, C, 0, 0, x, into, 1), matmul(4, 1, 1, 1, 1, x, into, 2), mac(R, 7, C, 0, 0, x, w, 3),
                      mac(1, 7, 1, 1, 1, x, w, 4), matmul(1, R, C, 0, 0, x, into, 5)])  # fmt: skip
    first = engine.accepted[0]
    assert [t - first for t in engine.accepted] == [0, 4, 8, 15, 22]
    steps = [4, 4, 7, 7, 1]
    assert [d - a for a, d in zip(engine.accepted, engine.done, strict=True)] == [n + 1 + LENGTH for n in steps]


@cocotb.test()
async def single_rows_add_up_in_consecutive_cycles(dut):
    """What one cycle writes, the next reads: nothing lies between two rows of the same sums."""
    await begin(dut)
    around = Surroundings(dut, noise(2))
    many, x = 9, around.tile(0, 1, R, R)
    before = around.sums[:C].copy()
    await around.engine.run([matmul(1, R, C, n % 2, 1, (0, R), (0, C), n) for n in range(many)])
    assert [b - a for a, b in zip(around.engine.accepted, around.engine.accepted[1:], strict=False)] == [1] * (many - 1)
    both = 5 * (x @ around.weights[0])[0] + 4 * (x @ around.weights[1])[0]
    assert np.array_equal(around.sums[:C], before + both.astype(np.int32))


@cocotb.test()
async def what_is_no_product_is_an_error(dut):
    await begin(dut)
    engine = Surroundings(dut, noise()).engine
    wrong = command(OPCODES["matmul"], operand("accumulator", 4, 0, (1, 4)), operand("accumulator", 4, 0, (1, 4)))
    assert await engine.error(command(OPCODES["shift"])) == ERRORS.index("opcode")
    assert await engine.error(wrong) == ERRORS.index("operand")
    assert await engine.error(mac(1, 1, 1, 0, 0, (0, 1), (0, 1))) == ERRORS.index("none")
