"""Elaborates the chip of a machine: the parameters of `hw/systolic`, from the same YAML as the event model."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..errors import Unsupported
from ..machine import Machine
from ..words import INSTRUCTIONS, MEMORY_BYTES, SEMAPHORES, STREAMS
from .spec import systolic

ISSUE_CYCLES = 2  # of the sequencer: it fetches in one cycle and issues in the next


def elaborate(machine: Machine) -> Mapping[str, int]:
    """See `family.Family.elaborate`."""
    spec = systolic(machine)
    array, dma = spec.array, spec.dma
    int8 = [t for t in array.types if (t.input, t.accumulator, t.rate) == ("int8", "int32", 1.0)]
    limits = {
        f"{machine.cores} cores": machine.cores == 1,
        f"{array.count} arrays a core": array.count == 1,
        f"{dma.load_channels} load and {dma.store_channels} store channels": dma.load_channels
        == dma.store_channels
        == 1,
        f"an issue of {spec.issue} cycles, not {ISSUE_CYCLES}": spec.issue == ISSUE_CYCLES,
        f"semaphores of {spec.semaphore} cycles": spec.semaphore >= 1,
        f"a set-up of {dma.setup} and {dma.row_setup} cycles": min(dma.setup, dma.row_setup) >= 1,
        "a weight buffer": spec.weight_buffer is None,
        f"{len(machine.memories)} memories": len(machine.memories) == 1,
        "no int8 multiplication at full rate": bool(int8),
        f"a port of {dma.port_bytes_per_cycle} bytes, no power of 2": _power_of_2(dma.port_bytes_per_cycle),
    }
    refused = [text for text, good in limits.items() if not good]
    if refused:
        raise Unsupported(f"{machine.name} has {refused[0]}: the RTL does not build that")
    memory = machine.memories[spec.activation_memory]
    rate = memory.bandwidth * memory.efficiency / machine.clock_hz  # bytes a cycle
    return {
        "Rows": array.rows,
        "Columns": array.columns,
        "WeightPlanes": array.weight_planes,
        "ResultPlanes": array.result_planes,
        "ScratchpadBytes": spec.scratchpad,
        "AccumulatorBytes": spec.accumulator,
        "VectorLanes": spec.vector.lanes,
        "VectorLatency": spec.vector.latency,
        "PortBytes": dma.port_bytes_per_cycle,
        "BurstBytes": memory.burst_bytes,
        "InFlightBytes": dma.in_flight_bytes,
        "DmaSetup": dma.setup,
        "DmaRowSetup": dma.row_setup,
        "DmaAheadBytes": math.ceil(dma.setup * rate),
        "MemoryBytes": MEMORY_BYTES,
        "BytesPer1024Cycles": round(1024 * rate),
        "MemoryLatency": math.ceil(memory.latency * machine.clock_hz),
        "SemaphoreCycles": spec.semaphore,
        "Streams": STREAMS,
        "Instructions": INSTRUCTIONS,
        "Semaphores": SEMAPHORES,
    }


def _power_of_2(n: int) -> bool:
    return n > 0 and n & (n - 1) == 0
