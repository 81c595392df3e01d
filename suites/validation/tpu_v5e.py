"""TPU v5e: matrix products of JAX and of a Pallas kernel (rows SYS-V5E).

The published times are `timeit` of a call, host included. What the host takes is added to ours. It is derived from the
smallest of these very rows (0.1194 ms less the ideal 10.9 us), so SYS-V5E-001 is no test; it is listed with that note.
Outputs are bf16, as in the notebook.
"""

from __future__ import annotations

import re

from presil.kernels.emitters import emitter
from presil.kernels.ignition.search import search
from presil.kernels.operators import parse_workload
from presil.kernels.space import Choice, Schedule
from presil.simulators.machine import load_machine
from presil.simulators.simulate import simulate

from .published import PublishedRow, ValidationRow, compared

PREFIX = "SYS-V5E-"
FLOOR_MS = 0.108
MACHINE = "tpu-v5e"
_GEMM = re.compile(r"GEMM (\d+)x(\d+)x(\d+)")
_BLOCKS = re.compile(r"bm=(\d+),bk=(\d+),bn=(\d+)")


def compare(row: PublishedRow, search_budget: int) -> ValidationRow | None:
    """Milliseconds of the kernel with the host's floor added; blocks of the row, else the best that a search finds."""
    shape = _GEMM.fullmatch(row.workload)
    if shape is None:
        return None
    m, k, n = (int(x) for x in shape.groups())
    workload = parse_workload(f"matmul:m={m},n={n},k={k},dtype=bf16,out=bf16")
    machine = load_machine(MACHINE)
    if blocks := _BLOCKS.search(row.conditions):
        bm, bk, bn = (int(x) for x in blocks.groups())
        schedule = pallas_schedule(bm=bm, bk=bk, bn=bn)
        program = emitter("matmul", machine.family).lower(workload, machine, schedule)
        seconds = simulate(program, machine).timing.seconds
        note = "the kernel's blocks, two buffers of each"
    else:
        seconds = search(workload, machine, budget=search_budget).best.seconds
        note = f"best of {search_budget} schedules"
    note += f"; {FLOOR_MS} ms of host dispatch added"
    if row.row.endswith("-001"):
        note += ", which are derived from this row: no test"
    return compared(row, FLOOR_MS + 1e3 * seconds, machine=MACHINE, workload=str(workload), note=note)


def pallas_schedule(*, bm: int, bk: int, bn: int) -> Schedule:
    """Blocks as the grid of the Pallas kernel walks them: rows, columns, inner length; double-buffered."""
    choices: dict[str, Choice] = {
        "dataflow": "ws",
        "bm": bm,
        "bn": bn,
        "bk": bk,
        "order": "mn",
        "x_keep": 0,
        "w_keep": 0,
    }
    choices |= {"x_slots": 2, "w_slots": 2, "acc_slots": 2, "y_slots": 2, "edge": "peel", "cores": "1"}
    return Schedule(tuple(choices.items()))
