"""How much of each module do its benches execute? Lines, and bits of signals that both rose and fell."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from ..cocotb_run import run_bench
from .test_modules import SMALL, bench

POINT = re.compile(r"C '(.*)' (\d+)$")
LEAST = {
    "line": 0.95,
    "toggle": 0.45,
}  # of a command, an engine uses a part; high bits of addresses and sizes never move


def covered(data: Path, module: str) -> dict[str, tuple[int, int]]:
    """Of each kind of point in `module`: (met, all), from Verilator's coverage file."""
    met, every = Counter[str](), Counter[str]()
    for line in data.read_text(errors="replace").splitlines():
        point = POINT.match(line)
        fields = dict(part.split("\2", 1) for part in point[1].split("\1") if "\2" in part) if point else {}
        if point and Path(fields.get("f", "")).stem == module:
            kind = fields["page"].removeprefix("v_").split("/")[0]
            kind = "line" if kind == "branch" else kind
            every[kind] += 1
            met[kind] += int(point[2]) > 0
    return {kind: (met[kind], every[kind]) for kind in every}


@pytest.mark.slow
@pytest.mark.parametrize("module", SMALL)
def test_lines_and_toggles(module, tmp_path, capsys):
    run_bench(bench(module), module, SMALL[module], tmp_path, coverage=True, environment={"PRESIL_ROUNDS": "100"})
    found = covered(tmp_path / "coverage.dat", module)
    assert found, "nothing was measured"
    shares = {kind: met / every for kind, (met, every) in found.items()}
    with capsys.disabled():
        print(f"\n  {module}: " + ", ".join(f"{k} {m} of {n}" for k, (m, n) in found.items()), end="")  # noqa: T201
    assert {kind: share for kind, share in shares.items() if share < LEAST[kind]} == {}
