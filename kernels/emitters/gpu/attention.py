"""Attention on a GPU: blocks of queries go over the keys with a running maximum (FlashAttention).

    copies        q once; for each block of keys: k, v, into rings of shared memory (page by page where there are pages)
    attend c      for each block of keys: scores = q k' (mma); new maximum, weights, sums (vector); y += weights v (mma)

Consumers share the rows of the block. With `ahead` the scores of the next block of keys are under way while the weights
of this one are made. Where `causal`, blocks that all queries see come first, in a loop whose trips grow with the place
of the queries; those at the diagonal are masked. With `pack` the query heads that share keys are rows of one block.
"""

from __future__ import annotations

import functools

from presil.simulators.errors import Unsupported
from presil.simulators.formats import size_bytes
from presil.simulators.gpu.occupancy import REGISTER_BYTES, REGISTER_UNIT, WARP, WARPGROUP
from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import Machine
from presil.simulators.program import (
    Program,
)

from ...operators.operator import Workload
from ...space import Axis, Emitter, Schedule, Space
from . import pages, schedules
from .flash import FlashKernel, Plan, is_causal, register_bytes

ROWS = (16, 32, 64, 128, 192)
MOST_PACKED = 64  # rows of few queries and the heads that share their keys
KEYS = (16, 32, 64, 80, 96, 112, 128, 144, 160, 176, 192)


def space(workload: Workload, machine: Machine) -> Space:
    """Rows, keys, stages, consumers, software pipelining, packing of heads, order of blocks."""
    schedules.multiply_type(workload, gpu(machine))
    if workload.int("page") and is_causal(workload) and workload.int("q") > ROWS[-1]:
        found = f"{workload.int('q')} causal queries over paged keys"
        raise Unsupported(f"{found}: at most {ROWS[-1]}, one block of them, are built")
    shared = workload.int("heads") // workload.int("kv_heads")
    packed = [rows] if 1 < shared <= (rows := shared * workload.int("q")) <= MOST_PACKED else []
    return Space(
        (
            Axis("rows", tuple(sorted({*ROWS, *packed}))),
            Axis("keys", schedules.ladder(workload.int("kv"), pages.blocks(workload, KEYS))),
            Axis("stages", (1, 2, 3, 4)),
            Axis("consumers", (1, 2, 3)),
            Axis("ahead", (0, 1), ordered=False),
            Axis("pack", (1, 0) if shared > 1 and not is_causal(workload) else (0,), ordered=False),
            Axis("first", ("late", "early") if is_causal(workload) else ("early",), ordered=False),
            Axis("outer", ("heads", "queries"), ordered=False),
        )
    )


