"""The streams of a flash-attention block: copies, and consumers that go over blocks of keys with a running maximum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from presil.simulators.formats import size_bytes
from presil.simulators.program import (
    Affine,
    Buffer,
    Count,
    Dim,
    Instruction,
    Loop,
    Node,
    Region,
    Semaphore,
    Stream,
)

from ...operators.operator import Workload
from .pages import gathers

LOWEST = -3.0e38
STATISTICS = ("top", "new", "most", "scale", "total")
ZERO = Affine()

Counts = tuple[Count, ...]
_Block = Callable[[Affine], list[Node]]


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
    page: int  # keys of a page; 0: they lie in one piece
    stages: int
    ahead: bool
    late_first: bool
    seen: int
    grow: int
    edge: int
    blocks: int  # of queries
    wasted: str | None


def is_causal(workload: Workload) -> bool:
    """Whether there is anything to mask: a single query sees all keys."""
    return workload["causal"] == "true" and workload.int("q") > 1


def register_bytes(found: Plan, workload: Workload) -> int:
    """Of one consumer. Outputs take the place of scores that are no longer needed."""
    head, size = workload.int("head"), size_bytes(workload.word("dtype"))
    scores = (2 if found.ahead else 1) * found.rows * found.keys * 4
    scores = max(scores, found.rows * head * size)
    sums, weights = found.rows * head * 4, found.rows * found.keys * size
    return scores + sums + weights + len(STATISTICS) * found.rows * 4


class FlashKernel:
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
        if not last:
            self.place = ZERO
        self.key_head = Dim(Affine.var("g"), 1)
        shared = workload.int("heads") // workload.int("kv_heads")
        self.heads = Dim(Affine.var("g", shared) + Affine.var("h"), found.heads)
        seen = Affine(found.seen) + self.place * found.grow
        self.seen = (seen.base, seen.terms)
        self.most_seen = found.seen + found.grow * last

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
            return [
                node for name in ("k", "v") for node in self._fetched(name, number, counts[f"free{name}"], counts[name])
            ]

        nodes: list[Node] = [Instruction("copy", (Region("qs", ZERO), q), (), (), counts["q"])]
        nodes += self._blocks(block, block)
        return Stream("copies", tuple(nodes))

    def _fetched(self, name: str, number: Affine, waits: Counts, signals: Counts) -> list[Node]:
        """One block of k or v into its ring."""
        found = self.plan
        b = Dim(Affine.var("b"), 1)
        if found.page:
            return list(gathers(name, number, self.workload, found.keys, (waits, signals)))
        keys = (b, self.key_head, Dim(number * found.keys, found.keys), Dim(ZERO, self.head))
        return [Instruction("copy", (Region(f"{name}s", number), Region(name, None, keys)), (), waits, signals)]

    def _blocks(self, seen: _Block, edge: _Block, skip: int = 0) -> list[Node]:
        """`seen` for the blocks of keys that all queries see, then `edge` for the others; the first `skip` left out."""
        found = self.plan
        nodes: list[Node] = []
        base, terms = self.seen
        if self.most_seen > skip:
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
        if self.most_seen:
            nodes.append(Loop("j", base, tuple(turn(Affine.var("j"), "")), terms))
        for number in range(found.edge - 1):
            nodes += turn(Affine(base, terms) + number, "edge")
        return nodes + last(Affine(base, terms) + (found.edge - 1), "edge")

    def _registers(self, c: str) -> None:
        found = self.plan
        rows, size = found.rows, size_bytes(self.dtype)
        at = int(c) * -(-register_bytes(found, self.workload) // 512) * 512
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
