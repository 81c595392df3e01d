"""The stored result of one workload on one machine, and the facts of a machine that a run keeps."""

from __future__ import annotations

from typing import Any

from presil.kernels.checking import Verdict
from presil.kernels.ignition.result import SearchResult
from presil.kernels.operators.operator import Workload
from presil.kernels.operators.registry import operator, parse_workload
from presil.simulators.bound import lower_bound_ticks, peak_multiply_adds_per_cycle
from presil.simulators.errors import ModelError
from presil.simulators.formats import DTYPES
from presil.simulators.machine import Machine
from presil.simulators.program import Program
from presil.simulators.stalls import stall_table
from presil.simulators.timing import TICKS_PER_CYCLE, Timing

from .results import timing_json, verdict_json
from .runs import DONE, Item
from .store import Body, digest_of

SATURATED_PERCENT = 80.0  # a matrix engine that is busier than this is itself the bottleneck
NOTABLE_PERCENT = 30.0  # one that waits for one thing for longer than this is held up by it


def result(
    item: Item,
    found: SearchResult,
    *,
    workload: Workload,
    program: Program,
    timing: Timing,
    verdict: Verdict,
) -> Body:
    """The body of a finished item.

    Raises ModelError where what was timed is not what was checked, or beats the lower bound.
    """
    best, first = found.best, found.first
    if not verdict.right or timing.ticks != best.ticks:
        raise ModelError(f"{item.workload}: {timing.ticks} ticks, but the search had {best.ticks}")
    if timing.ticks < best.roofline.ticks:
        raise ModelError(f"{item.workload}: {timing.ticks} ticks beat the lower bound of {best.roofline.ticks}")
    work = operator(workload.operator).work(workload)
    return {
        **_asked(item),
        "status": DONE,
        "reason": None,
        "operator": workload.operator,
        "dtype": workload["dtype"],
        **timing_json(timing),
        **verdict_json(verdict),
        "facts": dict(verdict.facts),
        "ticks": timing.ticks,
        "issued_instructions": timing.issued_instructions,
        "multiply_adds": timing.multiply_adds,
        "utilization": best.utilization,
        "bound_cycles": best.roofline.ticks / TICKS_PER_CYCLE,
        "bound_ratio": timing.ticks / max(best.roofline.ticks, 1),
        "bound_by": bound_by(best.roofline.ticks, work.multiply_adds, str(workload["dtype"]), item.machine),
        "bottleneck": bottleneck(timing, program),
        "flops": work.flops,
        "compulsory_bytes": sum(work.tensor_bytes.values()),
        "schedule": str(best.schedule),
        "program": found.program,
        "program_hash": digest_of(found.program),
        "first_cycles": first.cycles if first else None,
        "first_schedule": str(first.schedule) if first else None,
        "evaluated": found.evaluated,
        "refused": found.wrong,
        "invalid": dict(found.invalid),
        "space_size": found.schedules,
        "exact": found.exact,
        "leaderboard": [entry.to_json() for entry in found.leaderboard],
    }


def lacking(item: Item, status: str, reason: str) -> Body:
    """The body of an item that has no kernel: `unsupported`, `no right kernel` or `failed`."""
    return {**_asked(item), "status": status, "reason": reason}


def _asked(item: Item) -> Body:
    return {
        "workload": item.workload,
        "machine": item.machine.name,
        "machine_digest": item.machine.digest,
        "budget": item.budget,
        "seed": item.seed,
        "check_seconds": item.check_seconds,
    }


def least_seconds(item: Item) -> float:
    """The least time the item's multiply-adds take on the machine; what simulating them takes goes with it."""
    workload = parse_workload(item.workload)
    work = operator(workload.operator).work(workload)
    peak = peak_multiply_adds_per_cycle(str(workload["dtype"]), item.machine) * item.machine.clock_hz
    return work.multiply_adds / peak if peak else 0.0


def bound_by(ticks: int, multiply_adds: int, dtype: str, machine: Machine) -> str:
    """What sets the lower bound: `compute`, or `memory`."""
    return "compute" if lower_bound_ticks(multiply_adds, dtype, {}, machine) >= ticks else "memory"


def bottleneck(timing: Timing, program: Program) -> str:
    """In words: what the matrix engine waits for most, or else the engine that is busiest."""
    rows = stall_table(timing, program)
    if not rows:
        return ""
    matrix = [row for row in rows if row.engine.rpartition(".")[2].startswith("matrix")]
    waits = [row for row in matrix if row.reason not in {"", "done"} and row.busy_percent < SATURATED_PERCENT]
    longest = max(waits, key=lambda row: row.stall_percent, default=None)
    if longest and longest.stall_percent >= NOTABLE_PERCENT and longest.busy_percent > 0:
        return longest.sentence.partition(" (")[0]  # the semaphore's name is for `presil simulate`
    busiest = max(rows, key=lambda row: row.busy_percent)
    return f"{busiest.engine} engine: {busiest.busy_percent:.0f}% busy"


def machine_facts(machine: Machine) -> Body:
    """What a report says of a machine, kept with the run: its YAML may change."""
    peaks = {dtype: peak_multiply_adds_per_cycle(dtype, machine) * machine.clock_hz for dtype in DTYPES}
    return {
        "name": machine.name,
        "title": machine.title,
        "family": machine.family,
        "clock_hz": machine.clock_hz,
        "cores": machine.cores,
        "digest": machine.digest,
        "peak_multiply_adds_per_second": {dtype: peak for dtype, peak in peaks.items() if peak},
        "memories": [_memory(name, memory) for name, memory in machine.memories.items()],
        "figures": [
            {"path": path, "value": value, "source": machine.sources[path]} for path, value in machine.figures.items()
        ],
    }


def _memory(name: str, memory: Any) -> Body:
    return {
        "name": name,
        "bandwidth_bytes_per_second": memory.bandwidth,
        "capacity_bytes": memory.capacity,
        "latency_seconds": memory.latency,
        "efficiency": memory.efficiency,
    }
