"""The PDF as a whole, from the made-up comparison of `synthetic.py`."""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
import io
import re
import sys
from pathlib import Path

import pypdf
import pytest
import typst

from presil.reports import typeset
from presil.reports.data import Comparison, Validation
from presil.simulators.errors import BadInput


def _load(name: str):
    """A helper file of this folder; tests are found by path, not imported."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


synthetic = _load("synthetic")
ODD = 'a#b *c* _d_ [e] "f" \\g $h$ <i> @j `k` =l // ~m & %n'


def read(pdf: bytes) -> pypdf.PdfReader:
    return pypdf.PdfReader(io.BytesIO(pdf))


def text(pdf: bytes) -> str:
    """The text, with breaks that may fall anywhere taken out."""
    pages = "\n".join(page.extract_text() for page in read(pdf).pages)
    return re.sub(r"\s+", " ", pages.replace("\u200b", ""))


@pytest.fixture(scope="module")
def pdf() -> bytes:
    return typeset.render(dataclasses.replace(synthetic.comparison(broken="none"), validations=synthetic.validations()))


def test_names_and_figures_are_in_the_text(pdf):
    said = text(pdf)
    for expected in (
        "tpu-v1, tpu-v4 and gemmini-16",
        "quick-2026-12-01",
        "200 schedules timed per workload and machine",
        "1 December 2026, 04:12 UTC",
        "234 of 234",
        "tpu-v4 leads in 4 of 4 ranked workload groups",
        "3 of 153 layers lack a right kernel",
        "incomplete",
        "17 of 18 layers right",
        "race at store y[0, 0]: read of 'acc' is not ordered after matmul",
        "91.8 Top/s",  # 2 * 65536 * 700 MHz
        "bm=128 bn=256 bk=512",
        "SYS-TPU1-003",
        "-5.0%",  # 51.2 against 53.9
        "5 figures: 3 published, 1 chosen and 1 unconfirmed.",
        "rank 1 of 3, event",
    ):
        assert expected in said


def test_every_score_stands_with_its_fidelity(pdf):
    data = synthetic.comparison(broken="none")
    scored = sum(s.value is not None for s in data.scores)
    assert scored == 12  # three machines, five groups, one group incomplete on each
    assert len(re.findall(r"rank \d of 3, event", text(pdf))) == scored


def test_the_same_runs_give_the_same_bytes():
    data = synthetic.comparison(synthetic.MACHINES[:1])
    assert typeset.render(data) == typeset.render(data)


def test_the_date_is_that_of_the_run(pdf):
    assert read(pdf).metadata["/CreationDate"] == "D:20261201041231Z"


def test_it_is_tagged_with_an_alternative_text_for_each_figure(pdf):
    reader = read(pdf)
    assert reader.trailer["/Root"]["/MarkInfo"]["/Marked"]
    assert reader.metadata["/Title"] == "tpu-v1, tpu-v4 and gemmini-16"
    assert b"pdfuaid:part" in reader.trailer["/Root"]["/Metadata"].get_data()
    alts = [
        o.get_object() for o in (reader.get_object(i) for i in range(1, len(reader.xref[0]))) if isinstance(o, dict)
    ]
    spoken = [str(o["/Alt"]) for o in alts if "/Alt" in o]
    assert any(s.startswith("Scores of the machines, best first") for s in spoken)
    assert sum(s.startswith("Roofline of") for s in spoken) == 3


def test_pages_are_numbered_and_carry_the_title(pdf):
    pages = read(pdf).pages
    for number, page in enumerate(pages[1:], start=2):
        found = re.sub(r"\s+", " ", page.extract_text())
        assert f"{number} / {len(pages)}" in found
        assert "tpu-v1, tpu-v4 and gemmini-16" in found


def test_all_layers_are_attached_as_csv(pdf):
    files = read(pdf).attachments
    rows = list(csv.DictReader(io.StringIO(files["layers.csv"][0].decode())))
    assert len(rows) == 153
    assert {r["machine"] for r in rows} == {"tpu-v1", "tpu-v4", "gemmini-16"}
    right = [r for r in rows if r["status"] == "right"]
    assert len(right) == 150
    first = right[0]
    assert float(first["gain"]) == float(first["first_cycles"]) / float(first["cycles"])
    assert len(list(csv.DictReader(io.StringIO(files["validation.csv"][0].decode())))) == 2


def test_a_cell_that_a_spreadsheet_would_execute_is_quoted():
    data = synthetic.comparison(synthetic.MACHINES[:1])
    data = dataclasses.replace(data, layers=(dataclasses.replace(data.layers[0], name="=cmd()"), *data.layers[1:]))
    rows = list(csv.DictReader(io.StringIO(read(typeset.render(data)).attachments["layers.csv"][0].decode())))
    assert rows[0]["name"] == "'=cmd()"


def _odd(name: str) -> Comparison:
    """The comparison of one machine with every name replaced."""
    machine = dataclasses.replace(synthetic.MACHINES[0], key=name, name=name, title=name)
    data = synthetic.comparison((machine,), broken="failed")
    return dataclasses.replace(
        data,
        groups=tuple(dataclasses.replace(g, title=f"{g.title} {name}") for g in data.groups),
        runs=(dataclasses.replace(data.runs[0], name=name, suite=name, title=name, versions={name: name}),),
        layers=tuple(dataclasses.replace(x, name=name, schedule=name, bottleneck=name) for x in data.layers),
        validations=(
            Validation(
                row=name,
                machine=name,
                workload=name,
                metric=name,
                published=1.0,
                ours=2.0,
                error_percent=100.0,
                note=name,
            ),
        ),
    )


def test_markup_in_names_stays_text():
    said = text(typeset.render(_odd(ODD)))
    assert said.count(ODD) >= 10
    assert f"{ODD} on the {ODD} suite" in said


@pytest.mark.parametrize("name", ["漢字 \U0001f600 \u202eabc \u0301 עברית", "a\x00b\x1b[31m", "x" * 300])
def test_what_the_fonts_lack_is_spelled_out_and_nothing_breaks(name):
    assert read(typeset.render(_odd(name))).pages


def test_one_machine_is_reported_without_ranks():
    said = text(typeset.render(synthetic.comparison(synthetic.MACHINES[:1])))
    assert "tpu-v1 on the quick suite" in said
    assert "tpu-v1 reaches" in said
    assert "rank 1" not in said


def test_six_machines_fit():
    six = tuple(
        dataclasses.replace(synthetic.MACHINES[i % 3], key=f"a-rather-long-machine-name-{i}", name=f"m{i}")
        for i in range(6)
    )
    said = text(typeset.render(synthetic.comparison(six)))
    assert "rank 6 of 6" in said


def test_no_right_kernel_at_all_ranks_nothing_and_says_why():
    said = text(typeset.render(synthetic.comparison(broken="all-none")))
    assert "No kernel passed the checks, so that no machine is ranked." in said
    assert "race at store y[0, 0]" in said
    assert "0 of 18 right" in said


def test_without_published_figures_the_error_is_said_not_to_be_known():
    said = text(typeset.render(synthetic.comparison(synthetic.MACHINES[:1])))
    assert "No comparison with published silicon is stored in the runs of this report" in said


def test_the_typesetter_has_nothing_to_warn_of(tmp_path, monkeypatch):
    seen = []

    def compile_(path, **options):
        pdf, warnings = typst.compile_with_warnings(path, **options)
        seen.extend(warnings)
        return pdf

    monkeypatch.setattr(typst, "compile", compile_)
    typeset.render(synthetic.comparison(synthetic.MACHINES[:2], broken="none"))
    assert [str(w) for w in seen] == []


def test_a_folder_is_made_and_a_file_replaced_whole(tmp_path):
    target = tmp_path / "new" / "report.pdf"
    typeset.write(b"first", target)
    typeset.write(b"second", target)
    assert target.read_bytes() == b"second"
    assert list(target.parent.iterdir()) == [target]


def test_a_path_that_cannot_be_written_is_the_users_mistake(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"file/report\.pdf: cannot write the report: "):
        typeset.write(b"x", tmp_path / "file" / "report.pdf")
