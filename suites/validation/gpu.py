"""Kernels of libraries on A100, H100 and H200, beside the fastest that the search finds (rows GPU-*).

A row names a shape and a rate or a time; the kernel behind it is a library's best, so ours is the best of a search. It
is judged by the first layer of checks (legality, happens-before), not run on data: the emitters are tested for that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from presil.kernels.emitters import emitter
from presil.kernels.ignition.measure import measure
from presil.kernels.ignition.search import search
from presil.kernels.operators import Workload, operator, parse_workload
from presil.kernels.verdict import Reason, Verdict
from presil.simulators.errors import Unsupported
from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import Machine, load_machine
from presil.simulators.program import Program
from presil.simulators.sanitizer import sanitize

from .published import PublishedRow, ValidationRow, compared, published_rows

MACHINES = {
    "A100-80 SXM": "a100",
    "A100 SXM": "a100",
    "A100 x1": "a100",
    "H100 SXM5": "h100",
    "H800 SXM5": "h100",
    "H200 SXM": "h200",
}
TENSOR_DTYPES = ("bf16", "fp16", "fp8", "fp32")
# Their figures chose the energy of a multiply-add, the efficiency of the memory and the launches.
GIVEN = (
    "GPU-OWN-001",
    "GPU-OWN-002",
    "GPU-GEMM-002",
    "GPU-GEMM-006",
    "GPU-GEMM-008",
    "GPU-GEMM-011",
    "GPU-STREAM-001",
    "GPU-LAUNCH-001",
)


@dataclass(frozen=True, slots=True)
class Task:
    """The workload of a row. `flops`: as the row counts them, where that is not two a multiply-add.

    `kernel_only`: a profiler's time of the kernel, without the launch. `axis`: a choice that the published kernel made.
    """

    workload: str
    flops: float = 0.0
    kernel_only: bool = False
    axis: tuple[str, str] | None = None
    note: str = ""


def compare(row: PublishedRow, search_budget: int) -> ValidationRow | None:
    """Ours in the unit of the row; None where it is not a kernel that is modelled."""
    machine = MACHINES.get(row.chip)
    task = next((found for read in READERS if (found := read(row)) is not None), None)
    if machine is None or task is None:
        return None
    workload = parse_workload(task.workload)
    try:
        seconds = fastest(workload, load_machine(machine), task, search_budget)
    except Unsupported:
        return None
    ours = _in_unit(row, seconds, task, workload)
    note = f"best of {search_budget} schedules{task.note}"
    return compared(row, ours, machine=machine, workload=str(workload), note=note, given=row.row in GIVEN)


def beside(workload: Workload, machine: Machine) -> list[PublishedRow]:
    """Published figures of the very workload on the machine, whatever the format of its output."""
    found = []
    for row in published_rows("gpu").values():
        task = next((read_task for read in READERS if (read_task := read(row)) is not None), None)
        if task is not None and MACHINES.get(row.chip) == machine.name:
            published = parse_workload(task.workload)
            if published.operator == workload.operator and _without_out(published) == _without_out(workload):
                found.append(row)
    return found


def _without_out(workload: Workload) -> dict[str, int | str]:
    return {name: value for name, value in workload.parameters if name != "out"}


def fastest(workload: Workload, machine: Machine, task: Task, budget: int) -> float:
    """Seconds of the best schedule."""
    launch = gpu(machine).launch if task.kernel_only else 0.0
    if task.axis is None:
        return search(workload, machine, budget=budget, check=_legal).best.seconds - launch
    found = emitter(workload.operator, machine.family)
    space = found.space(workload, machine)
    name, choice = task.axis
    schedules = [s for s in map(space.unrank, range(space.count())) if s[name] == choice]
    legal = [s for s in schedules if found.legal(workload, machine, s) is None]
    likely = sorted(legal, key=lambda s: found.prior_cycles(workload, machine, s))[:budget]
    ticks = min(measure(found.lower(workload, machine, s), machine).ticks for s in likely)
    return machine.seconds(ticks) - launch


def _legal(program: Program, workload: Workload, machine: Machine) -> Verdict:
    faults = sanitize(program, machine)
    return Verdict(right=not faults, reasons=tuple(Reason(f.kind, f.where, f.detail) for f in faults))


def _in_unit(row: PublishedRow, seconds: float, task: Task, workload: Workload) -> float:
    if row.unit in ("ms", "us"):
        return seconds * {"ms": 1e3, "us": 1e6}[row.unit]
    flops = task.flops or 2 * operator(workload.operator).work(workload).multiply_adds
    moved = sum(operator(workload.operator).work(workload).tensor_bytes.values())
    return moved / seconds / 1e9 if row.unit == "GB/s" else flops / seconds / 1e12


def _gemm(row: PublishedRow) -> Task | None:
    found = re.match(r"GEMM (?:MxNxK )?(\d+)(?:\^3|x(\d+)x(\d+))", row.workload)
    if found is None or row.dtype not in TENSOR_DTYPES:
        return None
    first = int(found[1])
    sizes = (first, int(found[2] or first), int(found[3] or first))
    if row.row.startswith("GPU-KB") and "large K" in row.workload:  # written as M x K x N
        sizes = (sizes[0], sizes[2], sizes[1])
    return _scaled(row, _matmul(1, *sizes, row.dtype))


def _scaled(row: PublishedRow, workload: str) -> Task:
    """DeepGEMM is timed by a profiler, and scales its sums every 128 steps, which ours does not."""
    if row.row.startswith("GPU-DG"):
        return Task(workload, kernel_only=True, note="; without launch, without the scales of the published kernel")
    return Task(workload)


def _grouped(row: PublishedRow) -> Task | None:
    found = re.match(r"grouped \w+ (\d+) groups? x M(\d+), N(\d+) K(\d+)", row.workload)
    if found is None:
        return None
    groups, m, n, k = (int(x) for x in found.groups())
    return _scaled(row, _matmul(groups, m, n, k, row.dtype))


def _matmul(batch: int, m: int, n: int, k: int, dtype: str) -> str:
    out = ",out=bf16" if dtype in ("bf16", "fp8") else ""
    return f"matmul:batch={batch},m={m},n={n},k={k},dtype={dtype}{out}"


def _attention(row: PublishedRow) -> Task | None:
    """Forward, FlashAttention-3: 16 heads of 128. Its flops are 4 q kv head for each head, half of it where causal."""
    found = re.match(r"FA3 fwd hd128(?: 16 heads)? seq(\d+)( causal)?", row.workload)
    if found is None:
        return None
    length, batch, causal = int(found[1]), int(row.batch), bool(found[2])
    flops = 4 * length**2 * 128 * 16 * batch / (2 if causal else 1)
    text = f"attention:batch={batch},heads=16,kv_heads=16,q={length},kv={length},head=128,dtype=fp16"
    return Task(text + (",causal=true" if causal else ""), flops)


def _gemv(row: PublishedRow) -> Task | None:
    if row.workload == "GEMV fp16 [1,16K]x[16K,16K]":
        return Task(_matmul(1, 1, 16384, 16384, "fp16"))
    found = re.fullmatch(r"GEMV (\d+)x(\d+)", row.workload)
    return None if found is None else Task(_matmul(1, int(found[1]), 1, int(found[2]), row.dtype))


def _streams(row: PublishedRow) -> Task | None:
    """One tensor in, one out; a copy is written as one that clamps at 0."""
    found = re.match(r"(?:scalar multiply|ReLU) (\d+)x(\d+)", row.workload)
    if found is not None:
        return Task(f"elementwise:kind=relu,rows={found[1]},columns={found[2]},dtype=fp32")
    if row.workload == "device-to-device copy":
        return Task("elementwise:kind=relu,rows=16384,columns=32768,dtype=fp32")
    if row.workload == "sum reduction of 2^30 values":
        return Task("reduction:kind=sum,rows=32768,columns=32768,dtype=fp32")
    found = re.match(r"softmax rows (\d+)x(\d+)", row.workload)
    if found is None:
        return None
    text = f"softmax:rows={found[1]},columns={found[2]},dtype=fp32"
    return Task(text, axis=("sums", "apart"), note=" that find maximum and sum apart, as the published kernel does")


def _launch(row: PublishedRow) -> Task | None:
    """A scale of N doubles: as many bytes in and out as 2N floats."""
    found = re.match(r"back-to-back dependent scale kernels, (\d+) doubles", row.workload)
    if found is None or "stream launch" not in row.conditions:
        return None
    return Task(f"elementwise:kind=relu,rows=2,columns={found[1]},dtype=fp32")


READERS: tuple[Callable[[PublishedRow], Task | None], ...] = (
    _gemm,
    _grouped,
    _attention,
    _gemv,
    _streams,
    _launch,
)
