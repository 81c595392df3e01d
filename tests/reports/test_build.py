"""From a store on disk to a PDF."""

import pypdf
import pytest

from presil.reports import build_report
from presil.simulators.errors import BadInput
from presil.suites.runs import NothingRan, end_run, plan_items, start_run
from presil.suites.scoring import Group, Layer
from presil.suites.store import Store
from presil.suites.suite import parse_suite

WORKLOAD = "matmul:m=8,n=8,k=8,dtype=int8"
GROUPS = (Group("g", "A small group", "tokens/s", 8.0, (Layer("projection", WORKLOAD, 3),)),)
SUITE = parse_suite(f"{{name: small, machines: [tpu-v1], budget: 4, workloads: ['{WORKLOAD}']}}")
VERSIONS = {"presil": "0.1.0", "numpy": "2", "code": "0" * 16}
FACTS = {"suite": "small", "title": "A small suite", "seed": 1, "budget": 4, "jobs": 1, "machines": ["tpu-v1"]}
MACHINE = {
    "name": "tpu-v1",
    "title": "Google TPU v1",
    "family": "systolic",
    "clock_hz": 7e8,
    "cores": 1,
    "peak_multiply_adds_per_second": {"int8": 65536 * 7e8},
    "memories": [{"name": "ddr3", "bandwidth_bytes_per_second": 34e9, "efficiency": 1.0}],
    "figures": [{"path": "cores", "value": "1", "source": "Jouppi 2017"}],
}
DONE = {
    "status": "done",
    "workload": WORKLOAD,
    "machine": "tpu-v1",
    "verdict": "right",
    "reasons": [],
    "cycles": 1400.0,
    "seconds": 2e-6,
    "utilization": 0.01,
    "bound_ratio": 1.25,
    "first_cycles": 2800.0,
    "bottleneck": "matrix engine: 53% waiting for w from ddr3",
    "schedule": "bm=8",
    "multiply_adds": 512,
    "traffic_bytes": {"ddr3": 65536},
    "evaluated": 4,
}
VALIDATION = {
    "row": "SYS-TPU1-003",
    "machine": "tpu-v1",
    "workload": "MLP0",
    "metric": "weight stall",
    "published": 53.9,
    "ours": 51.2,
    "error_percent": -5.0,
    "note": "of cycles",
}


def store_run(folder, body=DONE, *, killed=False):
    """A run of one item in a store, through the store's own functions."""
    store = Store(folder)
    items = plan_items(SUITE, GROUPS, VERSIONS)
    facts = {**FACTS, "versions": VERSIONS, "reused": 0, "suite_text": ""}
    run = start_run(store, items, GROUPS, facts, {"tpu-v1": MACHINE})
    record = store.put("item", items[0].key, body)
    if not killed:
        end_run(store, run.key, [record], [], interrupted=False)
    return folder


def text_of(path):
    return " ".join(" ".join(p.extract_text() for p in pypdf.PdfReader(path).pages).replace("\u200b", "").split())


def test_a_stored_run_becomes_a_pdf(tmp_path):
    folder = store_run(tmp_path / "runs")
    Store(folder).put("validation", "SYS-TPU1-003", VALIDATION)
    build_report([folder], tmp_path / "a.pdf")
    said = text_of(tmp_path / "a.pdf")
    # 8 tokens in 3 * 2 microseconds
    assert "tpu-v1 reaches 1,330,000 tokens per second for A small group." in said
    assert "2.00×" in said  # 2800 cycles of the first right kernel over 1400
    assert "matrix engine: 53% waiting for w from ddr3" in said
    assert "1 of 1 right" in said
    assert "SYS-TPU1-003" in said


def test_the_same_store_gives_the_same_file(tmp_path):
    folder = store_run(tmp_path / "runs")
    build_report([folder], tmp_path / "a.pdf")
    build_report([folder], tmp_path / "b.pdf")
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()


def test_a_killed_run_is_reported_as_interrupted(tmp_path):
    build_report([store_run(tmp_path / "runs", killed=True)], tmp_path / "a.pdf")
    said = text_of(tmp_path / "a.pdf")
    assert "1 of 1, interrupted" in said
    assert "Run stopped before its end" in said


