"""Bench of `array`: rows through planes of weights, and products that stay, against numpy."""

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge, ReadOnly
from tests.hw.bins import Bins
from tests.hw.signals import begin, lanes, noise, packed, parameters, rounds

PARAMETERS = parameters()
R, C = PARAMETERS["Rows"], PARAMETERS["Columns"]
WEIGHTS, RESULTS = PARAMETERS["WeightPlanes"], PARAMETERS["ResultPlanes"]
LENGTH = R + C - 1  # cycles from x to its sums


class Feeder:
    """Drives the array a cycle at a time and keeps every row of sums, by cycle."""

    def __init__(self, dut):
        self.dut, self.cycle, self.sums = dut, 0, {}

    async def step(self, x=None, w=None, *, plane=0, clear=0, shift=None, shift_plane=0) -> int:
        """One cycle: x [R] enters, with w [C] if results stay, and weights `shift` [C]. Returns the cycle."""
        dut = self.dut
        dut.valid_i.value, dut.stationary_i.value = x is not None, w is not None
        dut.clear_i.value, dut.plane_i.value = clear, plane
        dut.x_i.value = packed(np.zeros(R) if x is None else x, 8)
        dut.w_i.value = packed(np.zeros(C) if w is None else w, 8)
        dut.shift_i.value, dut.shift_plane_i.value = shift is not None, shift_plane
        dut.weights_i.value = packed(np.zeros(C) if shift is None else shift, 8)
        await ReadOnly()
        self.sums[self.cycle] = lanes(dut.sums_o, 32, signed=True)
        await FallingEdge(dut.clk_i)
        self.cycle += 1
        return self.cycle - 1

    async def results(self, plane: int) -> np.ndarray:
        """[R, C] int32 of a plane."""
        rows = []
        for row in range(R):
            self.dut.result_plane_i.value, self.dut.result_row_i.value = plane, row
            await self.step()
            rows.append(lanes(self.dut.results_o, 32, signed=True))
        return np.array(rows, np.int32)


def drawn(rng, *shape: int) -> np.ndarray:
    """Random int8."""
    return rng.integers(-128, 128, shape)


@cocotb.test()
async def sums_leave_rows_plus_columns_minus_1_cycles_later(dut):
    """3 rows, 5 columns: x enters in cycle 0; its sums are there in cycle 7, not in 6 and not in 8."""
    await begin(dut)
    feeder, tile = Feeder(dut), np.arange(1, R * C + 1).reshape(R, C)
    for row in tile:
        await feeder.step(shift=row)
    entered = await feeder.step(np.arange(1, R + 1))
    for _ in range(LENGTH + 2):
        await feeder.step()
    wanted = (np.arange(1, R + 1) @ tile).tolist()
    assert [t - entered for t in range(entered, feeder.cycle) if feeder.sums[t] == wanted] == [LENGTH]
    assert all(feeder.sums[entered + t] == [0] * C for t in (LENGTH - 1, LENGTH + 1))


@cocotb.test()
async def rows_stream_while_another_plane_shifts_in(dut):
    await begin(dut)
    rng, feeder, wanted = noise(), Feeder(dut), {}
    bins = Bins(plane=range(WEIGHTS), rows=range(R, R + 4), bubble=(0, 1), shifting=(0, 1))
    tile = drawn(rng, R, C)
    for row in tile:
        await feeder.step(shift=row)
    free = dict.fromkeys(range(WEIGHTS), 0)  # cycle from which a plane may be shifted
    plane = 0
    for _ in range(rounds()):
        other, after, rows = (plane + 1) % WEIGHTS, drawn(rng, R, C), int(rng.integers(R, R + 4))
        coming, left = list(after), rows
        bins.hit(plane=plane, rows=rows)
        while left or coming:
            x = drawn(rng, R) if left and rng.integers(5) else None
            shift = coming.pop(0) if coming and feeder.cycle >= free[other] else None
            bins.hit(bubble=int(x is None), shifting=int(x is not None and shift is not None))
            entered = await feeder.step(x, plane=plane, shift=shift, shift_plane=other)
            if x is not None:
                left -= 1
                wanted[entered + LENGTH] = (x @ tile).tolist()
                free[plane] = entered + LENGTH
        plane, tile = other, after
    for _ in range(LENGTH):
        await feeder.step()
    assert {t: feeder.sums[t] for t in wanted} == wanted
    bins.check()


@cocotb.test()
async def products_stay_in_their_plane(dut):
    await begin(dut)
    rng, feeder = noise(1), Feeder(dut)
    results = np.zeros((RESULTS, R, C), np.int64)
    bins = Bins(plane=range(RESULTS), clear=(0, 1), inner=range(1, 8), close=(0, 1))
    for number in range(rounds()):
        plane, inner = int(rng.integers(RESULTS)), int(rng.integers(1, 8))
        clear = int(number < RESULTS or rng.integers(2))
        plane = number if number < RESULTS else plane
        bins.hit(plane=plane, clear=clear, inner=inner)
        x, w = drawn(rng, R, inner), drawn(rng, inner, C)
        for k in range(inner):
            entered = await feeder.step(x[:, k], w[k], plane=plane, clear=int(clear and k == 0))
        results[plane] = (0 if clear else results[plane]) + x @ w
        if rng.integers(3) == 0:
            # The corner element has its sum R + C - 1 cycles behind the last x.
            while feeder.cycle < entered + LENGTH:
                await feeder.step()
            assert np.array_equal(await feeder.results(plane), results[plane])
            bins.hit(close=1)
        else:
            bins.hit(close=0)
    for _ in range(LENGTH):
        await feeder.step()
    for plane in range(RESULTS):
        assert np.array_equal(await feeder.results(plane), results[plane])
    bins.check()
