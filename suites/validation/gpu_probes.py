"""Small programs that measure a GPU as microbenchmarks do: loads in flight, sweeps of the L2, chains, products.

Rows GPU-OCC, GPU-L2, GPU-LAT, GPU-UB and the rate of mma.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import Machine, load_machine
from presil.simulators.program import (
    Affine,
    Buffer,
    Count,
    Dim,
    Instruction,
    Loop,
    Node,
    Program,
    Region,
    Semaphore,
    Stream,
    Tensor,
)
from presil.simulators.simulate import simulate
from presil.simulators.timing import Timing

from .published import PublishedRow, ValidationRow, compared

MACHINES = {"A100-80 SXM": "a100", "A100 PCIe": "a100", "H800 PCIe": "h100", "H100 PCIe": "h100"}
ZERO = Affine()
FLOATS = 4  # bytes
WARPGROUP = 128  # threads
# Rows that gave a figure of the machine, or from which the same figure is known.
GIVEN = ("GPU-UB-005", "GPU-UB-006", "GPU-UB-007", "GPU-UB-008", "GPU-UB-021", "GPU-L2-001", "GPU-L2-008")
WAYS_GIVEN = ("GPU-L2-003", "GPU-L2-004", "GPU-L2-005")  # the number of ways was chosen on these


def compare(row: PublishedRow) -> ValidationRow | None:
    """Ours beside a microbenchmark; None for those that are not modelled."""
    name = MACHINES.get(row.chip)
    if name is None:
        return None
    machine = load_machine(name)
    found = _measured(row, machine)
    if found is None:
        return None
    ours, note = found
    return compared(row, ours, machine=name, workload=row.workload, note=note, given=row.row in (*GIVEN, *WAYS_GIVEN))


def _measured(row: PublishedRow, machine: Machine) -> tuple[float, str] | None:
    if found := re.match(r"stream (read|triad), 1 block of (\d+) threads", row.workload):
        triad = found[1] == "triad"
        return streamed(machine, int(found[2]), triad=triad), "one load of 8 bytes a thread and stream in flight"
    if (found := re.match(r"shared read-only data set (\d+) kB", row.workload)) and row.chip == "A100-80 SXM":
        return swept(machine, int(found[1]) * 1024), "each SM sweeps its part of the set again and again"
    chains = {"pointer chase DRAM": False, "global latency": False, "L2 latency": True}
    if row.workload in chains:
        return chased(machine, cached=chains[row.workload]), "a chain of loads of 4 bytes"
    if row.workload.startswith("mma.m16n8k") and row.metric == "throughput" and machine.name == "a100":
        return multiplied(machine, row.dtype), "a chain of products from shared memory"
    return None


def streamed(machine: Machine, threads: int, *, triad: bool) -> float:
    """GB/s where each thread of one block an SM has one load of 8 bytes under way in each stream it reads.

    Each warpgroup goes its own way, through its own rows.
    """
    groups, turns = max(threads // WARPGROUP, 1), 400
    elements = threads // groups * 8 // FLOATS
    shape = (machine.cores * groups * turns, elements)
    read = 1 + triad
    tensors = [Tensor(f"x{i}", "fp32", shape, "in", "hbm") for i in range(read)]
    buffers: list[Buffer] = []
    semaphores: list[Semaphore] = []
    streams: list[list[Node]] = []
    for g in range(groups):
        own = [f"r{g}_{i}" for i in range(read)]
        for name in own:
            buffers.append(Buffer(name, "fp32", (1, elements), 1, "registers", len(buffers) * elements * FLOATS))
        semaphores.append(Semaphore(f"there{g}"))
        at = (Dim(Affine(g * turns, (("b", groups * turns), ("t", 1))), 1), Dim(ZERO, elements))
        body: list[Node] = [
            Instruction("load", (Region(name, ZERO), Region(t.name, None, at)), (), (), (Count(f"there{g}"),))
            for name, t in zip(own, tensors, strict=True)
        ]
        body.append(Instruction("sync", waits=(Count(f"there{g}", read),)))
        if triad:
            body.append(Instruction("store", (Region("y", None, at), Region(own[0], ZERO))))
        streams.append([Loop("t", turns, tuple(body))])
    if triad:
        tensors.append(Tensor("y", "fp32", shape, "out", "hbm"))
    timing = _timed(machine, tensors, buffers, semaphores, *streams)
    moved = machine.cores * groups * turns * elements * FLOATS * len(tensors)
    return moved / _seconds(timing, machine) / 1e9


def swept(machine: Machine, set_bytes: int) -> float:
    """GB/s of loads where all SMs together sweep `set_bytes` again and again, with much in flight."""
    elements, ring, sweeps = 4096, 2, 50
    tiles = max(1, round(set_bytes / machine.cores / elements / FLOATS))
    tensor = Tensor("x", "fp32", (machine.cores * tiles, elements), "in", "hbm")
    buffer = Buffer("r", "fp32", (1, elements), ring, "registers", 0)
    at = (Dim(Affine.var("b", tiles) + Affine.var("t"), 1), Dim(ZERO, elements))
    slot = Affine.var("s", tiles) + Affine.var("t")
    load = Instruction("load", (Region("r", slot), Region("x", None, at)), (), (Count("free"),), (Count("there"),))
    use = Instruction("sync", waits=(Count("there"),), signals=(Count("free"),))
    semaphores = [Semaphore("there"), Semaphore("free", ring)]
    nests = [[Loop("s", sweeps, (Loop("t", tiles, (each,)),))] for each in (load, use)]
    timing = _timed(machine, [tensor], [buffer], semaphores, *nests)
    return machine.cores * tiles * elements * FLOATS * sweeps / _seconds(timing, machine) / 1e9


def chased(machine: Machine, *, cached: bool) -> float:
    """Cycles from one load to the next that needs it."""
    turns = 2000
    tensor = Tensor("x", "fp32", (turns, 1024), "in", "hbm")
    start = ZERO if cached else Affine.var("t")
    load = Instruction(
        "load", (Region("r", ZERO), Region("x", None, (Dim(start, 1), Dim(ZERO, 1)))), (), (), (Count("there"),)
    )
    body = (load, Instruction("sync", waits=(Count("there"),)))
    buffer = Buffer("r", "fp32", (1, 1), 1, "registers", 0)
    timing = _timed(machine, [tensor], [buffer], [Semaphore("there")], [Loop("t", turns, body)], blocks=1)
    return _seconds(timing, machine) * machine.clock_hz / turns


def multiplied(machine: Machine, dtype: str) -> float:
    """Tera-operations a second of products of operands that lie in shared memory."""
    turns, k = 4000, 64
    kind = gpu(machine).multiply_type(dtype)
    assert kind is not None
    x = Tensor("x", dtype, (machine.cores * 128, k), "in", "hbm")
    buffers = [
        Buffer("a", dtype, (128, k), 1, "shared", 0),
        Buffer("w", dtype, (k, 128), 1, "shared", 128 * k * 2),
        Buffer("acc", kind.accumulator, (128, 128), 1, "registers", 0),
    ]
    at = (Dim(Affine.var("b", 128), 128), Dim(ZERO, k))
    copies: list[Node] = [
        Instruction("copy", (Region(name, ZERO), Region("x", None, at)), (), (), (Count("there"),))
        for name in ("a", "w")
    ]
    operands = tuple(Region(name, ZERO) for name in ("acc", "a", "w"))
    chain: list[Node] = [
        Instruction("sync", waits=(Count("there", 2),)),
        Loop("t", turns, (Instruction("mma", operands, (("accumulate", 0),)),)),
    ]
    timing = _timed(machine, [x], buffers, [Semaphore("there")], copies, chain)
    return 2 * timing.multiply_adds / _seconds(timing, machine) / 1e12


def _seconds(timing: Timing, machine: Machine) -> float:
    """Without the launch."""
    return timing.seconds - gpu(machine).launch


def _timed(
    machine: Machine,
    tensors: Sequence[Tensor],
    buffers: Sequence[Buffer],
    semaphores: Sequence[Semaphore],
    *streams: Sequence[Node],
    blocks: int = 0,
) -> Timing:
    program = Program(
        name="probe",
        machine=machine.name,
        workload="none",
        tensors=tuple(tensors),
        buffers=tuple(buffers),
        semaphores=tuple(semaphores),
        streams=tuple(Stream(f"s{i}", tuple(nodes)) for i, nodes in enumerate(streams)),
        grid=(("b", blocks or machine.cores),),
        place="dispatch",
    )
    return simulate(program, machine).timing
