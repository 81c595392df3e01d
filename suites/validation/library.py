"""The tiles that Gemmini's library chooses by itself (gemmini.h: tiled_matmul_auto, tiled_conv_auto).

Both start from a first guess and grow or shrink it until a block just fits half of the scratchpad and half of the
accumulator. Sizes are in rows: 16 bytes of scratchpad, 64 bytes of accumulator.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .mapping import Mapping

_DIM = 16
_CHANNELS = ("K", "C")  # sizes that move in steps of the array
Tile = dict[str, int]


def matmul_mapping(m: int, k: int, n: int, *, scratchpad: int, accumulator: int) -> Mapping:
    """The tiles of tiled_matmul_auto. Sizes of memories in bytes."""
    whole = {"P": -(-m // _DIM), "K": -(-n // _DIM), "C": -(-k // _DIM)}
    pad_rows, acc_rows = scratchpad // _DIM // 2, accumulator // (4 * _DIM) // 2
    side = math.isqrt(acc_rows // _DIM)
    first = {"P": side, "K": side, "C": pad_rows // 2 // _DIM // side}
    tile = {name: min(whole[name], first[name]) for name in whole}

    def fits(t: Tile) -> bool:
        return (t["P"] + t["K"]) * t["C"] * _DIM <= pad_rows and t["P"] * t["K"] * _DIM <= acc_rows

    _grow(tile, whole, ("K", "P", "C"), fits, {})
    sizes = {name: size * _DIM for name, size in tile.items()}
    return _mapping({"P": m, "K": n, "C": k}, {**sizes, "Q": 1, "R": 1, "S": 1}, "PKC")


def conv_mapping(out: int, channels: int, filters: int, kernel: int, *, scratchpad: int, accumulator: int) -> Mapping:
    """The tiles of tiled_conv_auto for one image, stride 1, square output and kernel."""
    whole = {"P": out, "Q": out, "K": filters, "R": kernel, "S": kernel, "C": channels}
    pad_rows, acc_rows = scratchpad // _DIM // 2, accumulator // (4 * _DIM) // 2
    tile = dict(whole)

    def fits(t: Tile) -> bool:
        outputs, inner = -(-t["K"] // _DIM), -(-t["C"] // _DIM)
        pixels = (t["P"] + t["R"] - 1) * (t["Q"] + t["S"] - 1)
        weights = outputs * t["R"] * t["S"] * t["C"]
        return inner * pixels + weights <= pad_rows and outputs * t["P"] * t["Q"] <= acc_rows

    while not fits(tile):
        # The largest size shrinks, but not the columns below a full array while there are rows to give.
        able = [name for name in tile if name != "Q" or tile["Q"] > _DIM or tile["P"] == 1]
        largest = max(able, key=lambda name: tile[name])
        tile[largest] -= (tile[largest] % _DIM or _DIM) if largest in _CHANNELS else 1
        tile[largest] = max(1, tile[largest])
    _grow(tile, whole, ("Q",), fits, {})
    _grow(tile, whole, tuple(whole), fits, dict.fromkeys(_CHANNELS, _DIM))
    return _mapping(whole, tile, "PQKC")


def _grow(tile: Tile, whole: Tile, names: tuple[str, ...], fits: Callable[[Tile], bool], steps: dict[str, int]) -> None:
    """Each size in turn by its step (1 where `steps` does not say), as long as any can."""
    grown = True
    while grown:
        grown = False
        for name in names:
            larger = {**tile, name: tile[name] + steps.get(name, 1)}
            if larger[name] <= whole[name] and fits(larger):
                tile.update(larger)
                grown = True


def _mapping(whole: Tile, tile: Tile, order: str) -> Mapping:
    blocks = tuple((name, -(-whole[name] // tile[name])) for name in order if whole[name] > tile[name])
    return Mapping(blocks, {**tile, "N": 1})
