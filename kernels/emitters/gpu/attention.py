"""Attention on a GPU: blocks of queries go over the keys with a running maximum (FlashAttention).

    copies        q once; for each block of keys: k, v, into rings of shared memory
    attend c      for each block of keys: scores = q k' (mma); new maximum, weights, sums (vector); y += weights v (mma)

Consumers share the rows of the block. With `ahead` the scores of the next block of keys are under way while the weights
of this one are made. Where `causal`, blocks that all queries see come first, in a loop whose trips grow with the place
of the queries; those at the diagonal are masked. With `pack` the query heads that share keys are rows of one block.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from presil.simulators.formats import size_bytes
from presil.simulators.gpu.occupancy import REGISTER_BYTES, REGISTER_UNIT, WARP, WARPGROUP
from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import Machine
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
)

from ...operators.operator import Workload
from ...space import Axis, Emitter, Schedule, Space
from . import schedules

ROWS = (16, 32, 64, 128, 192)
KEYS = (16, 32, 64, 80, 96, 112, 128, 144, 160, 176, 192)
LOWEST = -3.0e38
STATISTICS = ("top", "new", "most", "scale", "total")
ZERO = Affine()


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule worked out. `rows`: of one consumer; `queries`: positions of one block; `heads`: packed into its rows.

    Key blocks of a block of queries: `seen` + `grow` * its place that all of it sees, then `edge` that are masked.
    """

    rows: int
    consumers: int
    queries: int
    heads: int
    keys: int
    stages: int
    ahead: bool
    late_first: bool
    seen: int
    grow: int
    edge: int
    blocks: int  # of queries
    wasted: str | None


_Block = Callable[[Affine], list[Node]]


def is_causal(workload: Workload) -> bool:
    """Whether there is anything to mask: a single query sees all keys."""
    return workload["causal"] == "true" and workload.int("q") > 1


