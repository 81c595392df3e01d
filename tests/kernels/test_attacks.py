"""Each kind of kernel that fools a harness, refused with its reason, beside a right kernel that looks alike.

The numbers are those of the list of kinds in the comments below; what a systolic program cannot commit is left out.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from presil.kernels.audit import audit
from presil.kernels.checking import Reason, check_text
from presil.kernels.emitters import emitter
from presil.kernels.operators import admission, matmul
from presil.kernels.operators.registry import operator, parse_workload
from presil.kernels.trials import Task
from presil.simulators.assembly import parse, render
from presil.simulators.errors import BadInput
from presil.simulators.machine import load_machine
from presil.simulators.simulate import random_inputs, simulate

from ..simulators.pipelines import MATMUL, without
from .attack_programs import (
    ADD_WORKLOAD,
    CONV_WORKLOAD,
    MIDDLE,
    RELU_LINES,
    RELU_WORKLOAD,
    SOFTMAX_LINES,
    SOFTMAX_WORKLOAD,
    TAPS,
    add,
    conv,
    relu,
    softmax,
)

GEMMINI, TPU = load_machine("gemmini-16"), load_machine("tpu-v4")
MATMUL_WORKLOAD = "matmul:m=64,n=64,k=96"
LOAD, RELU, STORE_HEAD, STORE_TAIL = RELU_LINES


def changed(old: str, new: str, text: str = MATMUL) -> str:
    assert old in text, old
    return text.replace(old, new, 1)


def verdict(text: str, workload: str = MATMUL_WORKLOAD, machine=GEMMINI, **options):
    return check_text(text, parse_workload(workload), machine, seeds=1, **options)


CONTROLS = {
    "matmul": (MATMUL, MATMUL_WORKLOAD, GEMMINI),
    "relu with a ragged tail": (relu(*RELU_LINES), RELU_WORKLOAD, TPU),
    "add in fp32": (add("add cb{0}, xb{0}, zb{0}"), ADD_WORKLOAD, TPU),
    "softmax": (softmax(*SOFTMAX_LINES), SOFTMAX_WORKLOAD, TPU),
    "convolution, padding left out": (conv(TAPS), CONV_WORKLOAD, GEMMINI),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_pass(name):
    found = verdict(*CONTROLS[name])
    assert found.right, found.reasons
    assert found.facts["other_poison"] is True


LOAD_X = "load xb{24*m + 6*n + k}, x[0 +: 1, 32*m +: 32, 16*k +: 16] wait(x_free, 1) signal(x_full, 1)\n            }"
LOAD_X_AGAIN = "\nload xb{24*m + 6*n + 5}, x[0 +: 1, 32*m +: 32, 64 +: 16] wait(x_free, 1) signal(x_full, 1)"
DECLARED = 'program "none" on "gemmini-16"\nworkload "matmul:m=64,n=64,k=96"\n' + "\n".join(
    line for line in MATMUL.splitlines() if line.startswith("tensor")
)
NOTHING = DECLARED + "\nbuffer b: int8[1] @scratchpad+0\nstream s unit 0 {\n fill b{0} value=0\n}\n"
MATMULS = {
    "1 does nothing": (NOTHING, {"unstored"}),
    "2 stores a tile that nothing wrote": (
        DECLARED + "\nbuffer acc: int32[64, 64] @accumulator+0\nstream s unit 0 {\n store y, acc{0}\n}\n",
        {"uninitialised"},
    ),
    "3 zeroes its inputs": (
        DECLARED + "\nbuffer b: int8[64, 96] @scratchpad+0\nstream s unit 0 {\n store x, b{0}\n}\n",
        {"input-written"},
    ),
    "4 reads out of range": (changed("x[0 +: 1, 32*m +: 32, 16*k", "x[0 +: 1, 32*m + 8 +: 32, 16*k"), {"bounds"}),
    "6 256 bytes more scratchpad": (changed("@scratchpad+1024", "@scratchpad+261888"), {"capacity"}),
    "7 writes half of the output": (changed("32*m +: 32, 16*n +: 16], acc", "32*m +: 32, 0 +: 16], acc"), {"unstored"}),
    "13 skips the last inner tile, at equal work": (
        changed(LOAD_X, LOAD_X + LOAD_X_AGAIN).replace("loop k 6", "loop k 5", 1),
        {"numbers"},
    ),
    "15 is for another shape": (changed("m=64,n=64,k=96", "m=64,n=64,k=48"), {"workload"}),
    "15 tensors of another shape": (changed("x: int8[1, 64, 96]", "x: int8[1, 128, 96]"), {"tensors"}),
    "17 takes all rows to be alike": (changed("x[0 +: 1, 32*m +: 32", "x[0 +: 1, 0 +: 32"), {"numbers"}),
    "19 a missing wait before a read": (without(MATMUL, "wait(x_full, 1)"), {"race", "leftover"}),
    "20 a missing wait before a slot is used again": (without(MATMUL, "wait(x_free, 1)"), {"race", "leftover"}),
    "24 takes weights to be there from the run before": (
        changed("            load wb", "            fill wb{0} value=0 signal(x_free, 1)\n load wb"),
        {"semaphore-shared"},
    ),
    "26 a transfer of no length": (changed("16*k +: 16] wait(x", "16*k +: 0] wait(x"), {"illegal"}),
    "26 a negative stride": (changed("16*k +: 16] wait(x", "16*k +: 16 : -1] wait(x"), {"illegal"}),
    "26 an instruction without a price": (changed("shift plane", "teleport plane"), {"illegal"}),
    "26 a semaphore that wraps": (changed("x_free = 2", "x_free = 18446744073709551618"), {"illegal"}),
    "26 a transfer that fills more than it moves": (
        changed("w[0 +: 1, 16*k +: 16, 16*n +: 16]", "w[0 +: 1, 16*k +: 8, 16*n +: 16]"),
        {"unsupported"},
    ),
    "27 no program at all": ("\0" * 100, {"illegal"}),
    "27 cut off in the middle": (MATMUL[: len(MATMUL) // 2], {"illegal"}),
    "27 a huge text": (MATMUL + "#" * (5 << 20), {"illegal"}),
    "27 deep nesting": (MATMUL + "stream z {\n" + "".join(f"loop v{i} 2 {{\n" for i in range(10_000)), {"illegal"}),
    "27 10^12 trips": (changed("loop t 48", "loop t 1000000000000"), {"illegal"}),
    "27 10^9 trips": (changed("loop t 48", "loop t 1000000000"), {"limit"}),
}  # fmt: skip


@pytest.mark.parametrize("name", MATMULS)
def test_wrong_matmuls(name):
    text, kinds = MATMULS[name]
    found = verdict(text)
    assert not found.right
    assert {reason.kind for reason in found.reasons} == kinds, found.reasons


def test_24_weights_left_from_the_run_before():
    """Without the loads of w, and with its tiles taken to be there from the start."""
    loads = MATMUL[MATMUL.index("stream loadw") : MATMUL.index("stream weights")]
    resident = MATMUL.replace(loads, "").replace("wait(w_full, 1) ", "").replace(" signal(w_free, 1)", "")
    found = verdict(resident)
    assert [r.kind for r in found.reasons] == ["uninitialised"]
    assert "of which element [0, 0] was never written" in found.reasons[0].detail


NAN = ("scale zb{0}, xb{0} factor=0.0", "reciprocal yb{0}, zb{0}", "multiply yb{0}, yb{0}, zb{0}")
OTHERS = {
    "5 NaN everywhere": (relu(LOAD, *NAN, STORE_HEAD, STORE_TAIL), RELU_WORKLOAD, {"numbers"}),
    "9 zeros for small probabilities": (
        softmax("load xb{0}, x", "fill xb{0} value=0", "store y, xb{0}"),
        SOFTMAX_WORKLOAD,
        {"numbers"},
    ),
    "11 a constant": (relu(LOAD, "fill yb{0} value=1", STORE_HEAD, STORE_TAIL), RELU_WORKLOAD, {"numbers"}),
    "11 its input": (
        relu(LOAD, STORE_HEAD.replace("yb", "xb"), STORE_TAIL.replace("yb", "xb")),
        RELU_WORKLOAD,
        {"numbers"},
    ),
    "12 bf16 inside fp32": (
        add("add cb{0}, xb{0}, zb{0}", "cast hb{0}, cb{0}", "cast cb{0}, hb{0}"),
        ADD_WORKLOAD,
        {"numbers"},
    ),
    "14 no ragged tail": (relu(LOAD, RELU, STORE_HEAD), RELU_WORKLOAD, {"unstored"}),
    "14 the tail is made up": (
        relu(LOAD, RELU, STORE_HEAD, STORE_TAIL.replace("yb{0}[8", "yb{0}[0")),
        RELU_WORKLOAD,
        {"numbers"},
    ),
    "25 does not fetch its input": (
        relu("fill yb{0} value=0", STORE_HEAD, STORE_TAIL),
        RELU_WORKLOAD,
        {"numbers", "traffic"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_wrong_vector_programs(name):
    text, workload, kinds = OTHERS[name]
    found = verdict(text, workload, TPU)
    assert {reason.kind for reason in found.reasons} == kinds, found.reasons


def test_8_a_right_run_before_leaves_nothing_behind():
    assert verdict(MATMUL).right
    assert [r.kind for r in verdict(NOTHING).reasons] == ["unstored"]


def test_9_and_10_a_task_that_a_trivial_kernel_passes_is_refused():
    class Loose(matmul.Matmul):
        def error_bound(self, workload, inputs):
            return {"y": np.full(self.tensors(workload)[-1].shape, 1e9)}

    class Weightless(matmul.Matmul):
        def inputs(self, workload, seed, pattern):
            return {name: array * (name != "w") for name, array in super().inputs(workload, seed, pattern).items()}

    workload = parse_workload(MATMUL_WORKLOAD)
    admission.admit(matmul.Matmul(), workload)
    for task in (Loose(), Weightless()):
        with pytest.raises(BadInput, match="a kernel that returns zeros passes its check"):
            admission.admit(task, workload)


def test_13_skipping_the_last_inner_tile_is_too_little_work():
    last = MATMUL[MATMUL.index("        matmul acc{t}, xb{6*t + 5}") : MATMUL.index("    }\n}\nstream store")]
    half = last.replace("xb{6*t + 5}", "xb{6*t + 5}[0 +: 32, 0 +: 8]")
    half = half.replace("plane{6*t + 5}", "plane{6*t + 5}[0 +: 8, 0 +: 16]")
    found = verdict(MATMUL.replace(last, half))
    assert [r.kind for r in found.reasons] == ["numbers", "work"]
    # Half of one of six inner tiles is missing: 11/12 of 64 * 64 * 96.
    assert "executes 360,448 multiply-adds" in found.reasons[1].detail
    assert "needs 393,216" in found.reasons[1].detail


def test_15_a_table_of_answers_is_no_program():
    table = "\n".join(f"fill acc{{0}} value={i}" for i in range(20_000))
    found = verdict(MATMUL + "stream table unit 0 {\n" + table + "\n}\n")
    assert [r.kind for r in found.reasons] == ["illegal"]


def test_16_the_small_program_is_not_the_answer_to_the_big_one():
    found = verdict(MATMUL, "matmul:m=1024,n=64,k=96")
    assert found.reasons[0].kind == "workload"
    assert {r.kind for r in found.reasons} == {"workload", "tensors"}


def test_18_a_3x3_convolution_done_as_1x1():
    found = verdict(conv([MIDDLE]), CONV_WORKLOAD)
    assert [r.kind for r in found.reasons] == ["numbers", "work", "traffic"]
    assert [r.kind for r in verdict(conv(TAPS[:-1]), CONV_WORKLOAD).reasons] == ["numbers", "work", "traffic"]


def test_21_the_end_is_when_the_last_store_has_landed():
    """Nothing waits for the store; yet with memory slower by 1 ms, the load and the store each cost 1 ms more."""
    program = parse(relu(LOAD, RELU, STORE_HEAD, STORE_TAIL))
    memory = TPU.memories["hbm"]
    slow = TPU.model_copy(update={"memories": {"hbm": memory.model_copy(update={"latency": memory.latency + 1e-3})}})
    added = simulate(program, slow).timing.seconds - simulate(program, TPU).timing.seconds
    assert added >= 2e-3


def test_22_work_on_an_idle_engine_takes_time():
    """A hundred thousand relus beside the matmul, on the vector unit that it does not use."""
    extra = (
        "stream beside unit 0 {\n    fill sb{0} value=1 signal(beside, 1)\n    relu sb{0}, sb{0} wait(beside, 1)\n"
        "    loop i 100000 {\n        relu sb{0}, sb{0}\n    }\n}\n"
    )
    data = "buffer sb: int8[32, 16] @scratchpad+4096\nsemaphore beside = 0\nsemaphore x_full"
    text = changed("semaphore x_full", data) + extra
    longer, plain = simulate(parse(text), GEMMINI).timing, simulate(parse(MATMUL), GEMMINI).timing
    assert longer.engines["vector"].busy_ticks <= longer.ticks
    assert longer.ticks > longer.engines["vector"].busy_ticks > plain.ticks


def test_23_runs_do_not_know_of_each_other():
    program = parse(MATMUL)
    one, two = random_inputs(program, 1), random_inputs(program, 2)
    first, _, again = (
        simulate(program, GEMMINI, mode="full", inputs=inputs, poison_seed=i)
        for i, inputs in enumerate((one, two, one))
    )
    assert first.outputs["y"].tobytes() == again.outputs["y"].tobytes()
    assert first.timing.ticks == again.timing.ticks


def test_25_no_time_under_the_bound():
    """8 * 64 * 96 bytes in and 64 * 64 * 4 out at 16 GB/s and 1 GHz take at least 1,792 cycles."""
    program, workload = parse(MATMUL), parse_workload(MATMUL_WORKLOAD)
    task = Task(program, GEMMINI, operator("matmul"), workload)
    work = task.operator.work(workload)
    timing = simulate(program, GEMMINI).timing
    assert list(audit(task, work, timing, work.multiply_adds)) == []
    (reason,) = audit(task, work, dataclasses.replace(timing, ticks=1024), work.multiply_adds)
    assert reason.kind == "bound"
    assert "takes 1,024 ticks; no program can take less" in reason.detail


def test_28_bad_text_is_a_verdict_not_an_exception():
    for text in ("", "{", "program", 'program "x" on "y"\nworkload "z"\n', MATMUL.replace("int8", "int7")):
        assert not verdict(text).right


def test_29_a_tensor_lies_where_the_machine_keeps_it_not_where_it_is_fetched_fastest():
    """On tpu-v1 weights come over 34 GB/s of DDR3; the host's link may be idle, but it does not hold them."""
    tpu = load_machine("tpu-v1")
    workload = parse_workload("matmul:m=8,n=64,k=64,dtype=int8")
    emits = emitter("matmul", "systolic")
    space = emits.space(workload, tpu)
    schedule = next(s for s in map(space.unrank, range(space.count())) if emits.legal(workload, tpu, s) is None)
    text = render(emits.lower(workload, tpu, schedule))
    assert check_text(text, workload, tpu).right
    moved = check_text(text.replace("const @ddr3", "const @host"), workload, tpu)
    assert moved.reasons == (Reason("tensors", "tensor w", "lies in host; tpu-v1 keeps const tensors in ddr3"),)
