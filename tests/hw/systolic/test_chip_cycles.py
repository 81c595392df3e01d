"""Cycle by cycle, by hand, on the RTL: an array of 3 rows and 5 columns, inner length 7.

What tests/simulators/test_systolic_cycles.py says of the event model, with the cycles that the registers of the chip
take. An engine that accepts a command in cycle 0 works on it from cycle 1. Its signal comes

  shift, drain   3 + 2 = 5 later: 3 rows, then 2 cycles;
  matmul         M + 8: a cycle to register x, 7 through the array (R + C - 1), and M of work;
  mac            K + 8: likewise;
  vector         work + 4 + 2: the latency of the unit, then 2 cycles;

and a stream that waits for it is accepted one cycle after the signal.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from presil.simulators.assembly import parse
from presil.simulators.encoding import encode
from presil.simulators.rtl.run import run_rtl
from presil.simulators.simulate import simulate
from presil.simulators.words import ERRORS, pack

from .chips import chip, observed

pytestmark = pytest.mark.slow  # whole chips are built, under cocotb and under the C++ loop

# y[4, 5] = x[4, 7] @ w[7, 5] >> 8: inner length 7 is three planes of 3, 3 and 1 rows.
WEIGHT_STATIONARY = """
program "ws" on "tiny"
workload "none"
tensor x: int8[4, 7] in @dram
tensor w: int8[7, 5] const @dram
tensor y: int8[4, 5] out @dram
buffer xb: int8[4, 7] x1 @scratchpad+0
buffer wb: int8[7, 5] x1 @scratchpad+64
buffer yb: int8[4, 5] x1 @scratchpad+128
buffer p: int8[3, 5] xPLANES @planes+0
buffer acc: int32[4, 5] x1 @accumulator+0
semaphore x_full = 0
semaphore w_full = 0
semaphore p_full = 0
semaphore p_free = PLANES
semaphore sum_full = 0
semaphore y_full = 0
stream load {
    load xb{0}, x signal(x_full)
    load wb{0}, w signal(w_full)
}
stream shift {
    shift p{0}, wb{0}[0 +: 3, 0 +: 5] wait(w_full) wait(p_free) signal(p_full)
    shift p{1}, wb{0}[3 +: 3, 0 +: 5] wait(p_free) signal(p_full)
    shift p{2}[0 +: 1, 0 +: 5], wb{0}[6 +: 1, 0 +: 5] wait(p_free) signal(p_full)
}
stream matrix {
    matmul acc{0}, xb{0}[0 +: 4, 0 +: 3], p{0} accumulate=0 wait(x_full) wait(p_full) signal(p_free)
    matmul acc{0}, xb{0}[0 +: 4, 3 +: 3], p{1} accumulate=1 wait(p_full) signal(p_free)
    matmul acc{0}, xb{0}[0 +: 4, 6 +: 1], p{2}[0 +: 1, 0 +: 5] accumulate=1 wait(p_full) signal(sum_full)
}
stream vector { requantize yb{0}, acc{0} multiplier=1 shift=8 wait(sum_full) signal(y_full) }
stream store { store y, yb{0} wait(y_full) }
"""

# y[5, 5] = x[5, 7] @ w[7, 5] >> 8: five rows are two planes of results, of 3 and 2 rows.
OUTPUT_STATIONARY = """
program "os" on "tiny"
workload "none"
tensor x: int8[5, 7] in @dram
tensor w: int8[7, 5] const @dram
tensor y: int8[5, 5] out @dram
buffer xb: int8[5, 7] x1 @scratchpad+0
buffer wb: int8[7, 5] x1 @scratchpad+64
buffer yb: int8[5, 5] x1 @scratchpad+128
buffer r: int32[3, 5] xPLANES @results+0
buffer acc: int32[5, 5] x1 @accumulator+0
semaphore x_full = 0
semaphore w_full = 0
semaphore r_full = 0
semaphore r_free = PLANES
semaphore sum_full = 0
semaphore y_full = 0
stream load {
    load xb{0}, x signal(x_full)
    load wb{0}, w signal(w_full)
}
stream matrix {
    mac r{0}, xb{0}[0 +: 3, 0 +: 7], wb{0} accumulate=0 wait(x_full) wait(w_full) wait(r_free) signal(r_full)
    mac r{1}[0 +: 2, 0 +: 5], xb{0}[3 +: 2, 0 +: 7], wb{0} accumulate=0 wait(r_free) signal(r_full)
}
stream drain {
    drain acc{0}[0 +: 3, 0 +: 5], r{0} accumulate=0 wait(r_full) signal(r_free)
    drain acc{0}[3 +: 2, 0 +: 5], r{1}[0 +: 2, 0 +: 5] accumulate=0 wait(r_full) signal(sum_full)
}
stream vector { requantize yb{0}, acc{0} multiplier=1 shift=8 wait(sum_full) signal(y_full) }
stream store { store y, yb{0} wait(y_full) }
"""


def played(text: str, planes: int, folder, zero: str) -> tuple[dict, dict]:
    """(accepted, done) of each engine, counted from the first command of engine `zero`, after the numbers were right.

    The same chip under the C++ clock loop must take the same cycles and give the same bytes.
    """
    machine = chip(weight_planes=planes, result_planes=planes)
    program = parse(text.replace("PLANES", str(planes)))
    rng = np.random.default_rng(3)
    inputs = {t.name: rng.integers(-128, 128, t.shape, np.int8) for t in program.tensors if t.role != "out"}
    product = inputs["x"].astype(np.int64) @ inputs["w"]
    wanted = np.clip((product + 128) >> 8, -128, 127)
    found = observed(program, machine, inputs, folder)
    assert found["error"] == [0, 0, 0]
    fast = run_rtl(program, machine, inputs=inputs)
    for outputs in (found["outputs"], fast.outputs, simulate(program, machine, mode="full", inputs=inputs).outputs):
        assert np.array_equal(outputs["y"], wanted)
    assert fast.timing.cycles == found["cycles"]
    first = found["accepted"][zero][0]
    return tuple({k: [t - first for t in v] for k, v in found[kind].items()} for kind in ("accepted", "done"))


def test_weight_stationary_with_two_planes(tmp_path):
    accepted, done = played(WEIGHT_STATIONARY, 2, tmp_path, "weights")
    # 0   plane 0, signalled in 5. 3: plane 1 behind it, signalled in 8.
    # 18  the first product has left (below), so 19: plane 2, signalled in 24.
    assert (accepted["weights"], done["weights"]) == ([0, 3, 19], [5, 8, 24])
    # 6   4 rows of x, signalled in 6 + 4 + 8 = 18. 10: the array is free, plane 1 there since 9; signalled in 22.
    # 25  plane 2: signalled in 37.
    assert (accepted["matrix"], done["matrix"]) == ([6, 10, 25], [18, 22, 37])
    # 38  20 elements over 3 lanes are 7 cycles: signalled in 38 + 7 + 6 = 51.
    assert (accepted["vector"], done["vector"], accepted["store"]) == ([38], [51], [52])


def test_weight_stationary_with_one_plane(tmp_path):
    # Each plane waits for the product before it: 5, 6 + 12 = 18, 19 + 5 = 24, 25 + 12 = 37, 38 + 5 = 43, 44 + 12 = 56.
    accepted, done = played(WEIGHT_STATIONARY.replace("p{2}", "p{0}").replace("p{1}", "p{0}"), 1, tmp_path, "weights")
    assert (accepted["weights"], done["weights"]) == ([0, 19, 38], [5, 24, 43])
    assert (accepted["matrix"], done["matrix"]) == ([6, 25, 44], [18, 37, 56])


def test_output_stationary_with_two_planes(tmp_path):
    accepted, done = played(OUTPUT_STATIONARY, 2, tmp_path, "matrix")
    # 0   7 inner elements, signalled in 7 + 8 = 15. 7: into the other plane; two rows take as long; signalled in 22.
    assert (accepted["matrix"], done["matrix"]) == ([0, 7], [15, 22])
    # 16  plane 0 drains, signalled in 21. 23: plane 1, in 28.
    assert (accepted["drain"], done["drain"]) == ([16, 23], [21, 28])
    # 29  25 elements over 3 lanes are 9 cycles: signalled in 29 + 9 + 6 = 44.
    assert (accepted["vector"], done["vector"], accepted["store"]) == ([29], [44], [45])


def test_output_stationary_with_one_plane(tmp_path):
    # The second product waits until the first has drained: 15, 16 + 5 = 21, 22 + 15 = 37, 38 + 5 = 43.
    accepted, done = played(OUTPUT_STATIONARY.replace("r{1}", "r{0}"), 1, tmp_path, "matrix")
    assert (accepted["matrix"], done["matrix"]) == ([0, 22], [15, 37])
    assert (accepted["drain"], done["drain"]) == ([16, 38], [21, 43])


@pytest.mark.parametrize("opcode", [0, 3])
def test_an_illegal_word_stops_the_chip(opcode, tmp_path):
    """Opcode 0, and a fill for the matrix engine: an error code, the stream and the word, and nothing issued after."""
    machine = chip()
    program = parse(WEIGHT_STATIONARY.replace("PLANES", "2"))
    words = encode(program, machine).streams[2]
    bad = [f"{pack(replace(w, opcode=opcode) if pc == 1 else w):x}" for pc, w in enumerate(words)]
    inputs = {"x": np.ones((4, 7), np.int8), "w": np.ones((7, 5), np.int8)}
    found = observed(program, machine, inputs, tmp_path, stream2=bad)
    assert found["error"] == [ERRORS.index("opcode"), 2, 1]
    assert found["accepted"]["store"] == []