def space(workload: Workload, machine: Machine) -> Space:
    """Rows, keys, stages, consumers, software pipelining, packing of heads, order of blocks."""
    schedules.multiply_type(workload, gpu(machine))
    shared = workload.int("heads") // workload.int("kv_heads")
    return Space(
        (
            Axis("rows", ROWS),
            Axis("keys", schedules.ladder(workload.int("kv"), KEYS)),
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
    behind = kv - q
    if is_causal(workload):
        seen = (behind + 1) // keys
        grow = queries // keys
        edge = -(-(queries + behind) // keys) - seen
    else:
        seen, grow, edge = kv // keys, 0, int(kv % keys > 0)
    blocks = -(-q // queries) if queries else 0
    return Plan(
        rows=rows // consumers,
        consumers=consumers,
        queries=queries,
        heads=heads,
        keys=keys,
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
    if is_causal(workload) and queries % keys:
        return "the diagonal does not meet the blocks of keys"
    if schedule["ahead"] and least_blocks < 2:
        return "nothing is ahead"
    if schedule["outer"] == "queries" and workload.int("q") <= queries:
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
        kernel = _Kernel(found, workload)
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


def _register_bytes(found: Plan, workload: Workload) -> int:
    """Of one consumer. Outputs take the place of scores that are no longer needed."""
    head, size = workload.int("head"), size_bytes(workload.word("dtype"))
    scores = (2 if found.ahead else 1) * found.rows * found.keys * 4
    scores = max(scores, found.rows * head * size)
    sums, weights = found.rows * head * 4, found.rows * found.keys * size
    return scores + sums + weights + len(STATISTICS) * found.rows * 4


def _registers(found: Plan, workload: Workload, machine: Machine) -> int:
    """Per thread, as they are given out."""
    needed = -(-_register_bytes(found, workload) // (REGISTER_BYTES * WARPGROUP))
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


class _Kernel:
    """One kernel on its way: its buffers and semaphores grow as its streams are written."""

    def __init__(self, found: Plan, workload: Workload) -> None:
        self.plan, self.workload = found, workload
        self.head, self.dtype = workload.int("head"), workload.word("dtype")
        self.factor = 1 / math.sqrt(self.head)
        self.causal = is_causal(workload)
        size = size_bytes(self.dtype)
        rows, ring = found.rows * found.consumers, found.stages * found.keys * self.head * size
        at = rows * self.head * size
        self.buffers = [
            Buffer("qs", self.dtype, (rows, self.head), 1, "shared", 0),
            Buffer("ks", self.dtype, (found.keys, self.head), found.stages, "shared", at),
            Buffer("vs", self.dtype, (found.keys, self.head), found.stages, "shared", at + ring),
        ]
        self.semaphores: list[Semaphore] = []
        # Where causal, blocks of queries that see most can come first.
        last = found.blocks - 1
        self.place = Affine(last, (("i", -1),)) if found.late_first else Affine.var("i")
        self.key_head = Dim(Affine.var("g"), 1)
        shared = workload.int("heads") // workload.int("kv_heads")
        self.heads = Dim(Affine.var("g", shared) + Affine.var("h"), found.heads)
        seen = Affine(found.seen) + self.place * found.grow
        self.seen = (seen.base, seen.terms)

    def copies(self) -> Stream:
        """q, then k and v of each block of keys."""
        found = self.plan
        consumers = range(found.consumers)
        counts = {kind: tuple(Count(f"{kind}{c}") for c in consumers) for kind in ("q", "k", "v", "freek", "freev")}
        for c in consumers:
            self.semaphores += [Semaphore(f"{kind}{c}") for kind in ("q", "k", "v")]
            self.semaphores += [Semaphore(f"{kind}{c}", found.stages) for kind in ("freek", "freev")]
        b = Dim(Affine.var("b"), 1)
        first = self.place * found.queries
        q = Region("q", None, (b, self.heads, Dim(first, found.queries), Dim(ZERO, self.head)))

        def block(number: Affine) -> list[Node]:
            keys = (b, self.key_head, Dim(number * found.keys, found.keys), Dim(ZERO, self.head))
            return [
                Instruction("copy", (Region("ks", number), Region("k", None, keys)), (), counts["freek"], counts["k"]),
                Instruction("copy", (Region("vs", number), Region("v", None, keys)), (), counts["freev"], counts["v"]),
            ]

        nodes: list[Node] = [Instruction("copy", (Region("qs", ZERO), q), (), (), counts["q"])]
        nodes += self._blocks(block, block)
        return Stream("copies", tuple(nodes))

    def _blocks(self, seen: _Block, edge: _Block, skip: int = 0) -> list[Node]:
        """`seen` for the blocks of keys that all queries see, then `edge` for the others; the first `skip` left out."""
        found = self.plan
        nodes: list[Node] = []
        base, terms = self.seen
        if base - skip > 0 or terms:
            nodes.append(Loop("j", base - skip, tuple(seen(Affine.var("j") + skip)), terms))
        for number in range(found.edge):
            nodes += edge(Affine(base, terms) + number)
        return nodes

    def attend(self, consumer: int) -> Stream:
        """The rows of one consumer."""
        found = self.plan
        c = str(consumer)
        self._registers(c)
        self.semaphores += [Semaphore(f"{kind}{c}") for kind in ("scored", "weighed", "out")]
        self.semaphores.append(Semaphore(f"summed{c}", 1))
        whole = {name: Region(f"{name}{c}", ZERO) for name in (*STATISTICS, "y")}
        nodes: list[Node] = [
            Instruction("fill", (whole["top"],), (("value", LOWEST),)),
            Instruction("fill", (whole["total"],), (("value", 0.0),)),
            Instruction("fill", (whole["y"],), (("value", 0.0),)),
            Instruction("sync", (), (), (Count(f"q{c}"),)),
        ]
        if found.ahead:
            nodes += self._ahead(c)
        else:
            nodes += self._blocks(
                lambda number: [self._score(c, number), *self._weigh(c, number, ""), self._sum(c, number)],
                lambda number: [self._score(c, number), *self._weigh(c, number, "edge"), self._sum(c, number)],
            )
        b = Dim(Affine.var("b"), 1)
        first = self.place * found.queries + consumer * found.rows
        size = found.queries if found.heads > 1 else found.rows
        target = Region("y", None, (b, self.heads, Dim(first, size), Dim(ZERO, self.head)))
        out = Region(f"out{c}", ZERO)
        nodes += [
            Instruction("reciprocal", (whole["scale"], whole["total"])),
            Instruction("multiply", (whole["y"], whole["y"], whole["scale"]), (), (Count(f"summed{c}"),)),
            Instruction("cast", (out, whole["y"]), (), (), (Count(f"out{c}"),)),
            Instruction("store", (target, out), (), (Count(f"out{c}"),)),
        ]
        return Stream(f"attend{c}", tuple(nodes))

    def _ahead(self, c: str) -> list[Node]:
        """The scores of each block are begun before the weights of the block before it."""
        found = self.plan
        base, terms = self.seen
        nodes: list[Node] = [self._score(c, ZERO)]

        def turn(number: Affine, kind: str) -> list[Node]:
            return [self._score(c, number + 1), *self._weigh(c, number, kind), self._sum(c, number)]

        def last(number: Affine, kind: str) -> list[Node]:
            return [*self._weigh(c, number, kind), self._sum(c, number)]

        steps = base + found.edge
        if not found.edge:  # the last of the blocks that all see is the last of all
            if steps > 1 or terms:
                nodes.append(Loop("j", base - 1, tuple(turn(Affine.var("j"), "")), terms))
            return nodes + last(Affine(base - 1, terms), "")
        if base or terms:
            nodes.append(Loop("j", base, tuple(turn(Affine.var("j"), "")), terms))
        for number in range(found.edge - 1):
            nodes += turn(Affine(base, terms) + number, "edge")
        return nodes + last(Affine(base, terms) + (found.edge - 1), "edge")

    def _registers(self, c: str) -> None:
        found = self.plan
        rows, size = found.rows, size_bytes(self.dtype)
        at = int(c) * -(-_register_bytes(found, self.workload) // 512) * 512
        scores = (2 if found.ahead else 1) * rows * found.keys * 4
        self.buffers.append(Buffer(f"s{c}", "fp32", (rows, found.keys), 2 if found.ahead else 1, "registers", at))
        self.buffers.append(Buffer(f"out{c}", self.dtype, (rows, self.head), 1, "registers", at))
        at += max(scores, rows * self.head * size)
        self.buffers.append(Buffer(f"y{c}", "fp32", (rows, self.head), 1, "registers", at))
        at += rows * self.head * 4
        self.buffers.append(Buffer(f"p{c}", self.dtype, (rows, found.keys), 1, "registers", at))
        at += rows * found.keys * size
        for name in STATISTICS:
            self.buffers.append(Buffer(f"{name}{c}", "fp32", (rows, 1), 1, "registers", at))
            at += rows * 4

    def _score(self, c: str, number: Affine) -> Instruction:
        found = self.plan
        mine = (Dim(Affine(int(c) * found.rows), found.rows), Dim(ZERO, self.head))
        operands = (Region(f"s{c}", number), Region("qs", ZERO, mine), Region("ks", number))
        return Instruction(
            "mma",
            operands,
            (("accumulate", 0), ("transpose", "b")),
            (Count(f"k{c}"),),
            (Count(f"freek{c}"), Count(f"scored{c}")),
        )

    def _weigh(self, c: str, number: Affine, kind: str) -> list[Node]:
        """Weights of one block of keys from its scores; what has been summed is scaled to the new maximum."""
        s, p, y = Region(f"s{c}", number), Region(f"p{c}", ZERO), Region(f"y{c}", ZERO)
        top, new, most, scale, total = (Region(f"{name}{c}", ZERO) for name in STATISTICS)
        scored: tuple[Count, ...] = (Count(f"scored{c}"),)
        nodes: list[Node] = []
        if kind == "edge":
            nodes.append(self._hide(c, number, s, scored))
            scored = ()
        nodes += [
            Instruction("max", (most, s), (), scored),
            Instruction("scale", (most, most), (("factor", self.factor), ("offset", 0.0))),
            Instruction("maximum", (new, top, most)),
            Instruction("exp", (scale, top, new)),
            Instruction("cast", (top, new)),
            Instruction("exp", (s, s, new), (("factor", self.factor),)),
            Instruction("multiply", (total, total, scale)),
            Instruction("sum", (total, s), (("accumulate", 1),)),
            Instruction("multiply", (y, y, scale), (), (Count(f"summed{c}"),)),
            Instruction("cast", (p, s), (), (), (Count(f"weighed{c}"),)),
        ]
        return nodes

    def _hide(self, c: str, number: Affine, s: Region, scored: tuple[Count, ...]) -> Instruction:
        """Keys that a query does not see, or that are none."""
        found = self.plan
        column = number * found.keys
        if self.causal:
            behind = self.workload.int("kv") - self.workload.int("q")
            row = self.place * found.queries + (int(c) * found.rows + behind)
            return Instruction("mask", (s, s), _sorted(column=column, row=row), scored)
        return Instruction("limit", (s, s), _sorted(column=column, most=self.workload.int("kv")), scored)

    def _sum(self, c: str, number: Affine) -> Instruction:
        operands = (Region(f"y{c}", ZERO), Region(f"p{c}", ZERO), Region("vs", number))
        waits = (Count(f"v{c}"), Count(f"weighed{c}"))
        return Instruction("mma", operands, (("accumulate", 1),), waits, (Count(f"freev{c}"), Count(f"summed{c}")))


def _sorted(**attributes: Affine | int) -> tuple[tuple[str, Affine | int], ...]:
    """Attributes by name; an expression without variables as its number."""
    plain = {k: v.base if isinstance(v, Affine) and not v.terms else v for k, v in attributes.items()}
    return tuple(sorted(plain.items()))


EMITTER: Emitter = AttentionEmitter()
