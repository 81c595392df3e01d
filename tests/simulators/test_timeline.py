"""Does the trace show each slice once, where it was, in a file that viewers take?"""

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from presil.simulators.errors import BadInput, ModelError
from presil.simulators.timeline import Timeline, nanoseconds

CYCLE = 1024  # ticks
CLOCK_HZ = 1e9  # one cycle is one nanosecond


def _example(max_events: int = 100) -> Timeline:
    timeline = Timeline(max_events)
    timeline.record(0, "load", "load", 0, 8 * CYCLE, "loadx", "xb{0}, x[0 +: 4]")
    timeline.stall(0, "matrix", "x_full", 0, 8 * CYCLE)
    timeline.record(0, "matrix", "matmul", 8 * CYCLE, 10 * CYCLE, "mm")
    timeline.record(0, "matrix", "matmul", 10 * CYCLE, 12 * CYCLE + CYCLE // 2, "mm")
    timeline.record(1, "load", "fill", 3 * CYCLE, 5 * CYCLE, "loadx")
    return timeline


def _written(timeline: Timeline, path: Path, clock_hz: float = CLOCK_HZ) -> dict[str, Any]:
    timeline.write(path, clock_hz)
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    trace: dict[str, Any] = json.loads(data)
    return trace


def test_cores_are_processes_and_engines_are_tracks(tmp_path: Path) -> None:
    trace = _written(_example(), tmp_path / "t.json")
    names = {
        (e["name"], e["pid"], e.get("tid")): e["args"]["name"] for e in trace["traceEvents"] if "name" in e["args"]
    }
    assert names == {
        ("process_name", 1, None): "core 0",
        ("process_name", 2, None): "core 1",
        ("thread_name", 1, 1): "load",
        ("thread_name", 1, 2): "matrix",
        ("thread_name", 1, 3): "matrix waits",
        ("thread_name", 2, 4): "load",
    }


def test_slices_are_where_they_were(tmp_path: Path) -> None:
    trace = _written(_example(), tmp_path / "t.json")
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [(e["tid"], e["name"], e["cat"], e["args"]["start_cycle"], e["args"]["cycles"]) for e in slices] == [
        (1, "load", "busy", 0, 8),
        (2, "matmul", "busy", 8, 2),
        (2, "matmul", "busy", 10, 2.5),
        (3, "x_full", "wait", 0, 8),
        (4, "fill", "busy", 3, 2),
    ]
    assert slices[0]["args"] | {"stream": "loadx", "detail": "xb{0}, x[0 +: 4]"} == slices[0]["args"]
    assert "detail" not in slices[1]["args"]
    # Microseconds: 8 cycles of 1 ns are 0.008; a quarter of a nanosecond is added to each start.
    assert slices[1]["ts"] == 0.00825
    assert slices[1]["dur"] == 0.002
    assert trace["otherData"] == {"clock_hz": CLOCK_HZ, "events": 5, "dropped_events": 0}


@pytest.mark.parametrize("clock_hz", [1e9, 7e8, 1.05e9, 123456789.123])
def test_slices_of_a_track_stay_disjoint_as_viewers_cut_them(tmp_path: Path, clock_hz: float) -> None:
    timeline, now = Timeline(), 0
    for i in range(2000):
        now += (i * 7919) % 3001
        timeline.record(0, "matrix", "matmul", now, now + 1 + (i * 104729) % 5003, "mm")
        now += 1 + (i * 104729) % 5003
    slices = [e for e in _written(timeline, tmp_path / "t.json", clock_hz)["traceEvents"] if e["ph"] == "X"]
    assert len(slices) == 2000
    # Perfetto: int64(microseconds * 1000) of a double, for start and for length.
    cut = [(int(e["ts"] * 1000), int(e["dur"] * 1000)) for e in slices]
    assert all(start + length <= after for (start, length), (after, _) in pairwise(cut))
    assert all(e["ts"] * 1000 == pytest.approx(e["args"]["start_cycle"] / clock_hz * 1e9, abs=1) for e in slices)


def test_nanoseconds_are_exact() -> None:
    # 7 cycles at 700 MHz are 10 ns sharp; one tick less is 9.998 ns.
    assert nanoseconds(7 * CYCLE, 7e8) == 10
    assert nanoseconds(7 * CYCLE - 1, 7e8) == 9
    assert nanoseconds(7 * CYCLE * 10**15, 7e8) == 10**16


def test_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    for suffix in (".json", ".json.gz"):
        one, two = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
        _example().write(one, CLOCK_HZ)
        _example().write(two, CLOCK_HZ)
        assert one.read_bytes() == two.read_bytes()
    assert _written(_example(), tmp_path / "a.json") == _written(_example(), tmp_path / "b.json.gz")
    assert {p.name for p in tmp_path.iterdir()} == {
        "one.json",
        "two.json",
        "one.json.gz",
        "two.json.gz",
        "a.json",
        "b.json.gz",
    }


def test_empty_timeline_is_a_trace(tmp_path: Path) -> None:
    assert _written(Timeline(), tmp_path / "t.json")["traceEvents"] == []


def test_what_exceeds_the_cap_is_counted_and_said(tmp_path: Path) -> None:
    timeline = _example(max_events=2)
    assert (timeline.events, timeline.dropped) == (2, 3)
    trace = _written(timeline, tmp_path / "t.json")
    assert sum(e["ph"] == "X" for e in trace["traceEvents"]) == 2
    assert trace["otherData"]["dropped_events"] == 3
    assert trace["traceEvents"][0]["args"]["name"] == "core 0 (3 later events left out)"


def test_engine_that_does_two_things_at_once_is_our_fault() -> None:
    timeline = Timeline()
    timeline.record(0, "matrix", "matmul", 0, 10, "mm")
    with pytest.raises(ModelError, match="core 0 matrix: matmul starts at 9 ticks, matmul ends at 10"):
        timeline.record(0, "matrix", "matmul", 9, 12, "mm")
    timeline.record(0, "matrix", "matmul", 10, 12, "mm")
    with pytest.raises(ModelError, match="matmul runs from 20 to 19 ticks"):
        timeline.record(0, "matrix", "matmul", 20, 19, "mm")


def test_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"found 't\.txt'; allowed: a file name that ends in \.json or \.json\.gz"):
        _example().write(tmp_path / "t.txt", CLOCK_HZ)
    with pytest.raises(BadInput, match=r"none/t\.json: the timeline cannot be written: No such file"):
        _example().write(tmp_path / "none" / "t.json", CLOCK_HZ)
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(BadInput, match=r"folder\.json: the timeline cannot be written"):
        _example().write(tmp_path / "folder.json", CLOCK_HZ)
    assert [p.name for p in tmp_path.iterdir()] == ["folder.json"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.open
    monkeypatch.setattr(Path, "open", lambda _, mode: real(Path("/dev/full"), mode))
    with pytest.raises(BadInput, match="cannot be written: No space left on device"):
        _example().write(tmp_path / "t.json", CLOCK_HZ)
    assert list(tmp_path.iterdir()) == []
