"""A made-up comparison with the shape of a real one: ResNet-50 and a Llama block on three machines.

No number here is a measurement; `comparison()` is the same in every process.
"""

from __future__ import annotations

import random

from presil.reports.data import Comparison, Figure, Group, Layer, Machine, Reason, Run, Score, Validation

GROUPS = (
    Group(key="resnet50-b1", title="ResNet-50, batch 1", score="inferences/s"),
    Group(key="resnet50-b8", title="ResNet-50, batch 8", score="inferences/s"),
    Group(key="llama3-8b-prefill", title="Llama-3-8B block, prefill, 2048 tokens, batch 1", score="tokens/s"),
    Group(key="llama3-8b-decode-b1", title="Llama-3-8B block, decode, context 2048, batch 1", score="tokens/s"),
    Group(key="llama3-8b-decode-b16", title="Llama-3-8B block, decode, context 2048, batch 16", score="tokens/s"),
)
BATCH = {"resnet50-b1": 1, "resnet50-b8": 8, "llama3-8b-prefill": 2048, "llama3-8b-decode-b1": 1}
BATCH["llama3-8b-decode-b16"] = 16

MACHINES = (
    Machine(
        key="tpu-v1",
        name="tpu-v1",
        title="Google TPU v1",
        family="systolic",
        clock_hz=700e6,
        cores=1,
        peaks={"int8": 65536 * 700e6},
        bandwidths={"weights": 34e9, "host": 12.5e9},
        figures=(
            Figure("clock", "700 MHz", "Jouppi et al., ISCA 2017, Table 2"),
            Figure("memories.weights.bandwidth", "34 GB/s", "Jouppi et al., ISCA 2017, Table 2"),
            Figure("systolic.array.rows", "256", "Jouppi et al., ISCA 2017, section 2"),
            Figure("systolic.dma.setup", "16", "chosen: not published"),
            Figure("memories.host.burst_bytes", "256", "from memory, not confirmed"),
        ),
    ),
    Machine(
        key="tpu-v4",
        name="tpu-v4",
        title="Google TPU v4, one chip",
        family="systolic",
        clock_hz=1050e6,
        cores=2,
        peaks={"int8": 275e12 / 2, "bf16": 275e12 / 2},
        bandwidths={"hbm": 1.2e12},
        figures=(
            Figure("clock", "1050 MHz", "derived: 275e12 / (2 * 128 * 128 * 8), https://jax-ml.github.io/scaling-book"),
        ),
    ),
    Machine(
        key="gemmini-16",
        name="gemmini-16",
        title="Gemmini, default 16x16",
        family="systolic",
        clock_hz=1e9,
        cores=1,
        peaks={"int8": 256e9},
        bandwidths={"dram": 16e9},
        figures=(Figure("systolic.array.rows", "16", "ucb-bar/gemmini Configs.scala"),),
    ),
)


def _convolutions() -> list[tuple[str, int, tuple[int, ...], int]]:
    """(name, count, (h, c, f, r, stride), multiply-adds per image) of a network like ResNet-50."""
    rows = [("conv1", 1, (224, 3, 64, 7, 2), 112 * 112 * 3 * 64 * 49)]
    for stage, (size, width, blocks) in enumerate(((56, 64, 3), (28, 128, 4), (14, 256, 6), (7, 512, 3)), start=2):
        area = size * size
        rows += [
            (f"res{stage}_reduce", blocks, (size, 4 * width, width, 1, 1), area * 4 * width * width),
            (f"res{stage}_3x3", blocks, (size, width, width, 3, 1), area * 9 * width * width),
            (f"res{stage}_expand", blocks, (size, width, 4 * width, 1, 1), area * 4 * width * width),
            (f"res{stage}_project", 1, (size, 2 * width, 4 * width, 1, 2), area * 8 * width * width),
        ]
    return rows


