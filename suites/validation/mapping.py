"""The mapping strings of the Gemmini rows: loop factors at each level of memory, outermost first.

    L3[WIO] P7 Q2 - L2[WI] N1 K16X - L1[O] K4 C16 Q4 P2 C16X - L0[W] Q2 P4

L3 walks blocks that come from DRAM; L1 and L0 walk inside a block; `K16X` and `C16X` lie on columns and rows of the
array. P and Q are rows and columns of the output (of a matrix product, P is M), C the inner channels, K the outputs.

Inside a block only the sizes count: Gemmini's own loop unrollers fix the order there (LoopConv.scala and
LoopMatmul.scala of ucb-bar/gemmini), and DOSA ran its mappings through them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from presil.simulators.errors import BadInput

_FACTOR = re.compile(r"([RSPQCKN])(\d+)(X?)")


@dataclass(frozen=True, slots=True)
class Mapping:
    """`blocks`: (dimension, trips) of the loops over blocks, outermost first; `tile`: size of a block per dimension."""

    blocks: tuple[tuple[str, int], ...]
    tile: dict[str, int]


def parse_mapping(text: str) -> Mapping:
    """The mapping of a string. Raises BadInput where it is none."""
    levels = [part.strip() for part in text.split(" - ")]
    if [level[:3] for level in levels] != ["L3[", "L2[", "L1[", "L0["]:
        raise BadInput(f"not a mapping (found '{text[:60]}', wanted levels L3, L2, L1, L0)")
    blocks: tuple[tuple[str, int], ...] = ()
    tile = dict.fromkeys("RSPQCKN", 1)
    for level in levels:
        for word in level.split()[1:]:
            found = _FACTOR.fullmatch(word)
            if found is None:
                raise BadInput(f"not a factor of a mapping (found '{word[:20]}')")
            dimension, trips = found[1], int(found[2])
            if level.startswith("L3"):
                blocks += ((dimension, trips),) if trips > 1 else ()
            else:
                tile[dimension] *= trips
    return Mapping(blocks, tile)
