"""Is a chip built once, built anew when anything in it changes, and never half there?"""

import ctypes
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from presil.simulators.errors import Unsupported
from presil.simulators.family import family
from presil.simulators.rtl import build as module
from presil.simulators.rtl.build import build, cache_folder, clear, hardware, sources
from presil.simulators.rtl.toolchain import find_toolchain

from .kernels import library, machine

PARAMETERS = {"Rows": 4, "Columns": 4}


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("PRESIL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def made(monkeypatch):
    """Instead of Verilator and compiler: what was asked of them."""
    asked = []

    def make(folder, *given):
        *_, parameters, waves, _ = given
        asked.append((dict(parameters), waves))
        found = folder / "chip.so"
        found.write_text(f"library {len(asked)}")
        return found

    monkeypatch.setattr(module, "_make", make)
    return asked


def test_an_unchanged_design_is_never_built_again(made):
    first = build("systolic", PARAMETERS)
    assert first.read_text() == "library 1"
    assert build("systolic", dict(reversed(PARAMETERS.items()))) == first
    assert made == [(PARAMETERS, "none")]
    assert [p.suffix for p in sorted(first.parent.iterdir())] == [".lock", ".so"]  # no half-built folders stay


def test_what_differs_is_built_beside_it(made, tmp_path):
    copies = [Path(shutil.copy(path, tmp_path / path.name)) for path in sources("systolic")]
    found = [build("systolic", PARAMETERS), build("systolic", {**PARAMETERS, "Rows": 5})]
    found += [build("systolic", PARAMETERS, waves="vcd"), build("systolic", PARAMETERS, waves="fst")]
    same = build("systolic", PARAMETERS, files=copies)
    assert same == found[0]  # what counts is what is in the files, not where they lie
    copies[-1].write_text(copies[-1].read_text() + "\n")
    found.append(build("systolic", PARAMETERS, files=copies))
    assert len(set(found)) == len(made) == 5


def test_a_newer_verilator_builds_anew(made, monkeypatch):
    first = build("systolic", PARAMETERS)
    real = find_toolchain()
    newer = type(real)(real.verilator, real.root, "9.999", real.compiler)
    monkeypatch.setattr(module, "find_toolchain", lambda _: newer)
    assert build("systolic", PARAMETERS) != first


def test_a_build_that_fails_leaves_nothing_and_may_be_tried_again(made, monkeypatch):
    def fail(*_):
        raise Unsupported("no")

    with monkeypatch.context() as patch:
        patch.setattr(module, "_make", fail)
        with pytest.raises(Unsupported):
            build("systolic", PARAMETERS)
    assert [path.suffix for path in cache_folder().iterdir()] == [".lock"]
    assert build("systolic", PARAMETERS).read_text() == "library 1"


def test_the_cache_can_be_forgotten(made):
    build("systolic", PARAMETERS)
    clear()
    assert not cache_folder().exists()
    build("systolic", PARAMETERS)
    assert len(made) == 2


def test_where_the_cache_lies(monkeypatch, tmp_path):
    assert cache_folder() == tmp_path / "cache" / "rtl"
    monkeypatch.delenv("PRESIL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "presil" / "rtl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "presil" / "rtl"


RACER = """
import sys, time
from pathlib import Path
from presil.simulators.rtl import build as module
def make(folder, *_):
    log = Path(sys.argv[1])
    log.write_text(log.read_text() + "built ")
    time.sleep(1)
    (folder / "chip.so").write_text("whole")
    return folder / "chip.so"
module._make = make
print(module.build("systolic", {"Rows": 4}).read_text())
"""


def test_of_several_that_want_it_at_once_one_builds_and_the_others_wait(tmp_path):
    log = tmp_path / "log"
    log.write_text("")
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, str(log)], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert [racer.communicate(timeout=60)[0].strip() for racer in racers] == ["whole"] * 3
    assert log.read_text() == "built "


def test_packages_come_before_the_modules_that_read_them():
    found = [path.stem for path in sources("systolic")]
    assert found[:2] == ["presil_pkg", "systolic_pkg"]
    assert {"sequencer", "systolic_chip", "systolic_bench"} <= set(found)
    assert (hardware() / "common").is_dir()


def test_the_hardware_goes_into_the_wheel_beside_the_simulators():
    """As in the clone, so one path finds it in both."""
    root = hardware().parent
    wheel = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {"hw", "simulators"} <= set(wheel["only-include"])
    assert wheel["sources"] == {"": "presil"}


def test_a_family_without_rtl():
    with pytest.raises(Unsupported, match="there is no RTL of the gpu family"):
        build("gpu", {})


def test_verilators_own_words_are_shown(tmp_path):
    broken = tmp_path / "systolic_bench.sv"
    broken.write_text("module systolic_bench (input logic clk_i);\n  logic x = nonsense;\nendmodule\n")
    with pytest.raises(Unsupported, match=r"(?s)Verilator refuses the chip: .*systolic_bench\.sv:2:.*nonsense"):
        build("systolic", {}, files=[broken])


def test_a_build_takes_only_so_long(monkeypatch):
    monkeypatch.setattr(module, "BUILD_SECONDS", 0.01)
    with pytest.raises(Unsupported, match=r"Verilator refuses the chip: longer than 0\.01 s"):
        build("systolic", family("systolic").elaborate(machine(4)))


def test_the_library_is_found_again_at_once(monkeypatch):
    monkeypatch.delenv("PRESIL_CACHE")  # the chip of the other tests
    path = library(4)
    began = time.perf_counter()
    assert build("systolic", family("systolic").elaborate(machine(4))) == path
    assert time.perf_counter() - began < 1
    assert ctypes.CDLL(str(path)).presil_run


@pytest.mark.slow
def test_a_chip_is_built_cold():
    assert ctypes.CDLL(str(build("systolic", family("systolic").elaborate(machine(4))))).presil_new