def _works(group: str) -> list[tuple[str, int, str, str, int, int]]:
    """(name, count, operator, workload, multiply-adds, bytes) of the distinct shapes of a group."""
    batch = BATCH[group]
    if group.startswith("resnet"):
        works = [
            (name, count, "conv2d", f"conv2d:n={batch},h={h},w={h},c={c},f={f},r={r},s={r},stride={s},dtype=int8",
             batch * macs, batch * h * h * c + r * r * c * f + batch * (h // s) ** 2 * f)
            for name, count, (h, c, f, r, s), macs in _convolutions()
        ]  # fmt: skip
        fc = ("fc1000", 1, "matmul", f"matmul:m={batch},n=1000,k=2048,dtype=int8", batch * 2048000, 2050048)
        return [*works, fc]
    shapes = (("q", 1, 4096, 4096), ("k, v", 2, 1024, 4096), ("o", 1, 4096, 4096), ("gate, up", 2, 14336, 4096))
    return [
        (name, count, "matmul", f"matmul:m={batch},n={n},k={k},dtype=int8", batch * n * k, batch * (n + k) + n * k)
        for name, count, n, k in (*shapes, ("down", 1, 4096, 14336))
    ]


def _layer(group: str, machine: Machine, work: tuple[str, int, str, str, int, int], rng: random.Random) -> Layer:
    name, count, operator, workload, macs, size = work
    memory, bandwidth = min(machine.bandwidths.items(), key=lambda item: item[1])
    compute, transfer = macs / machine.peaks["int8"], 1.1 * size / bandwidth
    bound = max(compute, transfer)
    ratio = 1.02 + rng.random() ** 3 * 2
    share = round(100 * (1 - 0.9 * compute / (bound * ratio)))
    cause = f"weights from {memory}" if transfer > compute else "the vector unit"
    return Layer(
        group=group,
        name=name,
        count=count,
        workload=workload,
        operator=operator,
        dtype="int8",
        machine=machine.key,
        status="right",
        fidelity="event",
        cycles=round(bound * ratio * machine.clock_hz),
        seconds=bound * ratio,
        utilization=compute / (bound * ratio),
        bound_ratio=ratio,
        bound_by="memory" if transfer > compute else "compute",
        bottleneck=f"matrix engine: {share}% waiting for {cause} (semaphore w_full, signalled by load in stream loadw)",
        schedule="bm=128 bn=256 bk=512 order=mnk dataflow=ws buffers=2 resident=weights edges=peel",
        first_cycles=round(bound * ratio * machine.clock_hz * (1 + 6 * rng.random() ** 2)),
        evaluated=200,
        refused=rng.randrange(12),
        multiply_adds=macs,
        traffic_bytes={memory: round(1.1 * size)},
        checks={"instructions ordered for all timings": 4000, "timed runs on data, outputs compared": 8},
    )


def _broken(layer: Layer, status: str) -> Layer:
    return Layer(
        group=layer.group, name=layer.name, count=layer.count, workload=layer.workload, operator=layer.operator,
        dtype="int8", machine=layer.machine, status=status, fidelity="event", evaluated=40, refused=40,
        reasons=(Reason(kind="race", where="store y[0, 0]", detail="read of 'acc' is not ordered after matmul"),),
    )  # fmt: skip


def score(group: str, machine: str, layers: list[Layer]) -> Score:
    mine = [x for x in layers if x.group == group and x.machine == machine]
    right = [x for x in mine if x.status == "right"]
    whole = len(right) == len(mine)
    value = BATCH.get(group, 1) / sum(x.total_seconds for x in right) if whole and right else None
    return Score(
        group=group, machine=machine, value=value, fidelity="event", covered=len(right), layers=len(mine)
    )  # fmt: skip


def run(name: str = "quick-2026-12-01") -> Run:
    return Run(
        name=name,
        suite="quick",
        title="ResNet-50 and a Llama-3-8B block",
        started="2026-12-01T04:10:00+00:00",
        finished="2026-12-01T04:12:31+00:00",
        seed=7,
        budget=200,
        fidelity="event",
        planned=234,
        done=234,
        versions={"presil": "0.1.0", "python": "3.11.9", "numpy": "2.4.6"},
        command="presil run quick --budget 200 --seed 7",
    )


def comparison(machines: tuple[Machine, ...] = MACHINES, *, broken: str | None = None) -> Comparison:
    """`broken`: the status of one layer per machine (or of all, for `all-none`)."""
    rng = random.Random(1)
    layers = [_layer(g.key, m, work, rng) for m in machines for g in GROUPS for work in _works(g.key)]
    if broken == "all-none":
        layers = [_broken(x, "none") for x in layers]
    elif broken:
        layers = [_broken(x, broken) if x.name == "res3_3x3" and x.group == "resnet50-b8" else x for x in layers]
    return Comparison(
        runs=(run(),),
        machines=machines,
        groups=GROUPS,
        layers=tuple(layers),
        scores=tuple(score(g.key, m.key, layers) for g in GROUPS for m in machines),
    )


def validations() -> tuple[Validation, ...]:
    """Made-up rows in the form of stored ones."""
    rows = (
        ("SYS-TPU1-003", "MLP0", "weight stall cycles", 53.9, 51.2, "%"),
        ("SYS-GEM-01", "conv", "cycles", 1e5, 1.1e5, ""),
    )
    return tuple(
        Validation(
            row=row, machine="tpu-v1", workload=workload, metric=metric, published=there, ours=here, unit=unit,
            error_percent=100 * (here - there) / there, evidence="measured", source="Jouppi et al., ISCA 2017, Table 3",
        )
        for row, workload, metric, there, here, unit in rows
    )  # fmt: skip
