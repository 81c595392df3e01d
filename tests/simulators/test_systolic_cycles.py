"""Cycle by cycle, by hand: arrays of 3 rows and 5 columns, inner length 7, so that no two sizes are alike.

The machine (`tiny.py`): memory at 1 byte a cycle and 20 cycles to the first byte, nothing to pay for issue, semaphores
and transfer set-up. Rows R = 3, columns C = 5. An array is taken for as many cycles as rows (or inner elements) go in;
the last sum comes out R + C - 2 = 6 cycles after the last one went in. A plane shifts in, and drains, in R = 3 cycles.
"""

from __future__ import annotations

import numpy as np
import pytest

from presil.simulators.assembly import parse
from presil.simulators.errors import Undefined
from presil.simulators.machine import load_machine
from presil.simulators.program import Affine, Buffer, Dim, Instruction, Program, Region, Tensor
from presil.simulators.simulate import simulate
from presil.simulators.systolic.cost import cost
from presil.simulators.timeline import Timeline
from presil.simulators.timing import TICKS_PER_CYCLE

from .tiny import memory, tiny

SLOW = {"dram": memory(bandwidth=1e9)}

# y[4, 5] = x[4, 7] @ w[7, 5]: inner length 7 is three planes of 3, 3 and 1 rows.
WEIGHT_STATIONARY = """
program "ws" on "tiny"
workload "none"
tensor x: int8[4, 7] in @dram
tensor w: int8[7, 5] const @dram
tensor y: int32[4, 5] out @dram
buffer xb: int8[4, 7] x1 @scratchpad+0
buffer wb: int8[7, 5] x1 @scratchpad+64
buffer p: int8[3, 5] xPLANES @planes+0
buffer acc: int32[4, 5] x1 @accumulator+0
semaphore x_full = 0
semaphore w_full = 0
semaphore p_full = 0
semaphore p_free = PLANES
semaphore y_full = 0
stream loadx { load xb{0}, x signal(x_full) }
stream loadw unit 1 { load wb{0}, w signal(w_full) }
stream shift {
    shift p{0}, wb{0}[0 +: 3, 0 +: 5] wait(w_full) wait(p_free) signal(p_full)
    shift p{1}, wb{0}[3 +: 3, 0 +: 5] wait(p_free) signal(p_full)
    shift p{2}[0 +: 1, 0 +: 5], wb{0}[6 +: 1, 0 +: 5] wait(p_free) signal(p_full)
}
stream matrix {
    matmul acc{0}, xb{0}[0 +: 4, 0 +: 3], p{0} accumulate=0 wait(x_full) wait(p_full) signal(p_free)
    matmul acc{0}, xb{0}[0 +: 4, 3 +: 3], p{1} accumulate=1 wait(p_full) signal(p_free)
    matmul acc{0}, xb{0}[0 +: 4, 6 +: 1], p{2}[0 +: 1, 0 +: 5] accumulate=1 wait(p_full) signal(y_full)
}
stream store { store y, acc{0} wait(y_full) }
"""

# y[5, 5] = x[5, 7] @ w[7, 5]: five rows are two planes of results, of 3 and 2 rows.
OUTPUT_STATIONARY = """
program "os" on "tiny"
workload "none"
tensor x: int8[5, 7] in @dram
tensor w: int8[7, 5] const @dram
tensor y: int32[5, 5] out @dram
buffer xb: int8[5, 7] x1 @scratchpad+0
buffer wb: int8[7, 5] x1 @scratchpad+64
buffer r: int32[3, 5] xPLANES @results+0
buffer acc: int32[5, 5] x1 @accumulator+0
semaphore x_full = 0
semaphore w_full = 0
semaphore r_full = 0
semaphore r_free = PLANES
semaphore y_full = 0
stream loadx { load xb{0}, x signal(x_full) }
stream loadw unit 1 { load wb{0}, w signal(w_full) }
stream matrix {
    mac r{0}, xb{0}[0 +: 3, 0 +: 7], wb{0} accumulate=0 wait(x_full) wait(w_full) wait(r_free) signal(r_full)
    mac r{1}[0 +: 2, 0 +: 5], xb{0}[3 +: 2, 0 +: 7], wb{0} accumulate=0 wait(r_free) signal(r_full)
}
stream drain {
    drain acc{0}[0 +: 3, 0 +: 5], r{0} accumulate=0 wait(r_full) signal(r_free)
    drain acc{0}[3 +: 2, 0 +: 5], r{1}[0 +: 2, 0 +: 5] accumulate=0 wait(r_full) signal(y_full)
}
stream store { store y, acc{0} wait(y_full) }
"""


