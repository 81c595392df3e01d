"""Gemmini: cycles of its RTL in FireSim for given mappings, and for the tiles its library chooses (rows SYS-GEM).

Causes of error were sought on the first half of the rows (memories of DOSA's `both.csv`). Changes were decided there,
then run on the second half (`dnn.csv`: other memories, other mappings of some layers), which is marked as held out. It
is a weak test: its figures had been read before, and it has the same layers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from presil.kernels.operators import operator, parse_workload
from presil.kernels.operators.operator import Workload
from presil.simulators.errors import BadInput
from presil.simulators.formats import size_bytes
from presil.simulators.machine import Machine, load_machine
from presil.simulators.simulate import simulate

from .gemmini_program import gemmini_program
from .library import conv_mapping, matmul_mapping
from .mapping import Mapping, parse_mapping
from .published import MACHINES, PublishedRow, ValidationRow, compared

PREFIX = "SYS-GEM-"
HELD_OUT_FROM = 25  # rows from SYS-GEM-025 on
L2_BYTES = 512 << 10
GIVEN, LIBRARY = "cycles_given_mapping", "cycles_tiled_auto"

_GEMM = re.compile(r"GEMM M=(\d+) K=(\d+) N=(\d+)")
_CONV = re.compile(r"conv (\d+)x\d+ s1 (\d+)->(\d+) out (\d+)x\d+")
_MEMORIES = re.compile(r"spad=(\d+)B acc=(\d+)B")
_MAPPING = re.compile(r"mapping '([^']+)'")


def compare(row: PublishedRow) -> ValidationRow:
    """The event cycles of the row's layer under its mapping, or under the library's."""
    layer = gemmini_workload(row)
    machine = gemmini_machine(layer)
    given = row.metric == GIVEN
    mapping = given_mapping(row) if given else library_mapping(row)
    cycles = simulate(gemmini_program(layer, mapping, machine), machine).timing.cycles
    memories = " ".join(row.chip.split()[-2:])
    note = "the mapping of the row" if given else f"the library's tiles, if the chip had just {memories}"
    note += "; data in the L2" if machine.name.endswith("in-l2") else "; data pass the memory bus"
    return compared(
        row, cycles, machine=machine.name, workload=str(layer), note=note, held_out=number(row) >= HELD_OUT_FROM
    )


def number(row: PublishedRow) -> int:
    """The number at the end of a row's id."""
    return int(row.row.rsplit("-", 1)[1])


def gemmini_workload(row: PublishedRow) -> Workload:
    """The layer of a row: int8 in and out, no bias; a convolution keeps the size of its image."""
    if gemm := _GEMM.fullmatch(row.workload):
        return parse_workload(f"matmul:m={gemm[1]},n={gemm[3]},k={gemm[2]},dtype=int8,out=int8")
    if conv := _CONV.fullmatch(row.workload):
        kernel, channels, filters, out = (int(n) for n in conv.groups())
        sizes = f"n=1,h={out},w={out},c={channels},f={filters},r={kernel},s={kernel},padding={(kernel - 1) // 2}"
        return parse_workload(f"conv2d:{sizes},dtype=int8,out=int8")
    raise BadInput(f"{row.row}: not a Gemmini layer (found '{row.workload[:60]}')")


def gemmini_machine(layer: Workload) -> Machine:
    """The description for a layer: its data are in the L2 where all its tensors fit in there."""
    tensors = operator(layer.operator).tensors(layer)
    size = sum(math.prod(t.shape) * size_bytes(t.dtype) for t in tensors)
    return load_machine(MACHINES / f"gemmini-16-mapped{'-in-l2' if size <= L2_BYTES else ''}.yaml")


def given_mapping(row: PublishedRow) -> Mapping:
    """The mapping string of a row, read."""
    found = _MAPPING.search(row.conditions)
    if found is None:
        raise BadInput(f"{row.row}: no mapping in its conditions")
    return parse_mapping(found[1])


def library_mapping(row: PublishedRow) -> Mapping:
    """What the library would choose, were the memories of the row the whole memories of the chip.

    They need not be: DOSA lists what its mapper asked for, not what was built.
    """
    memories = _MEMORIES.search(row.chip)
    assert memories is not None, row.row
    scratchpad, accumulator = int(memories[1]), int(memories[2])
    if gemm := _GEMM.fullmatch(row.workload):
        m, k, n = (int(x) for x in gemm.groups())
        return matmul_mapping(m, k, n, scratchpad=scratchpad, accumulator=accumulator)
    conv = _CONV.fullmatch(row.workload)
    assert conv is not None, row.row
    kernel, channels, filters, out = (int(x) for x in conv.groups())
    return conv_mapping(out, channels, filters, kernel, scratchpad=scratchpad, accumulator=accumulator)


def given_rows(rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """Those of `rows` that state a Gemmini mapping."""
    return [row for row in rows if row.row.startswith(PREFIX) and row.metric == GIVEN]
