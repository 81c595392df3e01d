"""Does each module of the systolic chip do what its header says, on sizes no two of which are alike?"""

import os

import pytest

from ..cocotb_run import run_bench

SMALL = {
    "pe": {"WeightPlanes": 3, "ResultPlanes": 2},
    "array": {"Rows": 3, "Columns": 5, "WeightPlanes": 2, "ResultPlanes": 3},
    "weight_loader": {"Rows": 3, "Columns": 5},
    "matrix_engine": {"Rows": 3, "Columns": 5},
    "drain_engine": {"Rows": 3, "Columns": 5},
    "vector_unit": {"Lanes": 3, "Latency": 4},
}
WIDE = [
    ("pe", {"WeightPlanes": 1, "ResultPlanes": 1}),
    ("array", {"Rows": 6, "Columns": 2, "WeightPlanes": 3, "ResultPlanes": 1}),
    ("array", {"Rows": 1, "Columns": 4, "WeightPlanes": 2, "ResultPlanes": 2}),
    ("array", {"Rows": 4, "Columns": 1, "WeightPlanes": 2, "ResultPlanes": 2}),
    ("weight_loader", {"Rows": 6, "Columns": 2}),
    ("matrix_engine", {"Rows": 6, "Columns": 2}),
    ("matrix_engine", {"Rows": 1, "Columns": 4}),
    ("drain_engine", {"Rows": 6, "Columns": 2}),
    ("vector_unit", {"Lanes": 1, "Latency": 1}),
    ("vector_unit", {"Lanes": 4, "Latency": 8}),
]


def bench(module: str) -> str:
    """The dotted name of its bench."""
    return f"tests.hw.systolic.benches.{module}"


@pytest.mark.parametrize("module", SMALL)
def test_module(module, tmp_path):
    assert run_bench(bench(module), module, SMALL[module], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("module", "parameters"), [*SMALL.items(), *WIDE], ids=str)
def test_module_on_other_sizes_and_more_rounds(module, parameters, tmp_path):
    more = {"PRESIL_SEED": "2", "PRESIL_ROUNDS": os.environ.get("PRESIL_ROUNDS", "300")}
    assert run_bench(bench(module), module, parameters, tmp_path, environment=more)
