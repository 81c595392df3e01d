"""GPU kernels to be attacked: what is chosen for each right one, and changes of its text that make it wrong."""

from __future__ import annotations

MATMUL = {"rows": 64, "columns": 64, "inner": 64, "stages": 2, "consumers": 1, "order": "m", "group": 2, "cluster": 2}
MATMUL |= {"split": 1, "tail": 0}
ATTENTION = {"rows": 64, "keys": 64, "stages": 2, "consumers": 1, "pack": 0, "outer": "heads"}
CONV = {"images": 1, "height": 4, "width": 16, "columns": 32, "inner": 16, "stages": 3, "consumers": 1}
CONTROLS: dict[str, tuple[str, dict[str, int | str]]] = {
    "persistent": ("matmul:m=256,n=128,k=256,dtype=bf16,out=bf16", {**MATMUL, "place": "persistent"}),
    "consumers": (
        "matmul:m=256,n=128,k=256,dtype=bf16,out=bf16",
        {**MATMUL, "rows": 128, "consumers": 2, "group": 1, "cluster": 1, "place": "dispatch"},
    ),
    "rescaled": (
        "matmul:m=70,n=100,k=130,dtype=int8,out=int8,bias=yes,activation=relu",
        {**MATMUL, "inner": 64, "group": 1, "cluster": 1, "place": "dispatch"},
    ),
    "conv": (
        "conv2d:n=1,h=12,w=16,c=32,f=64,r=3,s=3,padding=1,dtype=bf16,out=bf16",
        {**CONV, "place": "dispatch", "order": "n", "cluster": 1},
    ),
    "attention": (
        "attention:heads=4,kv_heads=2,q=128,kv=200,head=64,dtype=bf16",
        {**ATTENTION, "ahead": 0, "first": "early"},
    ),
    "causal": (
        "attention:heads=2,kv_heads=1,q=128,kv=256,head=64,dtype=bf16,causal=true",
        {**ATTENTION, "ahead": 1, "first": "late"},
    ),
    "long": (
        "attention:heads=1,kv_heads=1,q=64,kv=1000,head=64,dtype=bf16",
        {**ATTENTION, "ahead": 0, "first": "early"},
    ),
    "decode": (
        "attention:heads=8,kv_heads=2,q=1,kv=150,head=64,dtype=bf16,causal=true",
        {**ATTENTION, "rows": 16, "ahead": 0, "pack": 1, "first": "early"},
    ),
}