def test_an_empty_folder_is_nothing_ran_and_leaves_no_file(tmp_path):
    with pytest.raises(NothingRan, match="there is no run here"):
        build_report([tmp_path], tmp_path / "a.pdf")
    assert not (tmp_path / "a.pdf").exists()


def test_a_run_without_a_right_kernel_is_nothing_ran(tmp_path):
    lacking = {"status": "no right kernel", "reason": "all raced", "workload": WORKLOAD, "machine": "tpu-v1"}
    with pytest.raises(NothingRan, match="all raced"):
        build_report([store_run(tmp_path / "runs", lacking)], tmp_path / "a.pdf")


def test_two_runs_of_one_machine_stand_beside_each_other(tmp_path):
    first, second = store_run(tmp_path / "one"), store_run(tmp_path / "two", {**DONE, "seconds": 1e-6, "cycles": 700.0})
    build_report([first, second], tmp_path / "a.pdf")
    assert "tpu-v1 (run 2) leads in 1 of 1 ranked workload group, at 2.00× the next best." in text_of(
        tmp_path / "a.pdf"
    )


def test_a_validation_record_that_lacks_a_field_is_named(tmp_path):
    folder = store_run(tmp_path / "runs")
    Store(folder).put("validation", "SYS-TPU1-003", {"row": "SYS-TPU1-003", "machine": "tpu-v1", "metric": "stall"})
    with pytest.raises(BadInput, match="validation of SYS-TPU1-003 lacks: workload, published, ours, error_percent"):
        build_report([folder], tmp_path / "a.pdf")


def test_the_pdf_says_which_kernels_were_run_in_part(tmp_path):
    extent = {"instructions": 180, "executed_instructions": 73, "elements": 64, "compared_elements": 16}
    store_run(tmp_path / "runs", {**DONE, "facts": {**extent, "trials": ["random 1"]}})
    build_report([tmp_path / "runs"], tmp_path / "out.pdf")
    text = " ".join(" ".join(page.extract_text() for page in pypdf.PdfReader(tmp_path / "out.pdf").pages).split())
    assert "of 1 there was time to run only the beginning on data" in text
    assert "outputs compared with the reference in the first run 16 outputs there are 64" in text
    assert "kernels of which that run did only the beginning 1" in text
    assert "Kernels run on data in part" in text
    assert "25.0% 16 of 64 73 of 180" in text
    assert "right run in part" in text


def test_nothing_is_said_of_kernels_run_in_part_where_all_were_run_whole(tmp_path):
    extent = {"instructions": 180, "executed_instructions": 180, "elements": 64, "compared_elements": 64}
    store_run(tmp_path / "runs", {**DONE, "facts": {**extent, "trials": ["random 1"]}})
    build_report([tmp_path / "runs"], tmp_path / "out.pdf")
    text = " ".join(page.extract_text() for page in pypdf.PdfReader(tmp_path / "out.pdf").pages)
    assert "in part" not in text
    assert "only the beginning on data" not in text


def test_a_run_of_other_fields_is_refused_in_words(tmp_path):
    Store(tmp_path).put("run", "20261201T000000-x", {"of": "another presil"})
    with pytest.raises(BadInput, match=r"not what this presil writes \(KeyError: 'keys'\): use the presil that wrote"):
        build_report([tmp_path], tmp_path / "out.pdf")


def test_an_item_of_other_types_is_refused_in_words(tmp_path):
    store_run(tmp_path / "runs", {**DONE, "facts": {"elements": "many"}})
    with pytest.raises(BadInput, match="a record of the run is not what this presil writes"):
        build_report([tmp_path / "runs"], tmp_path / "out.pdf")
    assert not (tmp_path / "out.pdf").exists()


def test_no_room_for_temporary_files_is_said(tmp_path, monkeypatch):
    store_run(tmp_path / "runs")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(BadInput, match="cannot write to the folder for temporary files: No such file or directory"):
        build_report([tmp_path / "runs"], tmp_path / "out.pdf")
