"""Blocks of images: which pixels lie under a tile of outputs, and how they are laid out on chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from presil.simulators.program import Affine, Dim, Instruction, Region

from .blocking import Dims, Shape, filled, part
from .tiling import Axis, Place, Places, Tile, cut


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Sizes of a convolution; channels and filters are those of one group."""

    rows: int
    columns: int
    out_rows: int
    out_columns: int
    r: int
    s: int
    stride: int
    padding: int
    dilation: int
    channels: int
    filters: int

    def span(self, outputs: int, taps: int) -> int:
        """Pixels along one dimension under `outputs` outputs."""
        return (outputs - 1) * self.stride + (taps - 1) * self.dilation + 1


@dataclass(frozen=True, slots=True)
class Clip:
    """The part of a row of pixels that lies inside the image: `skip` leading ones do not, `size` do."""

    skip: int
    size: int


def clip(first: int, size: int, step: int, extent: int) -> Clip:
    """Of `size` pixels from `first`, `step` apart, those in [0, extent)."""
    skip = min(size, max(0, -(first // step)) if first < 0 else 0)
    inside = max(0, min(size, -(-(extent - first) // step)) - skip)
    return Clip(skip, inside)


class _ImageLayout:
    """What both lowerings share."""

    def __init__(self, geometry: Geometry, sizes: tuple[int, int, int, int, int], bias: Shape | None) -> None:
        """`sizes`: the largest tiles of images, rows, columns, channels, filters."""
        self.geometry, self.sizes, self.bias = geometry, sizes, bias
        self.y_block: Shape = (*sizes[:3], sizes[4])

    def w_source(self, places: Places) -> Region:
        """See `Layout`."""
        geometry, k = self.geometry, places["k"]
        taps = (Dim(Affine(), geometry.r), Dim(Affine(), geometry.s))
        return Region("w", None, (*taps, Dim(k.start, k.size), self._filters(places)))

    def y_rows(self, places: Places) -> Dims:
        """See `Layout`."""
        return tuple(Dim(Affine(), places[name].size) for name in ("i", "h", "w"))

    def y_filled(self, places: Places) -> Dims:
        """See `Layout`."""
        return part((*self.y_rows(places), Dim(Affine(), places["n"].size)), self.y_block)

    def y_target(self, places: Places) -> Region:
        """See `Layout`."""
        pixels = tuple(Dim(places[name].start, places[name].size) for name in ("i", "h", "w"))
        return Region("y", None, (*pixels, self._filters(places)))

    def bias_part(self, places: Places) -> Dims:
        """See `Layout`."""
        return (self._filters(places),)

    def _filters(self, places: Places) -> Dim:
        n = places["n"]
        return Dim(places["g"].start * self.geometry.filters + n.start, n.size)

    def _channels(self, places: Places) -> Dim:
        k = places["k"]
        return Dim(places["g"].start * self.geometry.channels + k.start, k.size)

    def _pixels(self, place: Place, tap: int, inside: Clip, step: int) -> Dim:
        """The pixels inside the image that outputs at `place` see through kernel position `tap`, `step` apart."""
        geometry = self.geometry
        first = place.start * geometry.stride + (tap * geometry.dilation - geometry.padding + inside.skip * step)
        return Dim(first, inside.size, step if inside.size > 1 else 1)


class DirectLayout(_ImageLayout):
    """A block of x is the pixels under the block of outputs: [images, rows, columns, channels]."""

    def __init__(self, geometry: Geometry, sizes: tuple[int, int, int, int, int], bias: Shape | None) -> None:
        super().__init__(geometry, sizes, bias)
        images, rows, columns, channels, filters = sizes
        self.x_block: Shape = (images, geometry.span(rows, geometry.r), geometry.span(columns, geometry.s), channels)
        self.w_block: Shape = (geometry.r, geometry.s, channels, filters)
        self.taps: tuple[Axis, ...] = (cut("r", geometry.r, 1), cut("s", geometry.s, 1))

    def inner_length(self, size: int) -> int:
        """The channels."""
        return size

    def _clips(self, axis: str, tile: Tile) -> Clip:
        geometry = self.geometry
        taps, extent = (geometry.r, geometry.rows) if axis == "h" else (geometry.s, geometry.columns)
        return clip(tile.start * geometry.stride - geometry.padding, geometry.span(tile.size, taps), 1, extent)

    def x_signature(self, axis: Axis, tile: Tile) -> object:
        """Where a tile touches the padding."""
        return self._clips(axis.name, tile) if axis.name in ("h", "w") else None

    def load_x(self, slot: Affine, places: Places) -> Sequence[Instruction]:
        """One transfer of the pixels inside the image; zeros before it where the block reaches beyond."""
        i, h, w, k = (places[name] for name in ("i", "h", "w", "k"))
        rows, columns = self._clips("h", h.example), self._clips("w", w.example)
        geometry = self.geometry
        whole = (geometry.span(h.size, geometry.r), geometry.span(w.size, geometry.s))
        loads = []
        if (rows.size, columns.size) != whole:
            zeros = Region("xb", slot, filled((i.size, *whole, k.size), self.x_block))
            loads.append(Instruction("fill", (zeros,), (("value", 0),)))
        if rows.size and columns.size:
            inside = (
                Dim(Affine(), i.size),
                Dim(Affine(rows.skip), rows.size),
                Dim(Affine(columns.skip), columns.size),
                Dim(Affine(), k.size),
            )
            pixels = (self._pixels(h, 0, rows, 1), self._pixels(w, 0, columns, 1))
            source = Region("x", None, (Dim(i.start, i.size), *pixels, self._channels(places)))
            loads.append(Instruction("load", (Region("xb", slot, part(inside, self.x_block)), source)))
        return loads

    def x_rows(self, places: Places, inner: Dim) -> Dims:
        """The pixels that one kernel position sees."""
        geometry = self.geometry
        h, w = (
            Dim(places[tap].index * geometry.dilation, places[axis].size, geometry.stride)
            for axis, tap in (("h", "r"), ("w", "s"))
        )
        return (Dim(Affine(), places["i"].size), h, w, inner)

    def w_filled(self, places: Places) -> Dims:
        """See `Layout`."""
        geometry = self.geometry
        return filled((geometry.r, geometry.s, places["k"].size, places["n"].size), self.w_block)

    def w_part(self, places: Places, inner: Dim, outputs: Dim) -> Dims:
        """See `Layout`."""
        return (Dim(places["r"].index, 1), Dim(places["s"].index, 1), inner, outputs)


class Im2colLayout(_ImageLayout):
    """A block of x is a matrix row per output, [images, rows, columns, r * s * channels]."""

    def __init__(self, geometry: Geometry, sizes: tuple[int, int, int, int, int], bias: Shape | None) -> None:
        super().__init__(geometry, sizes, bias)
        length = geometry.r * geometry.s * sizes[3]
        self.x_block: Shape = (*sizes[:3], length)
        self.w_block: Shape = (length, sizes[4])
        self.taps: tuple[Axis, ...] = ()

    def inner_length(self, size: int) -> int:
        """Kernel positions times channels."""
        return self.geometry.r * self.geometry.s * size

    def _clips(self, axis: str, tile: Tile) -> tuple[Clip, ...]:
        """For each tap along the axis, the outputs that see a pixel inside the image."""
        geometry = self.geometry
        taps, extent = (geometry.r, geometry.rows) if axis == "h" else (geometry.s, geometry.columns)
        first = tile.start * geometry.stride - geometry.padding
        return tuple(clip(first + t * geometry.dilation, tile.size, geometry.stride, extent) for t in range(taps))

    def x_signature(self, axis: Axis, tile: Tile) -> object:
        """Where each tap touches the padding."""
        return self._clips(axis.name, tile) if axis.name in ("h", "w") else None

    def load_x(self, slot: Affine, places: Places) -> Sequence[Instruction]:
        """A transfer for each kernel position; zeros before them where a tap sees padding."""
        i, h, w, k = (places[name] for name in ("i", "h", "w", "k"))
        rows, columns = self._clips("h", h.example), self._clips("w", w.example)
        loads = []
        if any(c.size != h.size for c in rows) or any(c.size != w.size for c in columns):
            zeros = Region("xb", slot, filled((i.size, h.size, w.size, self.inner_length(k.size)), self.x_block))
            loads.append(Instruction("fill", (zeros,), (("value", 0),)))
        for r, row in enumerate(rows):
            for s, column in enumerate(columns):
                if not row.size or not column.size:
                    continue
                position = (r * self.geometry.s + s) * k.size
                target = (
                    Dim(Affine(), i.size),
                    Dim(Affine(row.skip), row.size),
                    Dim(Affine(column.skip), column.size),
                    Dim(Affine(position), k.size),
                )
                step = self.geometry.stride
                pixels = (self._pixels(h, r, row, step), self._pixels(w, s, column, step))
                source = Region("x", None, (Dim(i.start, i.size), *pixels, self._channels(places)))
                loads.append(Instruction("load", (Region("xb", slot, part(target, self.x_block)), source)))
        return loads

    def x_rows(self, places: Places, inner: Dim) -> Dims:
        """See `Layout`."""
        return (*self.y_rows(places), inner)

    def w_filled(self, places: Places) -> Dims:
        """See `Layout`."""
        return filled((self.inner_length(places["k"].size), places["n"].size), self.w_block)

    def w_part(self, places: Places, inner: Dim, outputs: Dim) -> Dims:
        """See `Layout`."""
        return (inner, outputs)
