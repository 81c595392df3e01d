"""Small systolic machines with round figures, so that cycles can be worked out by hand."""

from __future__ import annotations

from typing import Any

from presil.simulators.machine import Machine, Memory
from presil.simulators.systolic.isa import VECTOR_OPS
from presil.simulators.systolic.spec import Array, Dma, MultiplyType, Systolic, Vector

TYPES = (
    MultiplyType(input="int8", accumulator="int32", rate=1.0),
    MultiplyType(input="bf16", accumulator="fp32", rate=0.5),
)


def memory(**changes: Any) -> Memory:
    """4 bytes a cycle at 1 GHz, 20 cycles to the first byte, bursts of 1 byte."""
    figures = {"bandwidth": 4e9, "latency": 20e-9, "burst_bytes": 1, "capacity": 1 << 30, "efficiency": 1.0}
    return Memory(**{**figures, **changes})


def tiny(
    *,
    rows: int = 3,
    columns: int = 5,
    cores: int = 1,
    memories: dict[str, Memory] | None = None,
    array: dict[str, Any] | None = None,
    dma: dict[str, Any] | None = None,
    vector: dict[str, Any] | None = None,
    **spec: Any,
) -> Machine:
    """One array of 3 rows and 5 columns, both dataflows; issue and semaphores cost nothing unless asked."""
    arrays = {
        "rows": rows, "columns": columns, "count": 1, "dataflows": ("ws", "os"),
        "weight_planes": 2, "result_planes": 2, "types": TYPES,
    }  # fmt: skip
    transfers = {
        "load_channels": 2, "store_channels": 1, "port_bytes_per_cycle": 8, "setup": 0, "row_setup": 0,
        "in_flight_bytes": 1 << 20,
    }  # fmt: skip
    vectors = {"lanes": 5, "latency": 2, "operations": tuple(op for op in VECTOR_OPS if op != "sync")}
    part = {
        "scratchpad": 4096, "accumulator": 2048, "issue": 0, "semaphore": 0,
        "activation_memory": "dram", "weight_memory": "dram",
    }  # fmt: skip
    systolic = Systolic(
        array=Array(**{**arrays, **(array or {})}),
        dma=Dma(**{**transfers, **(dma or {})}),
        vector=Vector(**{**vectors, **(vector or {})}),
        **{**part, **spec},
    )
    return Machine(
        name="tiny",
        title="tiny",
        family="systolic",
        clock_hz=1e9,
        cores=cores,
        memories=memories or {"dram": memory()},
        spec=systolic,
    )
