"""Builds a chip into a shared library, once: the library's name is the digest of all that it is made from."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from ..errors import Unsupported
from .toolchain import Toolchain, find_toolchain

Waves = Literal["none", "vcd", "fst"]
Parameters = Mapping[str, int]
FLAGS = ("-O2", "-std=c++20", "-fPIC", "-w")
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
STORED = Path(__file__).with_name("stored")  # stand-ins for the headers of compression, searched last
COMPRESSION = {"lz4.h": "-llz4", "zlib.h": "-lz"}  # what FST files are written with
TRACE_RUNTIME = {"none": (), "vcd": ("verilated_vcd_c.cpp",), "fst": ("verilated_fst_c.cpp",)}
BUILD_SECONDS = 900


def hardware() -> Path:
    """The folder of the SystemVerilog: beside `simulators/`, in the clone and in the installed package."""
    return Path(__file__).resolve().parents[2] / "hw"


def sources(family: str) -> list[Path]:
    """The modules of a family and those common to all, packages first. Raises Unsupported where there are none."""
    found = [path for folder in ("common", family) for path in sorted((hardware() / folder).glob("*.sv"))]
    if not (hardware() / family).is_dir():
        raise Unsupported(f"there is no RTL of the {family} family")
    return sorted(found, key=lambda path: not path.stem.endswith("_pkg"))


def cache_folder() -> Path:
    """Where libraries are kept: $PRESIL_CACHE, or the user's cache."""
    own = os.environ.get("PRESIL_CACHE")
    base = Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "presil"
    return base / "rtl"


def build(
    family: str,
    parameters: Parameters,
    *,
    waves: Waves = "none",
    verilator: str | None = None,
    files: Sequence[Path] | None = None,
) -> Path:
    """The library of a chip with these parameters. `files` replaces the modules of `hw/` (to seed faults).

    Of several processes that want the same one, the first builds and the others wait for it.
    Raises Unsupported where a tool is missing or refuses.
    """
    toolchain = find_toolchain(verilator)
    modules = list(files or sources(family))
    driver = Path(__file__).with_name("driver.cpp")
    digest = hashlib.sha256()
    for path in (*modules, driver, Path(__file__), *sorted(STORED.iterdir())):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(
        repr((family, sorted(parameters.items()), waves, toolchain.version, toolchain.compiler, FLAGS)).encode()
    )
    library = cache_folder() / f"{digest.hexdigest()[:32]}.so"
    if not library.exists():
        with _alone(library), tempfile.TemporaryDirectory(dir=library.parent, prefix="building-") as folder:
            if not library.exists():
                made = _make(Path(folder), modules, driver, family, parameters, waves, toolchain)
                made.replace(library)  # atomic: whoever reads it without the lock reads all of it
    return library


@contextmanager
def _alone(library: Path) -> Iterator[None]:
    """While this is open no other process builds that library."""
    library.parent.mkdir(parents=True, exist_ok=True)
    with library.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(  # noqa: PLR0917 - all that a library is made from
    folder: Path,
    modules: list[Path],
    driver: Path,
    family: str,
    parameters: Parameters,
    waves: Waves,
    toolchain: Toolchain,
) -> Path:
    traced = {"none": [], "vcd": ["--trace-vcd"], "fst": ["--trace-fst"]}[waves]
    verilate = [
        str(toolchain.verilator), "--cc", "--top-module", f"{family}_bench", "--Mdir", str(folder), "-O3",
        "--x-initial", "unique", "--noassert", *traced,
        *(f"-G{name}={value}" for name, value in parameters.items()), *map(str, modules),
    ]  # fmt: skip
    _run(verilate, toolchain, "Verilator refuses the chip")
    traces = {"none": (), "vcd": ("-DPRESIL_VCD", "-DVM_TRACE=1"), "fst": ("-DPRESIL_FST", "-DVM_TRACE=1")}[waves]
    defines = (f"-DPRESIL_BENCH={family}_bench", *traces)
    includes = [*(f"-I{path}" for path in (folder, *toolchain.includes)), f"-idirafter{STORED}"]
    runtime = [toolchain.includes[0] / name for name in (*RUNTIME, *TRACE_RUNTIME[waves])]
    units = [*sorted(folder.glob("V*.cpp")), *runtime, driver]

    def compile_unit(unit: Path) -> str:
        made = folder / f"{unit.stem}.o"
        command = [toolchain.compiler, *FLAGS, *defines, *includes, "-c", str(unit), "-o", str(made)]
        _run(command, toolchain, f"{unit.name} does not compile")
        return str(made)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(compile_unit, units))
    library = folder / "chip.so"
    extra = [flag for header, flag in COMPRESSION.items() if waves == "fst" and _installed(header, toolchain)]
    link = [toolchain.compiler, "-shared", *objects, "-o", str(library), "-lpthread", *extra]
    _run(link, toolchain, "the chip does not link")
    return library


def _installed(header: str, toolchain: Toolchain) -> bool:
    command = [toolchain.compiler, "-x", "c++", "-E", "-include", header, os.devnull]
    return subprocess.run(command, capture_output=True, check=False, timeout=BUILD_SECONDS).returncode == 0


def _run(command: list[str], toolchain: Toolchain, problem: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS, env=toolchain.environment
        )
    except subprocess.TimeoutExpired:
        raise Unsupported(f"{problem}: longer than {BUILD_SECONDS} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Unsupported(f"{problem}: {'; '.join(said[:3])}")


def clear() -> None:
    """Forget every library."""
    shutil.rmtree(cache_folder(), ignore_errors=True)
