"""Lints the SystemVerilog of every family: Verilator with all warnings, and slang, a second reader, with its own.

`python -m presil.simulators.rtl.lint` ends with 1 where either says anything. No warning is waived for a whole file but
that a package has constants which one family does not use.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import Unsupported
from ..family import family, family_names
from .build import sources
from .toolchain import find_toolchain


def verilator_findings(top: str, files: Sequence[Path]) -> str:
    """What Verilator says of a design; nothing if it is clean."""
    toolchain = find_toolchain()
    command = [str(toolchain.verilator), "--lint-only", "-Wall", "--top-module", top, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=toolchain.environment)
    return done.stderr if done.returncode else ""


def slang_clean(top: str, files: Sequence[Path]) -> bool:
    """Whether slang elaborates a design without a warning; it prints what it finds."""
    try:  # an extra, `lint`: who runs programs needs none
        driver = importlib.import_module("pyslang.driver").Driver()
    except ImportError:
        raise Unsupported("slang is not installed; `pip install presil[lint]` brings it") from None
    driver.addStandardArgs()
    words = ["slang", "-Wextra", "-Wno-useless-cast", "-Werror", "--top", top, *map(str, files)]
    if not (driver.parseCommandLine(" ".join(words)) and driver.processOptions() and driver.parseAllSources()):
        return False
    driver.reportCompilation(driver.createCompilation(), quiet=True)
    return bool(driver.reportDiagnostics(quiet=True))


def main() -> None:
    """Lint, and end with 1 for a finding."""
    clean = True
    for name in family_names():
        if not family(name).opcodes:
            continue
        files, top = sources(name), f"{name}_bench"
        found = verilator_findings(top, files)
        sys.stderr.write(found)
        clean = slang_clean(top, files) and not found and clean
    sys.exit(not clean)


if __name__ == "__main__":
    main()
