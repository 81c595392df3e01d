"""How a Gemmini mapping walks a layer: loops over blocks, tiles of weights inside, commands under each tile."""

from __future__ import annotations

from dataclasses import dataclass

from presil.kernels.emitters.systolic.conv2d import geometry_of
from presil.kernels.emitters.systolic.images import DirectLayout
from presil.kernels.emitters.systolic.matmul import MatmulLayout
from presil.kernels.emitters.systolic.tiling import Axis, Place, Places, Tile, cut
from presil.kernels.operators.operator import Workload
from presil.simulators.program import Affine
from presil.simulators.systolic.spec import Array

from .mapping import Mapping

MVIN_TILES = 4  # tiles side by side that one load command brings


@dataclass(frozen=True, kw_only=True)
class Walk:
    """How a workload is walked. `outer`: loops over blocks; `chunks`: loops over parts of a block that load apart."""

    layout: DirectLayout | MatmulLayout
    outer: tuple[Axis, ...]
    fixed: dict[str, Place]  # dimensions that have one tile
    chunks: tuple[Axis, ...]
    array: Array

    @property
    def sums(self) -> tuple[Axis, ...]:
        """Loops over blocks of the output."""
        return tuple(axis for axis in self.outer if axis.name != "k")

    def weights(self, places: Places) -> tuple[Axis, ...]:
        """Tiles of weights in a block, or in a part of it that loads apart, outermost first."""
        outputs = cut("nn", places["n"].size, self.array.columns)
        inner = cut("kk", places["k"].size, self.array.rows)
        if isinstance(self.layout, DirectLayout):
            return (outputs, *self.layout.taps, inner)
        return (inner, outputs)

    def rows(self, places: Places) -> tuple[Axis, ...]:
        """Commands under one tile of weights."""
        if isinstance(self.layout, DirectLayout):
            return (cut("row", places["h"].size, 1), cut("segment", places["w"].size, self.array.rows))
        return (cut("segment", places["m"].size, self.array.rows),)

    def parts(self, places: Places) -> tuple[Axis, ...]:
        """Parts of a block that are scaled and stored apart."""
        if isinstance(self.layout, DirectLayout):
            return self.rows(places)[:1]
        return (cut("nn", places["n"].size, self.array.columns),)


def walk(workload: Workload, mapping: Mapping, array: Array) -> Walk:
    """The walk of a matmul or conv2d; inner dimensions lie whole in each block."""
    tile, conv = mapping.tile, workload.operator == "conv2d"
    names = {"P": "h" if conv else "m", "Q": "w", "K": "n", "C": "k"}
    extents = _extents(workload)
    outer = tuple(cut(names[d], extents[names[d]], tile[d]) for d, _ in mapping.blocks)
    sizes = {"g": 1, "n": tile["K"]}
    chunks: tuple[Axis, ...] = ()
    layout: DirectLayout | MatmulLayout
    if conv:
        sizes |= {"i": 1, "k": tile["C"], "h": tile["P"], "w": tile["Q"]}
        layout = DirectLayout(geometry_of(workload), (1, tile["P"], tile["Q"], tile["C"], tile["K"]), None)
    else:
        sizes |= {"m": tile["P"]}
        if "k" not in {axis.name for axis in outer}:
            chunks = (cut("k", tile["C"], MVIN_TILES * array.rows),)
        layout = MatmulLayout((tile["P"], tile["C"]), (tile["C"], tile["K"]), (tile["P"], tile["K"]), None)
    walked = {axis.name for axis in outer}
    return Walk(
        layout=layout,
        outer=outer,
        fixed={name: whole(size) for name, size in sizes.items() if name not in walked},
        chunks=chunks,
        array=array,
    )


def _extents(workload: Workload) -> dict[str, int]:
    if workload.operator == "matmul":
        return {name: workload.int(name) for name in ("m", "n", "k")}
    geometry = geometry_of(workload)
    return {"h": geometry.out_rows, "w": geometry.out_columns, "n": geometry.filters, "k": geometry.channels}


def whole(size: int) -> Place:
    """The first tile of `size` elements along an axis that has no loop."""
    return Place(Affine(), Affine(), size, Tile(0, 0, size))
