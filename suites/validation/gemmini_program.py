"""A given Gemmini mapping as a program: blocks from DRAM, and inside each the order of Gemmini's loop unrollers.

What is taken from the RTL (ucb-bar/gemmini at 03fa3d1, LoopConv.scala; LoopMatmul.scala):
  - two blocks are in flight, each in its half of scratchpad and accumulator; a matrix product finds an operand that its
    half still holds, a convolution loads both operands for every block (its unroller has no way to keep one);
  - convolution: weights are walked outputs, kernel rows, kernel columns, channels; computing waits for all loads of its
    block, storing for all computing of its block;
  - matrix product: inner length outermost, then outputs, then rows; computing follows the loads, storing the last pass;
  - one command computes at most 16 rows, all of one row of the output; the command that computes the last rows under
    one tile of weights also shifts in the next tile.
One stream holds shifts and multiplications, like Gemmini's one execute queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from presil.kernels.emitters.systolic.assemble import epilogue, tensors
from presil.kernels.emitters.systolic.blocking import Dims, filled, packed, part
from presil.kernels.emitters.systolic.images import DirectLayout
from presil.kernels.emitters.systolic.sequence import numbered
from presil.kernels.emitters.systolic.tiling import Axis, Condition, Places, Tile, nest, number
from presil.kernels.operators.operator import Workload
from presil.simulators.machine import Machine
from presil.simulators.program import (
    Affine,
    Attribute,
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
from presil.simulators.systolic.spec import Systolic, systolic

from .gemmini_halves import HALVES, count, following, ring, slots
from .gemmini_walk import Walk, walk, whole
from .mapping import Mapping

Nodes = tuple[Node, ...]
_SHIFTED, _USED, _LAST = "plane shifted", "plane in use", "last under these weights"


def gemmini_program(workload: Workload, mapping: Mapping, machine: Machine) -> Program:
    """The program of `mapping` for a matmul or conv2d without bias, int8 in and out."""
    spec = systolic(machine)
    emitter = _Emitter(walk(workload, mapping, spec.array), workload)
    return Program(
        name=workload.operator,
        machine=machine.name,
        workload=str(workload),
        tensors=tensors(workload, machine),
        buffers=emitter.buffers(spec),
        streams=emitter.streams(),
        semaphores=tuple(Semaphore(name, initial) for name, initial in emitter.initial.items()),
    )


class _Emitter:
    """The streams of one mapping."""

    def __init__(self, plan: Walk, workload: Workload) -> None:
        self.plan, self.epilogue = plan, epilogue(workload)
        self.conv = workload.operator == "conv2d"
        self.x_ring = plan.outer if self.conv else ring(plan.outer, frozenset({"m", "k"}))
        self.w_ring = plan.outer if self.conv else ring(plan.outer, frozenset({"n", "k"}))
        self.initial: dict[str, int] = {}

    def buffers(self, spec: Systolic) -> tuple[Buffer, ...]:
        """Two halves of each space where a second block exists."""
        layout, array = self.plan.layout, spec.array
        part_of_y = (1, 1, *layout.y_block[2:]) if self.conv else (layout.y_block[0], array.columns)
        return packed(
            [
                ("xb", "int8", layout.x_block, slots(self.x_ring), "scratchpad"),
                ("wb", "int8", layout.w_block, slots(self.w_ring), "scratchpad"),
                ("acc", "int32", layout.y_block, slots(self.plan.sums), "accumulator"),
                ("yb", "int8", part_of_y, HALVES, "scratchpad"),
                ("plane", "int8", (array.rows, array.columns), array.weight_planes, "planes"),
            ]
        )

    def streams(self) -> tuple[Stream, ...]:
        """Loads of both operands, the execute queue, scaling, storing."""
        return (
            Stream("loadw", self._loads("w", self.w_ring, self._load_w)),
            Stream("loadx", self._loads("x", self.x_ring, self._load_x)),
            Stream("execute", self._execute()),
            Stream("scale", self._out(self._scale)),
            Stream("store", self._out(self._store)),
        )

    def _signal(self, name: str, initial: int = 0) -> tuple[Count, ...]:
        self.initial.setdefault(name, initial)
        return (Count(name),)

    def _free(self, name: str, ring: Sequence[Axis]) -> tuple[Count, ...]:
        """The unit that frees a half; none where no half is used twice."""
        return self._signal(f"{name}_free", HALVES) if count(ring) > HALVES else ()

    # Loads.

    def _loads(
        self, name: str, ring: tuple[Axis, ...], load: Callable[[Places, Affine], Sequence[Instruction]]
    ) -> Nodes:
        chunk = frozenset(a.name for a in self.plan.chunks)

        def body(places: Places, true: frozenset[str]) -> list[Node]:
            loads = list(load({**self.plan.fixed, **places}, number(ring, places)))
            loads[0] = replace(loads[0], waits=self._free(name, ring) if "first" in true else ())
            loads[-1] = replace(loads[-1], signals=self._signal(f"{name}_full"))
            return list(loads)

        axes = (*ring, *self.plan.chunks)
        return nest(axes, body, [Condition("first", "first", chunk)], self._signature)

    def _signature(self, axis: Axis, tile: Tile) -> object:
        return self.plan.layout.x_signature(axis, tile)

    def _load_x(self, places: Places, slot: Affine) -> Sequence[Instruction]:
        if self.conv:
            return self.plan.layout.load_x(slot, places)
        m, k = places["m"], places["k"]
        inside = (Dim(Affine(), m.size), Dim(self._chunk_start(places), k.size))
        block = Region("xb", slot, part(inside, self.plan.layout.x_block))
        source = Region("x", None, (Dim(Affine(), 1), Dim(m.start, m.size), Dim(k.start, k.size)))
        return [Instruction("load", (block, source))]

    def _load_w(self, places: Places, slot: Affine) -> Sequence[Instruction]:
        layout, k, n = self.plan.layout, places["k"], places["n"]
        dims = layout.w_filled(places)
        if not self.conv:
            dims = part((Dim(self._chunk_start(places), k.size), Dim(Affine(), n.size)), layout.w_block)
        return [Instruction("load", (Region("wb", slot, dims), layout.w_source(places)))]

    def _chunk_start(self, places: Places) -> Affine:
        """Where the part of a block that loads apart begins, along the inner length."""
        return places["k"].start if self.plan.chunks else Affine()

    # The execute queue.

    def _execute(self) -> Nodes:
        plan = self.plan
        chunk = frozenset(a.name for a in plan.chunks)
        names = frozenset(a.name for a in plan.outer)
        x_inside, w_inside = names - {a.name for a in self.x_ring}, names - {a.name for a in self.w_ring}
        conditions = [
            Condition("x_first", "first", x_inside),
            Condition("w_first", "first", w_inside),
            Condition("x_last", "last", x_inside | chunk),
            Condition("w_last", "last", w_inside | chunk),
            Condition("block_first", "first", chunk | {"k"}),
            Condition("block_last", "last", chunk | {"k"}),
        ]
        nodes = nest((*plan.outer, *plan.chunks), self._chunk, conditions)
        nodes = numbered(nodes, _SHIFTED)
        nodes = numbered(nodes, _USED, lambda i: i.attribute(_LAST) is not None)
        return _cleaned(nodes)

    def _chunk(self, outside: Places, true: frozenset[str]) -> Sequence[Node]:
        """All commands of a block, or of a part of it that loads apart."""
        plan = self.plan
        places = {**plan.fixed, **outside}
        tiles, commands = plan.weights(places), plan.rows(places)
        weights, rows = [a.name for a in tiles], [a.name for a in commands]
        summed = {"r", "s", "kk"} & set(weights)
        conditions = [
            Condition("new weights", "first", frozenset(rows)),
            Condition(_LAST, "last", frozenset(rows)),
            Condition("first", "first", frozenset(weights + rows)),
            Condition("last", "last", frozenset(weights + rows)),
            Condition("summed", "last", frozenset(summed | set(rows))),
            *(Condition(f"last {a}", "last", frozenset(weights[i:])) for i, a in enumerate(weights)),
        ]

        def body(inside: Places, now: frozenset[str]) -> list[Node]:
            here = {**places, **inside}
            command = self._command(here, true, now)
            if _LAST not in now or f"last {weights[0]}" in now:
                return [command]
            return [self._shift(places, following(tiles, inside, now), ()), command]

        first = {a.name: whole(a.tiles[0].size) for a in tiles}
        waits = self._signal("w_full") if "w_first" in true else ()
        return [self._shift(places, first, waits), *nest((*tiles, *commands), body, conditions)]

    def _shift(self, places: Places, tile: Places, waits: tuple[Count, ...]) -> Instruction:
        here = {**places, **tile}
        kk, nn = here["kk"], here["nn"]
        inner = Dim(kk.start + self._chunk_start(here), kk.size)
        weights = self.plan.layout.w_part(here, inner, Dim(nn.start, nn.size))
        source = Region("wb", number(self.w_ring, places), weights)
        return Instruction("shift", (Region(_SHIFTED, Affine()), source), (), waits, self._signal("plane_full"))

    def _command(self, here: Places, true: frozenset[str], now: frozenset[str]) -> Instruction:
        """One multiplication, of at most 16 rows."""
        plan = self.plan
        waits: tuple[Count, ...] = ()
        if "first" in now:
            waits = self._signal("x_full") if "x_first" in true else ()
            waits += self._free("acc", plan.sums) if "block_first" in true else ()
        waits += self._signal("plane_full") if "new weights" in now else ()
        signals: tuple[Count, ...] = ()
        if "last" in now:
            signals = self._free("x", self.x_ring) if "x_last" in true else ()
            signals += self._free("w", self.w_ring) if "w_last" in true else ()
        if "block_last" in true and ("last" if self.conv else "summed") in now:
            signals += self._signal("acc_full")
        total = sum((here[n].index for n in ("k", "r", "s", "kk") if n in here), Affine())
        attributes: tuple[tuple[str, Attribute], ...] = (
            ("accumulate", total if total.terms else int(total.base > 0)),
            *(((_LAST, 1),) if _LAST in now else ()),
        )
        acc, x = self._operands(here)
        slot = number(plan.sums, here)
        operands = (Region("acc", slot, acc), Region("xb", number(self.x_ring, here), x), Region(_USED, Affine()))
        return Instruction("matmul", operands, attributes, waits, signals)

    def _operands(self, here: Places) -> tuple[Dims, Dims]:
        """(sums, rows of x) of a command."""
        kk, nn, segment = here["kk"], here["nn"], here["segment"]
        outputs = Dim(nn.start, nn.size)
        if not self.conv:
            rows = Dim(segment.start, segment.size)
            return (rows, outputs), (rows, Dim(kk.start + self._chunk_start(here), kk.size))
        assert isinstance(self.plan.layout, DirectLayout)
        geometry, image = self.plan.layout.geometry, Dim(Affine(), 1)
        y = (image, Dim(here["row"].start, 1), Dim(segment.start, segment.size), outputs)
        pixel_row = here["row"].start * geometry.stride + here["r"].index * geometry.dilation
        pixel = segment.start * geometry.stride + here["s"].index * geometry.dilation
        return y, (image, Dim(pixel_row, 1), Dim(pixel, segment.size, geometry.stride), Dim(kk.start, kk.size))

    # Out of the accumulator.

    def _out(self, step: Callable[[Places, frozenset[str]], Instruction]) -> Nodes:
        plan = self.plan

        def block(places: Places, _: frozenset[str]) -> Sequence[Node]:
            here = {**plan.fixed, **places}
            axes = plan.parts(here)
            names = frozenset(a.name for a in axes)
            conditions = [Condition("first", "first", names), Condition("last", "last", names)]
            return nest(axes, lambda inside, true: [step({**here, **inside}, true)], conditions)

        return numbered(nest(plan.sums, block), "yb")

    def _y_part(self, places: Places) -> tuple[Dims, Dims]:
        """(in the accumulator, in the ring of results) of a part of a block."""
        if self.conv:
            sizes = (places["w"].size, places["n"].size)
            inside = (Dim(Affine(), 1), Dim(places["row"].start, 1), *(Dim(Affine(), n) for n in sizes))
            return inside, filled((1, 1, *sizes), (1, 1, *self.plan.layout.y_block[2:]))
        rows, nn = Dim(Affine(), places["m"].size), places["nn"]
        shape = (self.plan.layout.y_block[0], self.plan.array.columns)
        return (rows, Dim(nn.start, nn.size)), filled((rows.size, nn.size), shape)

    def _scale(self, places: Places, true: frozenset[str]) -> Instruction:
        sums, part_of_y = self._y_part(places)
        acc = Region("acc", number(self.plan.sums, places), sums)
        waits = self._signal("acc_full") if "first" in true or not self.conv else ()
        signals = self._free("acc", self.plan.sums) if "last" in true else ()
        return Instruction(
            self.epilogue.op,
            (Region("yb", Affine(), part_of_y), acc),
            self.epilogue.attributes,
            (*waits, *self._signal("y_free", HALVES)),
            (*signals, *self._signal("y_full")),
        )

    def _store(self, places: Places, true: frozenset[str]) -> Instruction:
        n = places["n"]
        if self.conv:
            h, w = places["h"], places["w"]
            row = Dim(h.start + places["row"].start, 1)
            dims: Dims = (Dim(Affine(), 1), row, Dim(w.start, w.size), Dim(n.start, n.size))
        else:
            m, nn = places["m"], places["nn"]
            dims = (Dim(Affine(), 1), Dim(m.start, m.size), Dim(n.start + nn.start, nn.size))
        y = (Region("y", None, dims), Region("yb", Affine(), self._y_part(places)[1]))
        return Instruction("store", y, (), self._signal("y_full"), self._signal("y_free", HALVES))


def _cleaned(nodes: Nodes) -> Nodes:
    """Without what only the numbering of the planes needed."""
    done: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            done.append(replace(node, body=_cleaned(node.body)))
            continue
        operands = tuple(replace(r, name="plane") if r.name in (_SHIFTED, _USED) else r for r in node.operands)
        attributes = tuple(a for a in node.attributes if a[0] != _LAST)
        done.append(replace(node, operands=operands, attributes=attributes))
    return tuple(done)
