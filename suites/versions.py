"""What made a result: versions of the libraries, the revision of the tree, and a digest of the code that counts."""

from __future__ import annotations

import functools
import hashlib
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import presil.kernels
import presil.simulators

LIBRARIES = ("presil", "numpy", "scipy", "ml_dtypes", "simpy", "onnx", "pydantic")
UNKNOWN = "unknown"


def versions() -> dict[str, str]:
    """Version by name, with `python`, `platform`, `revision` (of git) and `code` (see `code_digest`)."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # run from the tree, or a library that only some parts need
            found[name] = UNKNOWN
    return {**found, "revision": _revision(), "code": code_digest()}


@functools.cache
def code_digest() -> str:
    """16 hex digits over all source below `simulators/` and `kernels/`, and what makes an item's record.

    Finished work is used again only where this is the same. Machine descriptions have digests of their own.
    """
    roots = [Path(package.__path__[0]).resolve() for package in (presil.simulators, presil.kernels)]
    files = [(root.name, path) for root in roots for path in root.rglob("*") if path.suffix in {".py", ".yaml", ".cpp"}]
    files += [("suites", Path(__file__).with_name(name)) for name in ("pipeline.py", "items.py", "results.py")]
    total = hashlib.sha256()
    for folder, path in sorted(files):
        if path.parent.name != "machines":
            total.update(f"{folder}/{path.name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def _revision() -> str:
    """The commit of the tree that this code lies in, with `+` where it has changes; `unknown` outside one."""
    tree = Path(__file__).resolve().parent.parent
    if not (tree / ".git").exists():
        return UNKNOWN
    try:
        words = ["git", "-C", str(tree), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
        found = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    return found.stdout.strip() if found.returncode == 0 else UNKNOWN
