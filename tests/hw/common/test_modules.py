"""Does each module that all families share do what its header says, on sizes no two of which are alike?"""

import os

import pytest

from ..cocotb_run import run_bench

SMALL = {
    "walker": {"Lanes": 3},
    "semaphore_file": {"Semaphores": 5, "Streams": 3, "Engines": 2},
    "sequencer": {"Instructions": 32, "Engines": 3, "Semaphores": 5},
    "dispatcher": {"Streams": 5, "Engines": 3},
    "memory_arbiter": {"Channels": 3},
    "dma load": {"Store": 0, "PortBytes": 8, "BurstBytes": 16, "InFlightBytes": 64, "Setup": 3, "RowSetup": 2},
    "dma store": {"Store": 1, "PortBytes": 8, "BurstBytes": 16, "InFlightBytes": 64, "Setup": 3, "RowSetup": 2},
    "dram": {
        "Bytes": 128, "PortBytes": 4, "BurstBytes": 8, "BytesPer1024Cycles": 3072, "Latency": 7, "Channels": 3,
        "Requests": 8,
    },
    "scratchpad": {"Elements": 32, "Width": 9, "ReadLanes": 5, "WriteLanes": 3},
    "instruction_memory": {"Instructions": 13},
    "delay": {"Width": 5, "Cycles": 3},
    "counters": {"Count": 5},
}  # fmt: skip
WIDE = [
    ("walker", {"Lanes": 1}),
    ("walker", {"Lanes": 16}),
    ("semaphore_file", {"Semaphores": 32, "Streams": 8, "Engines": 6}),
    ("sequencer", {"Instructions": 64, "Engines": 6, "Semaphores": 32}),
    ("dispatcher", {"Streams": 8, "Engines": 6}),
    ("memory_arbiter", {"Channels": 2}),
    ("dma load", {"Store": 0, "PortBytes": 16, "BurstBytes": 16, "InFlightBytes": 1024, "Setup": 8, "RowSetup": 1}),
    ("dma store", {"Store": 1, "PortBytes": 16, "BurstBytes": 64, "InFlightBytes": 1024, "Setup": 1, "RowSetup": 1}),
    (
        "dram",
        {
            "Bytes": 256, "PortBytes": 16, "BurstBytes": 16, "BytesPer1024Cycles": 32768, "Latency": 3, "Channels": 2,
            "Requests": 8,
        },
    ),
    (
        "dram",
        {
            "Bytes": 64, "PortBytes": 2, "BurstBytes": 32, "BytesPer1024Cycles": 1000, "Latency": 1, "Channels": 1,
            "Requests": 2,
        },
    ),
    ("scratchpad", {"Elements": 16, "Width": 32, "ReadLanes": 1, "WriteLanes": 1}),
    ("instruction_memory", {"Instructions": 1}),
    ("delay", {"Width": 1, "Cycles": 1}),
    ("delay", {"Width": 8, "Cycles": 0}),
    ("counters", {"Count": 1}),
]  # fmt: skip


def run(module: str, parameters: dict[str, int], folder, **options) -> list[str]:
    name = module.split(" ", maxsplit=1)[0]
    return run_bench(f"tests.hw.common.benches.{name}", name, parameters, folder, **options)


@pytest.mark.parametrize("module", SMALL)
def test_module(module, tmp_path):
    assert run(module, SMALL[module], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("module", "parameters"), [*SMALL.items(), *WIDE], ids=str)
def test_module_on_other_sizes_and_more_rounds(module, parameters, tmp_path):
    more = {"PRESIL_SEED": "2", "PRESIL_ROUNDS": os.environ.get("PRESIL_ROUNDS", "200")}
    assert run(module, parameters, tmp_path, environment=more)
