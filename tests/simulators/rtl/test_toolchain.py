"""Is the Verilator found that was asked for, or the first that will do, and is what is missing said in words?"""

import os
import stat
from pathlib import Path

import pytest

from presil.simulators.errors import Unsupported
from presil.simulators.rtl import toolchain
from presil.simulators.rtl.toolchain import find_toolchain


@pytest.fixture(autouse=True)
def _bare(monkeypatch, tmp_path):
    """A PATH with a C++ compiler on it and no Verilator; no variable that names one."""
    for variable in ("VERILATOR", "VERILATOR_ROOT", "CXX"):
        monkeypatch.delenv(variable, raising=False)
    script(tmp_path / "path" / "g++", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def verilator(folder: Path, version: str) -> Path:
    """An installation that answers as Verilator does: its compiler, the script beside it, its headers."""
    root = folder / "share" / "verilator"
    (root / "include").mkdir(parents=True)
    script(folder / "bin" / "verilator", "exit 1")
    return script(
        folder / "bin" / "verilator_bin", f"echo 'Verilator {version} 2025'; echo '    VERILATOR_ROOT      = {root}'"
    )


def test_the_wheel_is_the_last_resort():
    found = find_toolchain()
    assert found.verilator == found.root / "bin" / "verilator_bin"
    assert "site-packages" in str(found.root)
    assert found.version.startswith("5.")
    assert (found.includes[0] / "verilated.h").is_file()
    assert found.environment["VERILATOR_ROOT"] == str(found.root)
    assert found.compiler.endswith("g++")


@pytest.mark.parametrize(("version", "taken"), [("5.006", False), ("5.035", False), ("5.036", True), ("6.001", True)])
def test_one_on_the_path_is_taken_if_it_is_new_enough(tmp_path, monkeypatch, version, taken):
    """Tight: 5.036 is the first."""
    on_path = verilator(tmp_path / "own", version)
    monkeypatch.setenv("PATH", f"{on_path.parent}{os.pathsep}{os.environ['PATH']}")
    found = find_toolchain()
    assert (found.verilator == on_path) == taken
    if taken:
        assert (found.version, found.root) == (version, tmp_path / "own" / "share" / "verilator")


@pytest.mark.parametrize("name", ["verilator", "verilator_bin"])
def test_one_that_is_named_is_taken_whatever_its_age(tmp_path, name):
    own = verilator(tmp_path / "old", "5.006")
    found = find_toolchain(str(own.with_name(name)))
    assert (found.verilator, found.version) == (own, "5.006")


def test_the_argument_comes_before_the_variable_and_that_before_the_path(tmp_path, monkeypatch):
    asked, variable, on_path = (verilator(tmp_path / name, "5.040") for name in ("asked", "variable", "on_path"))
    monkeypatch.setenv("PATH", f"{on_path.parent}{os.pathsep}{os.environ['PATH']}")
    assert find_toolchain().verilator == on_path
    monkeypatch.setenv("VERILATOR", str(variable))
    assert find_toolchain().verilator == variable
    assert find_toolchain(str(asked)).verilator == asked


def test_a_name_is_looked_for_on_the_path(tmp_path, monkeypatch):
    own = verilator(tmp_path / "own", "5.006")
    monkeypatch.setenv("PATH", f"{own.parent}{os.pathsep}{os.environ['PATH']}")
    assert find_toolchain("verilator").verilator == own


@pytest.mark.parametrize("body", ["exit 3", "echo hello", "kill -9 $$"])
def test_what_is_named_and_is_none_is_refused(tmp_path, monkeypatch, body):
    """It is not silently replaced by another."""
    fake = script(tmp_path / "verilator_bin", body)
    with pytest.raises(Unsupported, match=f"{fake} is no Verilator that can be run"):
        find_toolchain(str(fake))
    monkeypatch.setenv("VERILATOR", "/none/verilator")
    with pytest.raises(Unsupported, match="/none/verilator is no Verilator that can be run"):
        find_toolchain()


def test_nothing_at_all(monkeypatch):
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Unsupported, match=r"no Verilator: none on the PATH of 5\.036 or newer, and the package"):
        find_toolchain()


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(Unsupported, match=r"none of \$CXX, g\+\+, clang\+\+ is there"):
        find_toolchain()
    monkeypatch.setenv("CXX", "/opt/own/c++")
    assert find_toolchain().compiler == "/opt/own/c++"
