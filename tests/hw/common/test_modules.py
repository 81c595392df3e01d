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
}
WIDE = [
    ("walker", {"Lanes": 1}),
    ("walker", {"Lanes": 16}),
    ("semaphore_file", {"Semaphores": 32, "Streams": 8, "Engines": 6}),
    ("sequencer", {"Instructions": 64, "Engines": 6, "Semaphores": 32}),
    ("dispatcher", {"Streams": 8, "Engines": 6}),
    ("memory_arbiter", {"Channels": 2}),
    ("dma load", {"Store": 0, "PortBytes": 16, "BurstBytes": 16, "InFlightBytes": 1024, "Setup": 8, "RowSetup": 1}),
    ("dma store", {"Store": 1, "PortBytes": 16, "BurstBytes": 64, "InFlightBytes": 1024, "Setup": 1, "RowSetup": 1}),
]


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
