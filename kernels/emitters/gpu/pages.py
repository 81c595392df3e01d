"""Blocks of keys that lie in pages: each is one page or several, which a block table names."""

from __future__ import annotations

from collections.abc import Iterator

from presil.simulators.errors import Unsupported
from presil.simulators.gpu.legality import MOST_ENTRIES
from presil.simulators.program import Affine, Count, Dim, Instruction, Region

from ...operators import paging
from ...operators.operator import Workload

_COLUMNS = 8  # scores come in as many columns


def blocks(workload: Workload, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Of `sizes`, and one page, those blocks of keys that are whole pages; all of `sizes` where there are no pages.

    Raises Unsupported where there are none.
    """
    page = workload.int("page")
    if not page:
        return sizes
    whole = {size for size in (*sizes, page) if size % page == 0 and size // page <= MOST_ENTRIES}
    found = tuple(sorted(size for size in whole if size % _COLUMNS == 0 and size <= sizes[-1]))
    if not found:
        raise Unsupported(
            f"pages of {page} keys: a block of keys is 1 to {MOST_ENTRIES} whole pages, a multiple of {_COLUMNS} keys, "
            f"at most {sizes[-1]}"
        )
    return found


def gathers(
    name: str, number: Affine, workload: Workload, keys: int, counts: tuple[tuple[Count, ...], tuple[Count, ...]]
) -> Iterator[Instruction]:
    """Block `number` of `keys` keys of `name` (k or v) into its ring. `counts`: waited for first, given at the end.

    Behind the last page of a sequence it stands again: what is there is hidden, but must be a number.
    """
    page, head = workload.int("page"), workload.int("head")
    each, count = paging.pages(workload)
    held = keys // page
    first = number * held
    there = held if first.terms else min(held, each - first.base)  # only the last block is short; it is not in a loop
    pool = (Dim(Affine(), count), Dim(Affine.var("g"), 1), Dim(Affine(), page), Dim(Affine(), head))
    parts = [(0, first, there), *((i, Affine(each - 1), 1) for i in range(there, held))]
    for place, entry, entries in parts:
        rows = (Dim(Affine(place * page), entries * page), Dim(Affine(), head)) if entries < held else ()
        table = Region(paging.TABLE, None, (Dim(Affine.var("b"), 1), Dim(entry, entries)))
        operands = (Region(f"{name}s", number, rows), Region(paging.POOLS[name], None, pool), table)
        waits = counts[0] if not place else ()
        # Copies of one stream end in order: who has seen the last of them has seen all.
        yield Instruction("gather", operands, (), waits, counts[1] if place + entries == held else ())