def played(text: str, planes: int):
    """(cycles, {engine: [(op, first cycle, end)]}, the timing), after both modes and the numbers were found right."""
    machine = tiny(memories=SLOW, array={"weight_planes": planes, "result_planes": planes})
    program = parse(text.replace("PLANES", str(planes)))
    timeline = Timeline()
    simulate(program, machine, timeline=timeline)
    noise = np.random.default_rng(3)
    inputs = {t.name: noise.integers(-128, 128, t.shape, np.int8) for t in program.tensors if t.role != "out"}
    full = simulate(program, machine, mode="full", inputs=inputs)
    wanted = inputs["x"].astype(np.int32) @ inputs["w"].astype(np.int32)
    assert np.array_equal(full.outputs["y"], wanted)
    assert simulate(program, machine).timing.ticks == full.timing.ticks
    busy = {
        engine: [(op, start / TICKS_PER_CYCLE, end / TICKS_PER_CYCLE) for start, end, op, _ in slices]
        for (_, engine, kind), slices in timeline._tracks.items()
        if kind == "busy"
    }
    return full.timing.cycles, busy, full.timing


def stalls(timing, engine: str) -> dict[str, float]:
    return {reason: ticks / TICKS_PER_CYCLE for reason, ticks in timing.engines[engine].stall_ticks.items()}


def test_weight_stationary_with_two_planes():
    cycles, busy, timing = played(WEIGHT_STATIONARY, planes=2)
    # 0    x: 28 bytes take the link until 28; the last byte is there 20 later, at 48.
    assert busy["load0"] == [("load", 0, 28)]
    # 28   w: its own channel is free, but the link is not before 28. 35 bytes, until 63; there at 83.
    assert busy["load1"] == [("load", 28, 63)]
    # 83   w has come: plane 0 shifts in, 3 cycles, until 86. 86: plane 1 behind it, until 89.
    # 96   plane 0 is free again once the first product has left the array (below): plane 2, until 99.
    assert busy["weights"] == [("shift", 83, 86), ("shift", 86, 89), ("shift", 96, 99)]
    # 86   x is there since 48, plane 0 now: 4 rows go in until 90; the last sum is out at 86 + 4 + 6 = 96.
    # 90   plane 1 is there since 89, the array free at 90: until 94; out at 100.
    # 99   plane 2: until 103; out at 99 + 4 + 6 = 109.
    assert busy["matrix"] == [("matmul", 86, 90), ("matmul", 90, 94), ("matmul", 99, 103)]
    # 109  80 bytes of y: the link until 189, the last byte in memory at 209.
    assert busy["store"] == [("store", 109, 189)]
    assert cycles == 209
    # The array: 48 for x; 38 more for its plane (86) and 5 for the last one (94 to 99); done from 103 on.
    assert stalls(timing, "matrix") == {"x_full": 48, "p_full": 43, "done": 106}
    assert stalls(timing, "weights") == {"w_full": 83, "p_free": 7, "done": 110}
    assert stalls(timing, "load1") == {"link dram": 28, "done": 146}
    assert timing.multiply_adds == 4 * 7 * 5
    assert timing.traffic_bytes == {"dram": 28 + 35 + 80}


