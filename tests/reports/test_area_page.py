"""Area beside throughput."""

import dataclasses
import io

import pypdf

from presil.reports import typeset
from presil.reports.data import Area, Figure
from presil.reports.tables import density_table

from . import synthetic

ARRAY = Area(
    family="systolic", module="array", unit="processing element", fixed=40.0, per_unit=1000.0, worst_fit_percent=0.5
)


def comparison(*areas: Area):
    sizes = {"rows": "3", "columns": "5", "count": "2"}
    figures = tuple(Figure(path=f"systolic.array.{name}", value=n, source="chosen") for name, n in sizes.items())
    machine = dataclasses.replace(synthetic.MACHINES[0], figures=figures, cores=2, peaks={"int8": 1e12})
    return dataclasses.replace(synthetic.comparison((machine,)), areas=areas)


def test_cells_are_those_of_all_arrays_of_all_cores():
    # 3 x 5 elements, two arrays, two cores: 60; 40 + 60 * 1000 cells; 2 operations for each multiply-add.
    ((_, elements, cells, peak, density, _),) = density_table(comparison(ARRAY))["rows"]
    assert [c["text"].replace("\u200b", "") for c in (elements, cells, peak)] == ["60", "60 kcells", "2 Top/s"]
    assert density["text"].startswith("33.3 M")


def test_without_an_array_counted_there_is_no_row():
    assert density_table(comparison(dataclasses.replace(ARRAY, module="dma")))["rows"] == []
    assert density_table(comparison(dataclasses.replace(ARRAY, family="gpu")))["rows"] == []


def test_the_page_is_there_only_with_areas():
    def text(data) -> str:
        pages = pypdf.PdfReader(io.BytesIO(typeset.render(data))).pages
        return " ".join(p.extract_text() for p in pages)

    assert "processing element" in text(comparison(ARRAY))
    assert "Cells are gates" not in text(comparison())
