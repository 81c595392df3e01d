"""Matrix products in blocks on a systolic machine: the streams that matmul and convolution share.

A contraction is `y[m, n] = sum over k of x[m, k] w[k, n]` for each group g. How x, w and y lie in memory is for the
operator to say (a `Layout`); when blocks move, where streams wait and who frees what is decided here:

  loadx, loadw   blocks from memory into rings       shift    weights into a plane of the array
  matrix         rows of x through the plane, sums in the accumulator (output-stationary: mac, then drain)
  vector         bias, activation, requantisation    store    the block of y to memory

Each ring has a pair of semaphores, `NAME_full` and `NAME_free`, one unit a tile. A ring that is never reused has no
`free`: a wait that orders nothing is not written.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from presil.simulators.program import (
    Affine,
    Attribute,
    Buffer,
    Count,
    Dim,
    Instruction,
    Node,
    Region,
    Semaphore,
    Stream,
)
from presil.simulators.systolic.legality import plane_space
from presil.simulators.systolic.spec import Systolic

from .blocking import Blocking, Epilogue, Layout, columns, filled, packed
from .sequence import numbered
from .tiling import Axis, Condition, Places, cut, nest, number

Step = Callable[[Places, frozenset[str], int], Instruction]


class Contraction:
    """Emits the streams, buffers and semaphores of one core."""

    def __init__(self, layout: Layout, blocking: Blocking, epilogue: Epilogue, spec: Systolic) -> None:
        self.layout, self.b, self.epilogue, self.spec = layout, blocking, epilogue, spec
        self.arrays = blocking.arrays
        self.initial: dict[str, int] = {}  # semaphores used so far
        self.streams = self._streams()

    @property
    def semaphores(self) -> tuple[Semaphore, ...]:
        """The semaphores that the streams use."""
        return tuple(Semaphore(name, initial) for name, initial in self.initial.items())

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """All buffers, packed from offset 0 of each space. Whether they fit is for `estimate.legal` to say."""
        b, array, layout = self.b, self.spec.array, self.layout
        weights = "weights" if self.spec.weight_buffer else "scratchpad"
        wanted = [
            ("xb", b.input, layout.x_block, b.x_ring, "scratchpad"),
            ("wb", b.input, layout.w_block, b.w_ring, weights),
            ("acc", b.accumulator, layout.y_block, b.acc_ring, "accumulator"),
            ("yb", self.epilogue.dtype, layout.y_block, b.y_ring, "scratchpad"),
        ]
        if layout.bias:
            wanted.append(("bb", b.accumulator, layout.bias, 1, "scratchpad"))
        ws = b.dataflow == "ws"
        for unit in range(self.arrays):
            space = plane_space("planes" if ws else "results", unit, array.count)
            dtype = b.input if ws else b.accumulator
            wanted.append((self._named("plane", unit), dtype, (array.rows, array.columns), self._planes, space))
        return packed(wanted)

    @property
    def _planes(self) -> int:
        array = self.spec.array
        return array.weight_planes if self.b.dataflow == "ws" else array.result_planes

    def _streams(self) -> tuple[Stream, ...]:
        weights_unit = min(1, self.spec.dma.load_channels - 1)
        streams = [Stream("loadx", self._load_x()), Stream("loadw", self._load_w(), weights_unit)]
        for array in range(self.arrays):
            if self.b.dataflow == "ws":
                streams.append(Stream(self._named("shift", array), self._shift(array), array))
                streams.append(Stream(self._named("matrix", array), self._matmul(array), array))
            else:
                streams.append(Stream(self._named("matrix", array), self._mac(array), array))
                streams.append(Stream(self._named("drain", array), self._drain(array), array))
        return (*streams, Stream("vector", self._vector()), Stream("store", self._store()))

    # Names and semaphores.

    def _named(self, name: str, array: int) -> str:
        return name if self.arrays == 1 else f"{name}{array}"

    def _full(self, ring: str, array: int | None = None) -> tuple[Count, ...]:
        name = f"{ring}_full" if array is None else self._named(f"{ring}_full", array)
        self.initial.setdefault(name, 0)
        return (Count(name),)

    def _free(self, ring: str, tiles: int, slots: int, array: int | None = None) -> tuple[Count, ...]:
        """The unit that says a slot may be written again; none for a ring that is never reused."""
        if tiles <= slots:
            return ()
        name = f"{ring}_free" if array is None else self._named(f"{ring}_free", array)
        self.initial.setdefault(name, slots)
        return (Count(name),)

    def _x_free(self, array: int) -> tuple[Count, ...]:
        return self._free("x", self.b.x_tiles, self.b.x_ring, array)

    def _w_free(self, array: int) -> tuple[Count, ...]:
        return self._free("w", self.b.w_tiles, self.b.w_ring, array)

    def _acc_free(self, array: int) -> tuple[Count, ...]:
        return self._free("acc", self.b.y_tiles, self.b.acc_ring, array)

    def _plane_free(self, array: int) -> tuple[Count, ...]:
        return self._free("plane", self._steps, self._planes, array)

    def _y_free(self) -> tuple[Count, ...]:
        return self._free("y", self.b.y_tiles, self.b.y_ring)

    # Transfers.

    def _load_x(self) -> tuple[Node, ...]:
        b = self.b

        def body(places: Places, true: frozenset[str]) -> list[Node]:
            loads = list(self.layout.load_x(number(b.x_axes, places), places))
            waits = tuple(c for a in range(self.arrays) for c in self._x_free(a))
            signals = tuple(c for a in range(self.arrays) for c in self._full("x", a))
            loads[0] = replace(loads[0], waits=waits)
            loads[-1] = replace(loads[-1], signals=signals)
            return list(loads)

        head: tuple[Node, ...] = ()
        if self.layout.bias:
            # It needs no semaphore: x comes behind it through the same engine, and the vector unit behind x.
            head = (Instruction("load", (Region("bb", Affine()), Region("bias"))),)
        return (*head, *nest(b.x_axes, body, signature=self.layout.x_signature))

    def _load_w(self) -> tuple[Node, ...]:
        b = self.b

        def body(places: Places, true: frozenset[str]) -> list[Node]:
            block = Region("wb", number(b.w_axes, places), self.layout.w_filled(places))
            waits = tuple(c for a in range(self.arrays) for c in self._w_free(a))
            signals = tuple(c for a in range(self.arrays) for c in self._full("w", a))
            return [Instruction("load", (block, self.layout.w_source(places)), (), waits, signals)]

        return nest(b.w_axes, body)

    def _vector(self) -> tuple[Node, ...]:
        b, layout = self.b, self.layout

        def body(places: Places, true: frozenset[str]) -> list[Node]:
            tile = number(b.y_axes, places)
            rows = layout.y_filled(places)
            operands = [Region("yb", tile, rows), Region("acc", tile, rows)]
            if layout.bias:
                operands.append(Region("bb", Affine(), layout.bias_part(places)))
            arrays = range(self.arrays)
            waits = (*(c for a in arrays for c in self._full("acc", a)), *self._y_free())
            signals = (*(c for a in arrays for c in self._acc_free(a)), *self._full("y"))
            return [Instruction(self.epilogue.op, tuple(operands), self.epilogue.attributes, waits, signals)]

        return nest(b.y_axes, body)

    def _store(self) -> tuple[Node, ...]:
        b = self.b

        def body(places: Places, true: frozenset[str]) -> list[Node]:
            block = Region("yb", number(b.y_axes, places), self.layout.y_filled(places))
            return [Instruction("store", (self.layout.y_target(places), block), (), self._full("y"), self._y_free())]

        return nest(b.y_axes, body)

    # Arrays.

    def _inner(self, places: Places, array: int) -> tuple[int, tuple[Axis, ...]]:
        """(first column, axes) of the steps that one array takes in a block, outermost first."""
        first, count = columns(places[self.b.n.name].size, array, self.arrays)
        outputs = cut("nn", count, self.spec.array.columns)
        if self.b.dataflow == "os":
            return first, (outputs, *self.layout.taps)
        return first, (outputs, *self.layout.taps, cut("kk", self._length(places), self.spec.array.rows))

    def _length(self, places: Places) -> int:
        return self.layout.inner_length(places[self.b.k.name].size)

    @functools.cached_property
    def _steps(self) -> int:
        """Planes that one array fills in the whole program."""
        b, array = self.b, self.spec.array
        blocks = b.blocks // (b.n.count * b.k.count)
        outputs = sum(-(-columns(t.size, 0, self.arrays)[1] // array.columns) for t in b.n.tiles)
        if b.dataflow == "os":
            return blocks * b.k.count * outputs
        taps = math.prod(axis.count for axis in self.layout.taps)
        return blocks * outputs * taps * sum(-(-self.layout.inner_length(t.size) // array.rows) for t in b.k.tiles)

    def _walk(self, array: int, conditions: Sequence[Condition], step: Step) -> tuple[Node, ...]:
        """All steps of one array: the loops over blocks and, inside each, the loops of `_inner`."""

        def body(places: Places, true: frozenset[str]) -> Sequence[Node]:
            first, axes = self._inner(places, array)
            names = frozenset(a.name for a in axes)
            alive = [replace(c, axes=names) for c in conditions if c.name in true]
            taps = frozenset(a.name for a in self.layout.taps)
            alive += [Condition("tap_first", "first", taps), Condition("tap_last", "last", taps)]
            return nest(axes, lambda inner, now: [step({**places, **inner}, now, first)], alive)

        return nest(self.b.outer, body, conditions)

    def _shift(self, array: int) -> tuple[Node, ...]:
        b = self.b
        plane = self._named("plane", array)

        def step(places: Places, true: frozenset[str], first: int) -> Instruction:
            waits = (*(self._full("w", array) if "w_first" in true else ()), *self._plane_free(array))
            signals = ((*self._w_free(array),) if "w_last" in true else ()) + self._full("plane", array)
            kk, nn = places["kk"], places["nn"]
            weights = self.layout.w_part(places, Dim(kk.start, kk.size), Dim(nn.start + first, nn.size))
            source = Region("wb", number(b.w_axes, places), weights)
            return Instruction("shift", (self._plane(plane, kk.size, nn.size), source), (), waits, signals)

        return numbered(self._walk(array, b.w_conditions, step), plane)

    def _matmul(self, array: int) -> tuple[Node, ...]:
        b = self.b
        plane = self._named("plane", array)
        summed = (b.k.name, *(t.name for t in self.layout.taps), "kk")

        def step(places: Places, true: frozenset[str], first: int) -> Instruction:
            waits = self._full("x", array) if "x_first" in true else ()
            waits += self._full("plane", array) + (self._acc_free(array) if "acc_first" in true else ())
            signals = self._plane_free(array) + (self._x_free(array) if "x_last" in true else ())
            signals += self._full("acc", array) if "acc_last" in true else ()
            kk, nn = places["kk"], places["nn"]
            operands = (
                self._acc(places, first),
                Region("xb", number(b.x_axes, places), self.layout.x_rows(places, Dim(kk.start, kk.size))),
                self._plane(plane, kk.size, nn.size),
            )
            return Instruction("matmul", operands, _accumulate(places, summed), waits, signals)

        return numbered(self._walk(array, (*b.x_conditions, *b.acc_conditions), step), plane)

    def _mac(self, array: int) -> tuple[Node, ...]:
        b = self.b
        plane = self._named("plane", array)

        def step(places: Places, true: frozenset[str], first: int) -> Instruction:
            waits = self._full("x", array) if "x_first" in true else ()
            waits += self._full("w", array) if "w_first" in true else ()
            waits += self._plane_free(array) if "tap_first" in true else ()
            signals = self._x_free(array) if "x_last" in true else ()
            signals += self._w_free(array) if "w_last" in true else ()
            signals += self._full("plane", array) if "tap_last" in true else ()
            nn = places["nn"]
            inner = Dim(Affine(), self._length(places))
            operands = (
                self._plane(plane, b.rows(places), nn.size),
                Region("xb", number(b.x_axes, places), self.layout.x_rows(places, inner)),
                Region(
                    "wb", number(b.w_axes, places), self.layout.w_part(places, inner, Dim(nn.start + first, nn.size))
                ),
            )
            return Instruction("mac", operands, _accumulate(places, [t.name for t in self.layout.taps]), waits, signals)

        done = self._full("plane", array)[0]
        return numbered(self._walk(array, (*b.x_conditions, *b.w_conditions), step), plane, lambda i: done in i.signals)

    def _drain(self, array: int) -> tuple[Node, ...]:
        b = self.b
        plane = self._named("plane", array)

        def body(places: Places, true: frozenset[str]) -> Sequence[Node]:
            first, axes = self._inner(places, array)
            alive = [replace(c, axes=frozenset({"nn"})) for c in b.acc_conditions if c.name in true]

            def step(inner: Places, now: frozenset[str]) -> list[Node]:
                waits = self._full("plane", array) + (self._acc_free(array) if "acc_first" in now else ())
                signals = self._plane_free(array) + (self._full("acc", array) if "acc_last" in now else ())
                here = {**places, **inner}
                operands = (self._acc(here, first), self._plane(plane, b.rows(here), here["nn"].size))
                return [Instruction("drain", operands, _accumulate(here, [b.k.name]), waits, signals)]

            return nest(axes[:1], step, alive)

        return numbered(nest(b.outer, body, b.acc_conditions), plane)

    def _acc(self, places: Places, first: int) -> Region:
        """The sums of one step: all rows of the block, the columns of the step."""
        nn = places["nn"]
        rows = self.layout.y_rows(places)
        return Region("acc", number(self.b.y_axes, places), (*rows, Dim(nn.start + first, nn.size)))

    def _plane(self, name: str, rows: int, outputs: int) -> Region:
        """The used corner of a register plane; `numbered` sets the slot."""
        return Region(name, Affine(), filled((rows, outputs), (self.spec.array.rows, self.spec.array.columns)))


def _accumulate(places: Places, summed: Sequence[str]) -> tuple[tuple[str, Attribute], ...]:
    """0 at the first of the `summed` steps, else positive."""
    total = Affine()
    for name in summed:
        total = total + places[name].index
    return (("accumulate", total if total.terms else int(total.base > 0)),)
