"""The modules of the systolic chip whose area is counted, and in what. Sizes are small: areas grow along lines."""

from __future__ import annotations

from ..rtl.area import Part

KIB = 1024
_SQUARES = ({"Rows": 2, "Columns": 2}, {"Rows": 4, "Columns": 4}, {"Rows": 6, "Columns": 6})
_LANES = {"ReadLanes": 4, "WriteLanes": 4, "Width": 8}

PARTS = (
    Part(
        module="array",
        unit="processing element",
        units=lambda p: p["Rows"] * p["Columns"],
        sizes=_SQUARES,
    ),
    Part(module="weight_loader", unit="column", units=lambda p: p["Columns"], sizes=_SQUARES),
    Part(module="matrix_engine", unit="row and column", units=lambda p: p["Rows"], sizes=_SQUARES),
    Part(module="drain_engine", unit="row and column", units=lambda p: p["Rows"], sizes=_SQUARES),
    Part(
        module="vector_unit",
        unit="lane",
        units=lambda p: p["Lanes"],
        sizes=({"Lanes": 1}, {"Lanes": 2}, {"Lanes": 3}),
    ),
    Part(
        module="dma",
        unit="byte of the port",
        units=lambda p: p["PortBytes"],
        sizes=tuple({"PortBytes": n, "Transfers": 8} for n in (2, 4, 8)),
        ram=True,
    ),
    Part(
        module="sequencer",
        unit="instruction",
        units=lambda p: p["Instructions"],
        sizes=tuple({"Instructions": n} for n in (16, 64, 256)),
        ram=True,
    ),
    Part(
        module="dispatcher",
        unit="pair of streams",  # each compares its age with each other's
        units=lambda p: p["Streams"] ** 2,
        sizes=tuple({"Streams": n} for n in (2, 4, 6)),
    ),
    Part(
        module="semaphore_file",
        unit="semaphore",
        units=lambda p: p["Semaphores"],
        sizes=tuple({"Semaphores": n, "Streams": 2, "Engines": 2} for n in (4, 8, 16)),
    ),
    # Four lanes each way, built of flip-flops: what a memory without a compiled RAM would take.
    Part(
        module="scratchpad",
        unit="KiB",
        units=lambda p: p["Elements"] / KIB,
        sizes=tuple({"Elements": n, **_LANES} for n in (64, 128, 256)),
    ),
)