def test_weight_stationary_with_one_plane():
    # As above until 86. Then each plane waits until the product before it has left: 86 + 10 = 96, 99 + 10 = 109.
    cycles, busy, timing = played(WEIGHT_STATIONARY, planes=1)
    assert busy["weights"] == [("shift", 83, 86), ("shift", 96, 99), ("shift", 109, 112)]
    assert busy["matrix"] == [("matmul", 86, 90), ("matmul", 99, 103), ("matmul", 112, 116)]
    assert cycles == 112 + 4 + 6 + 80 + 20 == 222
    assert stalls(timing, "matrix") == {"x_full": 48, "p_full": 38 + 9 + 9, "done": 106}


def test_output_stationary_with_two_planes():
    cycles, busy, timing = played(OUTPUT_STATIONARY, planes=2)
    # 0    x: 35 bytes, the link until 35, there at 55. 35: w, until 70, there at 90.
    assert (busy["load0"], busy["load1"]) == ([("load", 0, 35)], [("load", 35, 70)])
    # 90   rows 0 to 2: 7 inner elements go in until 97; the last result stands at 90 + 7 + 6 = 103.
    # 97   rows 3 and 4 into the other plane: until 104; stands at 110. Two rows take as long as three.
    assert busy["matrix"] == [("mac", 90, 97), ("mac", 97, 104)]
    # 103  plane 0 drains until 106; 110: plane 1 until 113.
    assert busy["drain"] == [("drain", 103, 106), ("drain", 110, 113)]
    # 113  100 bytes of y, until 213; in memory at 233.
    assert busy["store"] == [("store", 113, 213)]
    assert cycles == 233
    assert stalls(timing, "matrix") == {"x_full": 55, "w_full": 35, "done": 129}
    assert stalls(timing, "drain") == {"r_full": 107, "done": 120}


def test_output_stationary_with_one_plane():
    # The second product waits until the first has drained, at 103 + 3 = 106: until 113, there at 119, drains until 122.
    cycles, busy, timing = played(OUTPUT_STATIONARY, planes=1)
    assert busy["matrix"] == [("mac", 90, 97), ("mac", 106, 113)]
    assert busy["drain"] == [("drain", 103, 106), ("drain", 119, 122)]
    assert cycles == 122 + 100 + 20 == 242
    assert stalls(timing, "matrix") == {"x_full": 55, "w_full": 35, "r_free": 9, "done": 129}


# Each row: what starts when, worked out below, and the cycle in which its result can be read.
#   fill xb: 12 bytes over the 8-byte port, 0 to 2.  fill wb: 15 bytes, 2 to 4.
#   shift: 4 to 7.  matmul of 4 rows: starts at 7, out at 7 + 4 + 6 = 17.
#   mac of 3 inner elements: starts at 4, stands at 4 + 3 + 6 = 13.  drain: 13 to 16.
#   load: 12 bytes at 4 bytes a cycle, 3 cycles, and 20 to the first byte: 23.
PROBES = {
    "fill": (2, "", "relu out{0}, xb{0}[0 +: 3, 0 +: 1]"),
    "load": (23, "", "relu out{0}, lb{0}[0 +: 3, 0 +: 1]"),
    "shift": (7, "", "matmul acc{0}, xb{0}, p{0} accumulate=0"),
    "matmul": (17, "matmul acc{0}, xb{0}, p{0} accumulate=0 wait(p_full)", "relu sums{0}, acc{0}"),
    "mac": (
        13,
        "mac r{0}, xb{0}[0 +: 3, 0 +: 3], wb{0} accumulate=0 wait(w_full)",
        "drain acc{0}[0 +: 3, 0 +: 5], r{0}",
    ),
}
TIGHT = """
program "tight" on "tiny"
workload "none"
tensor x: int8[4, 3] in @dram
buffer xb: int8[4, 3] x1 @scratchpad+0
buffer wb: int8[3, 5] x1 @scratchpad+64
buffer lb: int8[4, 3] x1 @scratchpad+128
buffer clock: int8[1, 1] x1 @scratchpad+192
buffer out: int8[3, 1] x1 @scratchpad+256
buffer p: int8[3, 5] x1 @planes+0
buffer r: int32[3, 5] x1 @results+0
buffer acc: int32[4, 5] x1 @accumulator+0
buffer sums: int32[4, 5] x1 @accumulator+256
semaphore go = 0
semaphore w_full = 0
semaphore p_full = 0
stream data {{
    fill xb{{0}} value=1
    fill wb{{0}} value=1 signal(w_full, 2)
}}
stream clock unit 2 {{
    {ticking}
    fill clock{{0}} value=0 signal(go)
}}
stream far unit 1 {{ load lb{{0}}, x }}
stream shift {{ shift p{{0}}, wb{{0}} wait(w_full) signal(p_full) }}
stream made {{ {made} }}
stream probe {{ {probe} wait(go) }}
"""


