"""Small programs as text: right ones, and the parts to make wrong ones of."""

from __future__ import annotations

from collections.abc import Sequence


def chain(machine: str, workload: str, data: Sequence[str], lines: Sequence[str]) -> str:
    """A program of one stream in which each instruction waits for the one before. `data` declares tensors, buffers."""
    text = [f'program "chain" on "{machine}"', f'workload "{workload}"', *data]
    text += [f"semaphore s{i} = 0" for i in range(len(lines) - 1)]
    text.append("stream all unit 0 {")
    for i, line in enumerate(lines):
        wait = f" wait(s{i - 1}, 1)" if i else ""
        signal = f" signal(s{i}, 1)" if i + 1 < len(lines) else ""
        text.append(f"    {line}{wait}{signal}")
    return "\n".join([*text, "}", ""])


RELU_WORKLOAD = "elementwise:kind=relu,rows=10,columns=128,dtype=fp32"
RELU_DATA = (
    "tensor x: fp32[10, 128] in @hbm",
    "tensor y: fp32[10, 128] out @hbm",
    "buffer xb: fp32[10, 128] @scratchpad+0",
    "buffer yb: fp32[10, 128] @scratchpad+8192",
    "buffer zb: fp32[10, 128] @scratchpad+16384",
)
# Rows in two parts, 8 and a ragged tail of 2.
RELU_LINES = (
    "load xb{0}, x",
    "relu yb{0}, xb{0}",
    "store y[0 +: 8, 0 +: 128], yb{0}[0 +: 8, 0 +: 128]",
    "store y[8 +: 2, 0 +: 128], yb{0}[8 +: 2, 0 +: 128]",
)


def relu(*lines: str) -> str:
    """A program for the relu workload."""
    return chain("tpu-v4", RELU_WORKLOAD, RELU_DATA, lines)


ADD_WORKLOAD = "elementwise:kind=add,rows=8,columns=128,dtype=fp32"


def add(*lines: str) -> str:
    """A program that adds x and z into cb by `lines`, which leave the sum in `cb`."""
    data = [f"tensor {name}: fp32[8, 128] in @hbm" for name in ("x", "z")]
    data += ["tensor y: fp32[8, 128] out @hbm"]
    data += [f"buffer {name}: fp32[8, 128] @scratchpad+{4096 * i}" for i, name in enumerate(("xb", "zb", "cb"))]
    data += ["buffer hb: bf16[8, 128] @scratchpad+12288"]
    return chain("tpu-v4", ADD_WORKLOAD, data, ("load xb{0}, x", "load zb{0}, z", *lines, "store y, cb{0}"))


SOFTMAX_WORKLOAD = "softmax:rows=8,columns=128,dtype=fp32"
SOFTMAX_LINES = (
    "load xb{0}, x",
    "max mb{0}, xb{0} accumulate=0",
    "subtract xb{0}, xb{0}, mb{0}",
    "exp xb{0}, xb{0}",
    "sum mb{0}, xb{0} accumulate=0",
    "reciprocal mb{0}, mb{0}",
    "multiply xb{0}, xb{0}, mb{0}",
    "store y, xb{0}",
)


def softmax(*lines: str) -> str:
    """A program for the softmax workload."""
    data = (
        "tensor x: fp32[8, 128] in @hbm",
        "tensor y: fp32[8, 128] out @hbm",
        "buffer xb: fp32[8, 128] @scratchpad+0",
        "buffer mb: fp32[8, 1] @scratchpad+8192",
    )
    return chain("tpu-v4", SOFTMAX_WORKLOAD, data, lines)


CONV_WORKLOAD = "conv2d:n=1,h=8,w=8,c=16,f=16,r=3,s=3,padding=1"


def conv(taps: Sequence[tuple[int, int]]) -> str:
    """A 3 x 3 convolution of an 8 x 8 image, padded by 1, of only the given taps. All nine, middle first: right."""
    data = (
        "tensor x: int8[1, 8, 8, 16] in @dram",
        "tensor w: int8[3, 3, 16, 16] const @dram",
        "tensor y: int32[1, 8, 8, 16] out @dram",
        "buffer xb: int8[8, 8, 16] @scratchpad+0",
        "buffer wb: int8[16, 16] @scratchpad+1024",
        "buffer plane: int8[16, 16] @planes+0",
        "buffer acc: int32[8, 8, 16] @accumulator+0",
    )
    lines = ["load xb{0}, x"]
    for number, (r, s) in enumerate(taps):
        # Output i meets input i + r - 1, where there is one: the padding is left out.
        rows, columns = ((max(1 - t, 0), max(t - 1, 0), 8 - abs(t - 1)) for t in (r, s))
        target = f"acc{{0}}[{rows[0]} +: {rows[2]}, {columns[0]} +: {columns[2]}, 0 +: 16]"
        source = f"xb{{0}}[{rows[1]} +: {rows[2]}, {columns[1]} +: {columns[2]}, 0 +: 16]"
        lines += [
            f"load wb{{0}}, w[{r} +: 1, {s} +: 1, 0 +: 16, 0 +: 16]",
            "shift plane{0}, wb{0}",
            f"matmul {target}, {source}, plane{{0}} accumulate={min(number, 1)}",
        ]
    return chain("gemmini-16", CONV_WORKLOAD, data, [*lines, "store y, acc{0}"])


MIDDLE = (1, 1)
TAPS = (MIDDLE, *((r, s) for r in range(3) for s in range(3) if (r, s) != MIDDLE))
