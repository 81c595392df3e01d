"""Keys and values in pages of a pool, as serving systems keep them (PagedAttention, Kwon et al., arXiv 2309.06180).

A pool is [pages, kv_heads, page, head]: the keys of one head lie together in a page, as in tensors without pages, and
in FlashInfer's layout HND. Row b of the block table [batch, ceil(kv / page)] names the pages of sequence b, in order.
The last page of a sequence need not be full. No page is of two sequences, and some are of none.

What is in no sequence, be it pages or the rest of a last page, is poison: finite, since kernels hide keys that are none
and then multiply their values by a weight of exactly 0; and so large that a single one with a weight shows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .operator import Arrays, Parameter, TensorSpec, Workload, resized
from .patterns import generator

PARAMETER = Parameter(
    name="page", doc="keys of a page, which a block table names; 0: all in one piece", default=0, low=0, high=1024
)
POOLS: Mapping[str, str] = {"k": "k_pool", "v": "v_pool"}
TABLE = "table"
_POISON = {"k_pool": 64.0, "v_pool": 4096.0}  # exact in bf16 and fp16
_SPARE = 8  # one page is of no sequence for so many that are of one


def pages(workload: Workload) -> tuple[int, int]:
    """Pages of one sequence, and of the pool."""
    each = -(-workload.int("kv") // workload.int("page"))
    used = workload.int("batch") * each
    return each, used + -(-used // _SPARE)


def paged_specs(workload: Workload) -> tuple[TensorSpec, ...]:
    """The pools and the table: what stands for k and v."""
    each, count = pages(workload)
    shape = (count, workload.int("kv_heads"), workload.int("page"), workload.int("head"))
    pools = (TensorSpec(name, workload.word("dtype"), shape, "in") for name in POOLS.values())
    return (*pools, TensorSpec(TABLE, "int32", (workload.int("batch"), each), "in"))


def paged(workload: Workload, inputs: Arrays, seed: int, pattern: str) -> dict[str, np.ndarray]:
    """`inputs` with k and v spread over pools; which page is whose is drawn."""
    page, kv = workload.int("page"), workload.int("kv")
    each, count = pages(workload)
    table = generator(seed, pattern, TABLE).permutation(count)[: workload.int("batch") * each].reshape(-1, each)
    found = {name: array for name, array in inputs.items() if name not in POOLS}
    for name, pool_name in POOLS.items():
        rows = inputs[name]
        heads, head = rows.shape[1], rows.shape[3]
        signs = generator(seed, pattern, pool_name).integers(0, 1, (count, heads, page, head), np.int8, endpoint=True)
        pool = (_POISON[pool_name] * (2 * signs - 1)).astype(rows.dtype)
        for number in range(each):
            part = rows[:, :, number * page : min((number + 1) * page, kv)]
            pool[table[:, number], :, : part.shape[2]] = part
        found[pool_name] = pool
    found[TABLE] = table.astype(np.int32)
    return found


def in_one_piece(workload: Workload, inputs: Arrays) -> tuple[Workload, Arrays]:
    """The same task without pages: what the table names, one behind the other."""
    if not workload.int("page"):
        return workload, inputs
    found = {name: array for name, array in inputs.items() if name not in (*POOLS.values(), TABLE)}
    for name, pool_name in POOLS.items():
        named = inputs[pool_name][inputs[TABLE]].swapaxes(1, 2)  # [batch, kv_heads, pages, page, head]
        batch, heads, each, page, head = named.shape
        found[name] = named.reshape(batch, heads, each * page, head)[:, :, : workload.int("kv")]
    return resized(workload, page=0), found