def probed(name: str, cycle: int):
    """Reads the result of `name` in an instruction that starts in `cycle`."""
    _, made, probe = PROBES[name]
    ticking = f"loop i {cycle - 1} {{ fill clock{{0}} value=0 }}" if cycle > 1 else ""
    text = TIGHT.format(ticking=ticking, made=made, probe=probe)
    if not made:
        text = text.replace("stream made {  }\n", "")
    return simulate(parse(text), tiny(dma={"load_channels": 3}), mode="full")


@pytest.mark.parametrize("name", PROBES)
def test_a_result_can_be_read_in_its_cycle_and_not_one_cycle_sooner(name):
    cycle = PROBES[name][0]
    probed(name, cycle)
    with pytest.raises(
        Undefined, match=r"uninitialised at .*is read where nothing was written yet, or while its write"
    ):
        probed(name, cycle - 1)


def priced(op: str, shapes: dict[str, tuple[int, ...]], machine, spaces: dict[str, str]):
    """The cost of `op` on whole buffers of these shapes."""
    buffers = tuple(
        Buffer(name, "int32" if space in {"results", "accumulator"} else "int8", shapes[name], 1, space, 0)
        for name, space in spaces.items()
    )
    program = Program("p", machine.name, "none", (), buffers, (), ())
    return cost(Instruction(op, tuple(Region(name, Affine()) for name in shapes)), 0, program, machine)


def test_a_product_of_4_by_4_by_4_takes_10_cycles_on_4_by_4():
    # SCALE-Sim's RTL validation, output-stationary, results left in place (SCALE-Sim issue 125); with the drain
    # 2R + C + K - 2 = 14.
    machine = tiny(rows=4, columns=4)
    shapes = {"r": (4, 4), "x": (4, 4), "w": (4, 4)}
    mac = priced("mac", shapes, machine, {"r": "results", "x": "scratchpad", "w": "scratchpad"})
    drain = priced("drain", {"a": (4, 4), "r": (4, 4)}, machine, {"a": "accumulator", "r": "results"})
    assert mac.latency == 10 * TICKS_PER_CYCLE
    assert mac.latency + drain.latency == 14 * TICKS_PER_CYCLE


def test_a_weight_tile_of_the_first_tpu_takes_1349_cycles():
    # Jouppi et al., ISCA 2017: 256 x 256 bytes at 34 GB/s and 700 MHz; 65,536 * 0.7 / 34 = 1,349.27 cycles.
    machine = load_machine("tpu-v1")
    w = Tensor("w", "int8", (1, 4096, 4096), "const", "ddr3")
    wb = Buffer("wb", "int8", (256, 256), 4, "weights", 0)
    program = Program("p", "tpu-v1", "none", (w,), (wb,), (), ())
    source = Region("w", None, (Dim(Affine(), 1), Dim(Affine(256), 256), Dim(Affine(512), 256)))
    price = cost(Instruction("load", (Region("wb", Affine()), source)), 1, program, machine)
    assert price.occupancy // TICKS_PER_CYCLE == 1349
    assert price.links == (("ddr3", price.occupancy),)
    assert price.traffic == (("ddr3", 65536),)