# The control, the kind of what is found, the changes.
MUTANTS: dict[str, tuple[str, str, tuple[tuple[str, str], ...]]] = {
    "tiles are multiplied before they are there": ("persistent", "race", ((" wait(full0, 2)", ""),)),
    "only one of two tiles is waited for": ("persistent", "race", (("wait(full0, 2)", "wait(full0, 1)"),)),
    "a slot is overwritten while it is read": ("persistent", "race", ((" wait(empty0, 1)", ""),)),
    "one consumer of two is not waited for": ("consumers", "race", ((" wait(empty1, 1)", ""),)),
    "a ring says it has a slot more": (
        "consumers",
        "race",
        (
            ("empty0 = 2", "empty0 = 3"),
            ("empty1 = 2", "empty1 = 3"),
        ),
    ),
    "the sum is stored before its last step": ("persistent", "race", (("wait(summed0, 4)", "wait(summed0, 3)"),)),
    "the sum is stored at once": ("consumers", "race", ((" wait(summed0, 4)", ""),)),
    "the next sum begins while the last is taken": ("persistent", "leftover", (("sync wait(taken0, 1)", "sync"),)),
    "the next output is made while the last is stored": ("persistent", "race", ((" wait(stored0, 1)", ""),)),
    "an output is stored while it is made": ("consumers", "race", ((" wait(out0, 1)", ""),)),
    "the bias is added before it is there": ("rescaled", "race", ((" wait(biased0, 1)", ""),)),
    "scores are read before they are there": ("attention", "race", ((" wait(scored0, 1)", ""),)),
    "weights are multiplied while they are made": ("attention", "race", ((" wait(weighed0, 1)", ""),)),
    "the output is scaled before its last sum": (
        "attention",
        "race",
        (("scale0{0} wait(summed0, 1)\n    cast out0", "scale0{0}\n    cast out0"),),
    ),
    "x of the step before": ("persistent", "race", (("acc0{0}, xs{k}", "acc0{0}, xs{k + 1}"),)),
    "keys of the step after": ("attention", "race", (("ks{j} accumulate", "ks{j + 1} accumulate"),)),
    "keys for values": ("attention", "race", (("p0{0}, vs{j}", "p0{0}, ks{j}"),)),
    "scores of the block after": ("causal", "race", (("max most0{0}, s0{j}", "max most0{0}, s0{j + 1}"),)),
    "both tiles in one slot": (
        "persistent",
        "race",
        (
            ("copy xs{k}", "copy xs{0}"),
            ("xs{k}, ws", "xs{0}, ws"),
        ),
    ),
    "two rings overlap by a row": ("persistent", "race", (("x2 @shared+16384", "x2 @shared+16256"),)),
    "the sum of a consumer lies over the output of the other": (
        "consumers",
        "race",
        (("acc1: fp32[64, 64] x1 @registers+24576", "acc1: fp32[64, 64] x1 @registers+16384"),),
    ),
    "rows of the other consumer": ("consumers", "numbers", (("xs{k}[64 +: 64", "xs{k}[0 +: 64"),)),
    "a step is dropped": (
        "persistent",
        "numbers",
        (
            ("loop k 4", "loop k 2"),
            ("loop k 4", "loop k 2"),
            ("summed0, 4", "summed0, 2"),
        ),
    ),
    "the first step twice, at equal work": (
        "persistent",
        "numbers",
        (("64*mi + 128*mo +: 64, 64*k", "64*mi + 128*mo +: 64, 0"),),
    ),
    "the sum begins again half way": ("conv", "numbers", (("accumulate=a + b + k", "accumulate=b + k"),)),
    "the sum never begins anew": ("persistent", "uninitialised", (("accumulate=k", "accumulate=1"),)),
    "each step begins anew": ("persistent", "numbers", (("accumulate=k", "accumulate=0"),)),
    "a tap is dropped": (
        "conv",
        "numbers",
        (
            ("loop a 3", "loop a 2"),
            ("loop a 3", "loop a 2"),
            ("summed0, 18", "summed0, 12"),
        ),
    ),
    "taps are mirrored": ("conv", "numbers", (("w[a +: 1, b +: 1", "w[-a + 2 +: 1, -b + 2 +: 1"),)),
    "padding is shifted": ("conv", "numbers", (("a + 4*p - 1 +: 4", "a + 4*p +: 4"),)),
    "blocks of rows are all the first": ("consumers", "numbers", (("x[g +: 1, 128*mi + 128*mo", "x[g +: 1, 0"),)),
    "a block is stored over another": (
        "consumers",
        "race",
        (("y[g +: 1, 128*mi + 128*mo +: 64", "y[g +: 1, 0 +: 64"),),
    ),
    "an edge is left out": ("rescaled", "unstored", (("mo=2", "mo=1"),)),
    "no relu": ("rescaled", "numbers", (("activation=relu ", ""),)),
    "another scale": ("rescaled", "scalars", (("multiplier=21555", "multiplier=21556"),)),
    "the bias of the first columns": ("rescaled", "numbers", (("bias[64*n +: 64]", "bias[0 +: 64]"),)),
    "tail keys are not hidden": ("attention", "numbers", (("most=200", "most=256"),)),
    "one key less is seen": ("attention", "numbers", (("most=200", "most=199"),)),
    "one key less is seen, decoding": ("decode", "numbers", (("most=150", "most=149"),)),
    "a query sees the next key": ("causal", "numbers", (("row=-64*i + 192", "row=-64*i + 193"),)),
    "a query does not see itself": ("causal", "numbers", (("row=-64*i + 192", "row=-64*i + 191"),)),
    "the mask of another block of keys": ("causal", "numbers", (("column=-64*i + 192", "column=-64*i + 191"),)),
    "kv - q is forgotten": ("causal", "numbers", (("row=-64*i + 192", "row=-64*i + 64"),)),
    "nothing is masked": (
        "causal",
        "numbers",
        (("mask s0{-i + 3}, s0{-i + 3} column=-64*i + 192 row=-64*i + 192 wait", "sync wait"),),
    ),
    "sums are not rescaled": (
        "attention",
        "numbers",
        (("multiply y0{0}, y0{0}, scale0{0} wait(summed0, 1)", "sync wait(summed0, 1)"),),
    ),
    "totals are not rescaled": ("attention", "numbers", (("multiply total0{0}, total0{0}, scale0{0}", "sync"),)),
    "totals begin anew": (
        "attention",
        "numbers",
        (("sum total0{0}, s0{j} accumulate=1", "sum total0{0}, s0{j} accumulate=0"),),
    ),
    "sums begin anew": ("attention", "numbers", (("vs{j} accumulate=1", "vs{j} accumulate=0"),)),
    "no maximum is kept": ("attention", "numbers", (("maximum new0{0}, top0{0}, most0{0}", "cast new0{0}, most0{0}"),)),
    "no maximum is subtracted": (
        "attention",
        "numbers",
        (
            ("maximum new0{0}, top0{0}, most0{0}", "fill new0{0} value=0.0"),
            ("maximum new0{0}, top0{0}, most0{0}", "fill new0{0} value=0.0"),
            ("fill top0{0} value=-3e+38", "fill top0{0} value=0.0"),
        ),
    ),
    "scores are not scaled": ("attention", "numbers", (("s0{j}, new0{0} factor=0.125", "s0{j}, new0{0} factor=0.25"),)),
    "no division by the total": (
        "attention",
        "numbers",
        (("reciprocal scale0{0}, total0{0}", "fill scale0{0} value=0.005"),),
    ),
    "keys of another head": (
        "attention",
        "numbers",
        (
            ("ks{j}, k[b +: 1, g +:", "ks{j}, k[b +: 1, h +:"),
            (
                "    copy ks{3}, k[b +: 1, g +: 1, 192 +: 64, 0 +: 64]",
                "    copy ks{3}, k[b +: 1, h +: 1, 192 +: 64, 0 +: 64]",
            ),
        ),
    ),
    "values of another head": (
        "decode",
        "numbers",
        (
            ("v[b +: 1, g", "v[b +: 1, 0"),
            ("v[b +: 1, g", "v[b +: 1, 0"),
        ),
    ),
    "heads are dealt out in turn": (
        "attention",
        "numbers",
        (
            ("2*g + h", "g + 2*h"),
            ("2*g + h", "g + 2*h"),
        ),
    ),
    "the output of another head": ("attention", "numbers", (("store y[b +: 1, 2*g + h", "store y[b +: 1, g + 2*h"),)),
    "keys are not transposed": ("attention", "numbers", ((' transpose="b"', ""),)),
    "a copy for blocks that need others": (
        "persistent",
        "unsupported",
        (("64*k +: 64] wait(empty0, 1)", "64*k +: 64] multicast=2 wait(empty0, 1)"),),
    ),
    "a copy for more blocks than a cluster has": ("persistent", "unsupported", (("multicast=2", "multicast=64"),)),
    "a copy for more blocks than stand side by side": ("persistent", "unsupported", (("multicast=2", "multicast=4"),)),
    "a copy for no block": ("persistent", "unsupported", (("multicast=2", "multicast=0"),)),
    "a persistent ring of three slots": (
        "persistent",
        "race",
        (
            ("xs: bf16[64, 64] x2", "xs: bf16[64, 64] x3"),
            ("ws: bf16[64, 64] x2 @shared+16384", "ws: bf16[64, 64] x3 @shared+24576"),
            ("empty0 = 2", "empty0 = 3"),
        ),
    ),
    "semaphores that end higher": ("persistent", "race", (("signal(stored0, 1)", "signal(stored0, 2)"),)),
    "semaphores that end lower": (
        "persistent",
        "race",
        (
            ("wait(stored0, 1) ", "wait(stored0, 2) "),
            ("stored0 = 1", "stored0 = 9"),
        ),
    ),
    "more shared memory than there is": (
        "consumers",
        "capacity",
        (("ws: bf16[64, 64] x2 @shared+32768", "ws: bf16[64, 64] x2 @shared+232000"),),
    ),
    "more registers than a thread has": (
        "consumers",
        "unsupported",
        (
            ("acc1: fp32[64, 64] x1 @registers+24576", "acc1: fp32[64, 512] x1 @registers+24576"),
            ("acc1{0}, xs", "acc1{0}[0 +: 64, 0 +: 64], xs"),
            ("out1{0}, acc1{0}", "out1{0}, acc1{0}[0 +: 64, 0 +: 64]"),
        ),
    ),
    "registers of another warpgroup": (
        "consumers",
        "unsupported",
        (("cast out1{0}, acc1{0}", "cast out1{0}, acc0{0}"),),
    ),
    "sums kept as bf16": ("persistent", "unsupported", (("acc0: fp32", "acc0: bf16"),)),
    "sums in shared memory": (
        "persistent",
        "unsupported",
        (("acc0: fp32[64, 64] x1 @registers+0", "acc0: fp32[64, 64] x1 @shared+65536"),),
    ),
    "fp8 for bf16": ("persistent", "unsupported", (("xs: bf16", "xs: fp8"),)),
    "a loop without trips": ("causal", "deadlock", (("loop j -i + 3", "loop j -i + 1"),)),
    "a loop whose trips are another loop's": ("persistent", "illegal", (("loop k 4", "loop k 0 + 4*k"),)),
    "static blocks, more than SMs": ("persistent", "unsupported", ((" persistent", " static"),)),
    "dispatched blocks that lean on the block before": (
        "persistent",
        "deadlock",
        (
            (" persistent", " dispatch"),
            ("taken0 = 1", "taken0 = 0"),
        ),
    ),
    "the last block of keys is skipped, at equal work": (
        "attention",
        "numbers",
        (
            ("k[b +: 1, g +: 1, 192", "k[b +: 1, g +: 1, 128"),
            ("v[b +: 1, g +: 1, 192", "v[b +: 1, g +: 1, 128"),
        ),
    ),
    "a persistent slot that depends on the block": (
        "persistent",
        "unsupported",
        (
            ("copy xs{k}", "copy xs{k + mi}"),
            ("xs{k}, ws{k} acc", "xs{k + mi}, ws{k} acc"),
        ),
    ),
    "the epilogue of int8 without the bias": ("rescaled", "numbers", ((", bias0{0} activation", " activation"),)),
    "half of the columns of a block are stored": (
        "consumers",
        "unstored",
        (("64*n +: 64], out0{0} wait", "64*n +: 32], out0{0}[0 +: 64, 0 +: 32] wait"),),
    ),
    "zeros from outside in place of w": (
        "persistent",
        "numbers",
        (("w[g +: 1, 64*k +: 64", "w[g +: 1, 64*k + 256 +: 64"),),
    ),
}
