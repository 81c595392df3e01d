"""The page that sets the event model beside the RTL."""

import csv
import dataclasses
import io

import pypdf
import pytest

from presil.reports import charts, typeset
from presil.reports.data import RtlKernel
from presil.simulators.errors import BadInput
from presil.suites.store import Store

from . import synthetic
from .test_build import build_report, store_run, text_of

# 990 against 1000 is -1%; 2100 against 2000 is +5%, beyond what is promised, and its bits differ.
ROWS = (
    RtlKernel(
        row="RTL-001", machine="small", workload="matmul:m=4", schedule="ws", event_cycles=990.0, rtl_cycles=1000.0,
        equal=True,
    ),
    RtlKernel(
        row="RTL-002", machine="large", workload="conv2d:n=1", schedule="os", event_cycles=2100.0, rtl_cycles=2000.0,
        equal=False,
    ),
)  # fmt: skip


def render(*rows: RtlKernel) -> bytes:
    return typeset.render(dataclasses.replace(synthetic.comparison(), rtl=rows))


def said(pdf: bytes) -> str:
    pages = pypdf.PdfReader(io.BytesIO(pdf)).pages
    return " ".join(" ".join(p.extract_text() for p in pages).replace("\u200b", "").split())


def test_the_errors_are_those_of_the_rows():
    text = said(render(*ROWS))
    assert "2 kernels that no calibration has seen, on 2 chips: the mean error of the cycles is 3.00%" in text
    assert "the worst 5.00% (conv2d:n=1 on large); 1 lie within 3%" in text
    assert "the same bits for 1 of 2" in text
    assert "Against RTL: mean 3.00%, worst 5.00%, of 2 kernels." in text
    assert text.index("RTL-002") < text.index("RTL-001")  # what differs stands first


def test_all_kernels_are_attached():
    files = pypdf.PdfReader(io.BytesIO(render(*ROWS))).attachments
    rows = list(csv.DictReader(io.StringIO(files["rtl.csv"][0].decode())))
    assert [(r["row"], r["equal"]) for r in rows] == [("RTL-001", "True"), ("RTL-002", "False")]
    assert float(rows[0]["error_percent"]) == pytest.approx(-1)


def test_without_rows_the_error_is_not_known():
    pdf = render()
    assert "Against RTL: not known in this report." in said(pdf)
    assert "rtl.csv" not in pypdf.PdfReader(io.BytesIO(pdf)).attachments
    assert charts.rtl_chart(()) is None


def test_the_figure_is_the_same_each_time_and_has_no_markup():
    drawn = charts.rtl_chart(ROWS)
    assert drawn == charts.rtl_chart(ROWS)
    assert b"mathdefault" not in drawn
    assert b"1,000" in drawn


def test_stored_rows_reach_the_page(tmp_path):
    folder = store_run(tmp_path / "runs")
    for row in ROWS:
        Store(folder).put("rtl", row.row, dataclasses.asdict(row))
    build_report([folder], tmp_path / "a.pdf")
    assert "The model against the RTL" in text_of(tmp_path / "a.pdf")


def test_a_stored_row_that_lacks_a_field_is_named(tmp_path):
    folder = store_run(tmp_path / "runs")
    Store(folder).put("rtl", "RTL-001", {"row": "RTL-001", "machine": "small"})
    with pytest.raises(BadInput, match="RTL-001 lacks: workload, schedule, event_cycles, rtl_cycles, equal"):
        build_report([folder], tmp_path / "a.pdf")
