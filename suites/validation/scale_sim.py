"""The bare array: an output-stationary product on 4x4 (row SYS-SCS), as RTL has it, without its drain."""

from __future__ import annotations

import re

from presil.simulators.assembly import parse
from presil.simulators.machine import Machine, load_machine
from presil.simulators.systolic.cost import cost
from presil.simulators.systolic.spec import systolic
from presil.simulators.timing import TICKS_PER_CYCLE

from .published import PublishedRow, ValidationRow, compared

PREFIX = "SYS-SCS-"
_MATMUL = re.compile(r"matmul (\d+)x(\d+)x(\d+) on (\d+)x(\d+)")

_PROGRAM = """program "mac" on "gemmini-16"
workload "matmul:m={m},n={n},k={k},dtype=int8"
buffer x: int8[{m}, {k}] x1 @scratchpad+0
buffer w: int8[{k}, {n}] x1 @scratchpad+4096
buffer r: int32[{m}, {n}] x1 @results+0
stream array unit 0 {{
    mac r{{0}}, x{{0}}, w{{0}} accumulate=0
}}
"""


def compare(row: PublishedRow) -> ValidationRow | None:
    """Cycles until the last element of one `mac` has its sum."""
    found = _MATMUL.fullmatch(row.workload)
    if found is None:
        return None
    m, k, n, rows, columns = (int(x) for x in found.groups())
    program = parse(_PROGRAM.format(m=m, k=k, n=n))
    array = bare_array(rows, columns)
    ((instruction,),) = (stream.body for stream in program.streams)
    cycles = cost(instruction, 0, program, array).latency / TICKS_PER_CYCLE  # type: ignore[arg-type]  # no loop above
    note = "one mac instruction; issue and semaphores taken as 0"
    return compared(row, cycles, machine=f"array of {rows}x{columns}", workload=row.workload, note=note)


def bare_array(rows: int, columns: int) -> Machine:
    """An array of that size without the control around it."""
    base = load_machine("gemmini-16")
    spec = systolic(base)
    array = spec.array.model_copy(update={"rows": rows, "columns": columns})
    return base.model_copy(update={"spec": spec.model_copy(update={"array": array, "issue": 0, "semaphore": 0})})