@functools.lru_cache(maxsize=16)  # asked again at once: is it legal, how long will it take, emit it
def plan(workload: Workload, machine: Machine, schedule: Schedule) -> Plan:
    """The blocks of a schedule."""
    rows, keys, stages, consumers = (schedules.number(schedule, a) for a in ("rows", "keys", "stages", "consumers"))
    q, kv = workload.int("q"), workload.int("kv")
    heads = workload.int("heads") // workload.int("kv_heads") if schedule["pack"] else 1
    queries = rows // heads if rows % heads == 0 else 0
    blocks = -(-q // queries) if queries else 0
    behind = kv - q
    if is_causal(workload):
        seen = (behind + 1) // keys
        grow = queries // keys
        reach = queries + behind if blocks > 1 else kv
        edge = -(-reach // keys) - seen
    else:
        seen, grow, edge = kv // keys, 0, int(kv % keys > 0)
    return Plan(
        rows=rows // consumers,
        consumers=consumers,
        queries=queries,
        heads=heads,
        keys=keys,
        page=workload.int("page"),
        stages=stages,
        ahead=bool(schedule["ahead"]),
        late_first=schedule["first"] == "late",
        seen=seen,
        grow=grow,
        edge=edge,
        blocks=blocks,
        wasted=_wasted(workload, schedule, queries, seen + edge),
    )


def _wasted(workload: Workload, schedule: Schedule, queries: int, least_blocks: int) -> str | None:
    """Why a schedule is no schedule of its own, or None."""
    rows, keys, stages, consumers = (schedules.number(schedule, a) for a in ("rows", "keys", "stages", "consumers"))
    if not queries:
        return "the packed heads do not divide the rows"
    if consumers > 1 and (rows % consumers or rows // consumers < 64):
        return "too few rows for the consumers"
    if schedule["pack"] and (consumers > 1 or queries > max(1, workload.int("q"))):
        return "packed rows are those of one consumer"
    smaller = [r for r in ROWS if r < rows]
    if not schedule["pack"] and smaller and smaller[-1] >= workload.int("q"):
        return "more rows than queries"
    several = workload.int("q") > queries
    if is_causal(workload) and several and queries % keys:
        return "the diagonal does not meet the blocks of keys"
    if is_causal(workload) and several and workload.int("page"):
        return "paged keys of several causal blocks of queries"  # which pages there are would depend on the block
    if schedule["ahead"] and least_blocks < 2:
        return "nothing is ahead"
    if schedule["outer"] == "queries" and not several:
        return "there is one block of queries"
    return "more stages than blocks of keys" if stages > max(1, -(-workload.int("kv") // keys)) else None


class AttentionEmitter:
    """See `space.Emitter`."""

    operator = "attention"
    space = staticmethod(space)

    def legal(self, workload: Workload, machine: Machine, schedule: Schedule) -> str | None:
        """Registers and shared memory."""
        found = plan(workload, machine, schedule)
        if found.wasted:
            return found.wasted
        limits = gpu(machine).occupancy
        if _registers(found, workload, machine) > limits.registers_per_thread:
            return "more registers than a thread has"
        held = _resident(found, workload, machine)
        if held > 1 and is_causal(workload) and found.blocks > 1:
            return "blocks of several lengths share an SM"  # to be timed only by simulating every SM
        return None if held else "no SM holds a block"

    def prior_cycles(self, workload: Workload, machine: Machine, schedule: Schedule) -> float:
        """Waves of blocks of queries, each at the pace of the slower of multiplication and weights."""
        spec, found = gpu(machine), plan(workload, machine, schedule)
        kind = schedules.multiply_type(workload, spec)
        memory = machine.memories[spec.global_memory]
        head = workload.int("head")
        padded = -(-found.rows // spec.tensor_cores.rows) * spec.tensor_cores.rows
        multiply = 2 * padded * found.keys * head / kind.multiply_adds_per_cycle
        pairs = found.rows * found.keys
        vector = spec.vector
        weigh = pairs * (1 / vector.special_lanes + 2 / vector.half_lanes + 1 / vector.lanes)
        weigh += found.rows * head / vector.lanes + 2 * vector.shuffle + 6 * spec.barrier
        held = _resident(found, workload, machine) * found.consumers
        alone = multiply + weigh if not found.ahead else max(multiply, weigh)
        each = max(multiply, weigh, alone / held)  # of one consumer, whose turn comes as often as there are others
        moved = 2 * found.keys * head * size_bytes(kind.input)
        copied = moved * machine.cores / spec.cache.bytes_per_cycle / found.consumers
        heads = workload.int("batch") * workload.int("heads") // found.heads
        steps = found.blocks * (found.seen + found.edge) + found.grow * found.blocks * (found.blocks - 1) / 2
        waves = max(heads * steps / machine.cores, (found.seen + found.edge + found.grow * (found.blocks - 1)))
        rounds = -(-heads * found.blocks // machine.cores)
        apart = (memory.latency * machine.clock_hz + spec.block_start + 2000) / _resident(found, workload, machine)
        return waves * found.consumers * max(each, copied) + rounds * apart + spec.launch * machine.clock_hz

    def lower(self, workload: Workload, machine: Machine, schedule: Schedule) -> Program:
        """The program."""
        found = plan(workload, machine, schedule)
        kernel = FlashKernel(found, workload)
        heads = workload.int("heads") // workload.int("kv_heads")
        grid = [("b", workload.int("batch")), ("g", workload.int("kv_heads")), ("h", heads // found.heads)]
        grid.insert(0 if schedule["outer"] == "queries" else 3, ("i", found.blocks))
        streams = [kernel.copies(), *(kernel.attend(c) for c in range(found.consumers))]
        return Program(
            name=workload.operator,
            machine=machine.name,
            workload=str(workload),
            tensors=schedules.tensors(workload, machine),
            buffers=tuple(kernel.buffers),
            semaphores=tuple(kernel.semaphores),
            streams=tuple(streams),
            grid=tuple(grid),
            place="dispatch",
        )


def _registers(found: Plan, workload: Workload, machine: Machine) -> int:
    """Per thread, as they are given out."""
    needed = -(-register_bytes(found, workload) // (REGISTER_BYTES * WARPGROUP))
    needed += gpu(machine).occupancy.register_overhead
    return -(-needed // REGISTER_UNIT) * REGISTER_UNIT


def _shared_bytes(found: Plan, workload: Workload) -> int:
    head, size = workload.int("head"), size_bytes(workload.word("dtype"))
    return (found.rows * found.consumers + 2 * found.stages * found.keys) * head * size


def _resident(found: Plan, workload: Workload, machine: Machine) -> int:
    """Blocks that one SM holds at once."""
    limits = gpu(machine).occupancy
    registers = WARP * limits.copy_registers
    registers += found.consumers * WARPGROUP * _registers(found, workload, machine)
    shared = _shared_bytes(found, workload) + limits.shared_reserved
    return min(
        limits.blocks,
        limits.threads // (WARP + found.consumers * WARPGROUP),
        limits.registers // (registers * REGISTER_BYTES),
        limits.shared // shared if shared <= limits.shared_per_block else 0,
    )


EMITTER: Emitter = AttentionEmitter()
