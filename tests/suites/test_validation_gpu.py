"""GPU figures beside the published ones: the committed table of errors is what comes out, row by row.

`suites/published/gpu_errors.csv` is the table, with the source of each row. A change of the model that moves an error
shows here, better or worse; the table is then made anew by `presil replicate gpu`.
"""

from __future__ import annotations

import csv

import pytest

from presil.kernels.operators import parse_workload
from presil.simulators.machine import load_machine
from presil.suites.validation import NOT_MODELLED, published_rows, validate
from presil.suites.validation.gpu import beside
from presil.suites.validation.published import PUBLISHED
from presil.suites.validation.summary import set_errors

with (PUBLISHED / "gpu_errors.csv").open(encoding="utf-8", newline="") as file:
    TABLE = list(csv.DictReader(file))
QUICK = ("GPU-OCC-001", "GPU-OCC-007", "GPU-L2-003", "GPU-L2-005", "GPU-LAT", "GPU-UB", "GPU-LAUNCH-001", "GPU-STREAM")


@pytest.mark.parametrize(
    "known",
    [pytest.param(r, id=r["row"], marks=() if r["row"].startswith(QUICK) else pytest.mark.slow) for r in TABLE],
)
def test_the_error_of_each_row_is_the_one_of_the_table(known):
    (found,) = validate("gpu", rows=[known["row"]])
    assert found.error_percent == pytest.approx(float(known["error_percent"]), abs=0.06)
    assert (found.machine, found.workload, found.metric) == (known["machine"], known["workload"], known["metric"])
    assert found.given == bool(known["given"])


def test_the_table_holds_to_its_source():
    rows = published_rows("gpu")
    for known in TABLE:
        assert rows[known["row"]].source == known["source"]
        assert rows[known["row"]].value == pytest.approx(float(known["published"]), rel=1e-5)


def test_every_row_is_in_the_table_or_excused():
    known = {r["row"] for r in TABLE}
    excused = tuple(NOT_MODELLED)
    left = [r for name, r in published_rows("gpu").items() if name not in known and not name.startswith(excused)]
    # Other formats (tf32, fp64), other chips (PCIe, several GPUs), kernels that are not ours (FlashAttention-2,
    # backward), launches by graphs, and parts that are not modelled one by one (L1, near and far L2, DSM).
    reasons = (
        lambda r: r.dtype in ("tf32", "fp64") and r.row.startswith(("GPU-GEMM", "GPU-STREAM")),
        lambda r: "PCIe" in r.chip or "x8" in r.chip or r.chip == "A100 x1",
        lambda r: r.row.startswith("GPU-FA") and "FA2" in r.workload,
        lambda r: "CUDA graph" in r.conditions,
        lambda r: r.row.startswith("GPU-LAT"),
        # Whole models: weights of fewer bits than the product, experts, other loads than answers at full rate, other
        # cards, and models whose lengths of prompts no source gives.
        lambda r: r.dtype in ("int8w", "int4w g32") and r.row.startswith("GPU-DEC"),
        lambda r: any(name in r.workload.lower() for name in ("mixtral", "gptj", "diffusion", "resnet", "bert")),
        lambda r: "Server" in r.workload or not r.chip.startswith(("A100-80 SXM x", "H100 SXM x", "H200 SXM x")),
        lambda r: r.row.startswith("GPU-MLP") and "405b" in r.workload,
    )
    assert [r.row for r in left if not any(reason(r) for reason in reasons)] == []


def test_errors_of_a_set_leave_out_what_was_given():
    # GPU-UB: four rows gave figures of the machines, two test the rate of mma (-8.8% and -6.8%).
    (found,) = set_errors(validate("gpu", rows=["GPU-UB"]))
    assert (found.rows, found.worst_row) == (2, "GPU-UB-022")
    assert found.mean_percent == pytest.approx((8.8 + 6.8) / 2, abs=0.06)


def test_published_figures_stand_beside_a_search():
    task = parse_workload("matmul:m=8192,n=8192,k=8192,dtype=bf16")
    assert [row.value for row in beside(task, load_machine("h200"))] == [769, 798]
    assert [row.value for row in beside(task, load_machine("h100"))] == [744.5, 795]
    assert beside(task, load_machine("a100")) == []
