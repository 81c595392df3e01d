"""A chip of 3 rows and 5 columns, small and with no two sizes alike, and programs for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from presil.simulators.encoding import encode
from presil.simulators.machine import Machine
from presil.simulators.program import Program
from presil.simulators.systolic.elaborate import elaborate
from presil.simulators.systolic.spec import MultiplyType
from presil.simulators.words import pack

from ...simulators.tiny import memory, tiny
from ..cocotb_run import run_bench

ENGINES = ("load", "weights", "matrix", "drain", "vector", "store")


def chip(**array: Any) -> Machine:
    """3 rows, 5 columns, a vector unit of 3 lanes and 4 cycles; memory at 8 bytes a cycle."""
    return tiny(
        memories={"dram": memory(bandwidth=8e9, burst_bytes=16)},
        array={"types": (MultiplyType(input="int8", accumulator="int32", rate=1.0),), **array},
        dma={"load_channels": 1, "setup": 2, "row_setup": 1, "in_flight_bytes": 512},
        vector={
            "lanes": 3, "latency": 4,
            "operations": ("requantize", "bias", "cast", "add", "subtract", "multiply", "maximum", "relu"),
        },
        issue=2,
        semaphore=1,
    )  # fmt: skip


def observed(program: Program, machine: Machine, inputs: dict[str, np.ndarray], folder: Path, **changes: Any) -> dict:
    """Run a program under cocotb: what the bench notes, with `outputs` and the events by name of the engine.

    `changes` replaces the hexadecimal words of streams, by number.
    """
    image = encode(program, machine)
    cells = bytearray(image.memory_bytes)
    for tensor in program.tensors:
        if tensor.role != "out":
            raw = np.ascontiguousarray(inputs[tensor.name]).tobytes()
            cells[image.bases[tensor.name] : image.bases[tensor.name] + len(raw)] = raw
    words = [[f"{pack(word):x}" for word in stream] for stream in image.streams]
    for stream, changed in changes.items():
        words[int(stream.removeprefix("stream"))] = changed
    given, result = folder / "image.json", folder / "result.json"
    given.write_text(json.dumps({"words": words, "semaphores": list(image.initial), "memory": cells.hex()}))
    environment = {"PRESIL_IMAGE": str(given), "PRESIL_RESULT": str(result)}
    run_bench("tests.hw.systolic.benches.systolic_bench", "systolic_bench", elaborate(machine), folder / "run",
              environment=environment)  # fmt: skip
    found: dict[str, Any] = json.loads(result.read_text())
    raw = bytes.fromhex(found.pop("memory"))
    found["outputs"] = {
        t.name: np.frombuffer(raw, t.dtype, int(np.prod(t.shape)), image.bases[t.name]).reshape(t.shape)
        for t in program.tensors
        if t.role == "out"
    }
    for kind in ("accepted", "done"):
        found[kind] = dict(zip(ENGINES, found[kind], strict=True))
    return found
