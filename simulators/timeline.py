"""What happened when: a recorder that writes Chrome-trace JSON, to be opened in Perfetto or `chrome://tracing`.

A core is a process, an engine a track, an instruction a slice as long as it occupies the engine; what it still has in
flight behind that is not drawn, since slices of one track must be disjoint. Waits have a track of their own.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

from .errors import BadInput, ModelError
from .timing import TICKS_PER_CYCLE

MAX_EVENTS = 1_000_000
NANOSECONDS = 10**9

Kind = Literal["busy", "wait"]
_Track = tuple[int, str, Kind]
_Slice = tuple[int, int, str, dict[str, str]]


class Timeline:
    """Records up to `max_events` slices; `dropped` says how many came after that and are left out."""

    def __init__(self, max_events: int = MAX_EVENTS) -> None:
        self.max_events, self.dropped, self.events = max_events, 0, 0
        self.begins_at = 0  # ticks: where what is recorded now begins
        self._tracks: dict[_Track, list[_Slice]] = {}

    def record(  # noqa: PLR0917 - the columns of one row, in the order in which all callers have them
        self, core: int, engine: str, op: str, start_ticks: int, end_ticks: int, stream: str, detail: str = ""
    ) -> None:
        """`op` of `stream` occupies the engine from `start_ticks` to `end_ticks` (the end of its occupancy).

        Raises ModelError if the engine is occupied already: an engine does one thing at a time.
        """
        about = {"stream": stream, "detail": detail} if detail else {"stream": stream}
        self._add((core, engine, "busy"), (start_ticks, end_ticks, op, about))

    def stall(self, core: int, engine: str, reason: str, start_ticks: int, end_ticks: int) -> None:
        """The engine stands still from `start_ticks` to `end_ticks` for `reason` (see `EngineTime.stall_ticks`)."""
        self._add((core, engine, "wait"), (start_ticks, end_ticks, reason, {}))

    def write(self, path: str | Path, clock_hz: float) -> None:
        """Write the trace: plain for `.json`, compressed for `.json.gz`. Same records, same bytes.

        The file appears whole or not at all. Raises BadInput for another suffix and if it cannot be written.
        """
        target = Path(path)
        if not target.name.endswith((".json", ".json.gz")):
            raise BadInput(f"timeline: found '{target.name}'; allowed: a file name that ends in .json or .json.gz")
        partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                if target.name.endswith(".gz"):
                    # No name and no time in the gzip header: the same run gives the same bytes.
                    with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as packed:
                        self._write_lines(packed, clock_hz)
                else:
                    self._write_lines(file, clock_hz)
            partial.replace(target)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise BadInput(f"the timeline cannot be written: {error.strerror or error}", file=str(path)) from error

    def _add(self, track: _Track, piece: _Slice) -> None:
        if not 0 <= piece[0] <= piece[1]:
            raise ModelError(
                f"timeline of core {track[0]} {track[1]}: {piece[2]} runs from {piece[0]} to {piece[1]} ticks"
            )
        piece = (piece[0] + self.begins_at, piece[1] + self.begins_at, *piece[2:])
        if self.events >= self.max_events:
            self.dropped += 1
            return
        slices = self._tracks.setdefault(track, [])
        if slices and piece[0] < slices[-1][1]:
            where = f"timeline of core {track[0]} {track[1]}"
            raise ModelError(f"{where}: {piece[2]} starts at {piece[0]} ticks, {slices[-1][2]} ends at {slices[-1][1]}")
        slices.append(piece)
        self.events += 1

    def _write_lines(self, file: IO[bytes] | gzip.GzipFile, clock_hz: float) -> None:
        about = {"clock_hz": clock_hz, "events": self.events, "dropped_events": self.dropped}
        header = json.dumps({"displayTimeUnit": "ns", "otherData": about}, sort_keys=True)
        file.write(f'{header[:-1]}, "traceEvents": [\n'.encode())
        separator = ""
        for event in self._trace(clock_hz):
            file.write(f"{separator}{json.dumps(event, sort_keys=True)}".encode())
            separator = ",\n"
        file.write(b"\n]}\n")

    def _trace(self, clock_hz: float) -> Iterator[dict[str, Any]]:
        # Ids start at 1: viewers drop track 0. Engines stand in the order of their first instruction, which is about
        # the order of the data, each with its waits beneath it.
        first_seen = {(core, engine): i for i, (core, engine, _) in reversed(list(enumerate(self._tracks)))}
        order = sorted(self._tracks, key=lambda track: (track[0], first_seen[track[:2]], track[2]))
        for core in sorted({track[0] for track in order}):
            left_out = f" ({self.dropped:,} later events left out)" if self.dropped else ""
            yield _label("process_name", core + 1, 0, {"name": f"core {core}{left_out}"})
        for tid, (core, engine, kind) in enumerate(order, start=1):
            name = engine if kind == "busy" else f"{engine} waits"
            yield _label("thread_name", core + 1, tid, {"name": name})
            yield _label("thread_sort_index", core + 1, tid, {"sort_index": tid})
            for start, end, label, about in self._tracks[core, engine, kind]:
                begin_ns, end_ns = nanoseconds(start, clock_hz), nanoseconds(end, clock_hz)
                cycles = {"start_cycle": start / TICKS_PER_CYCLE, "cycles": (end - start) / TICKS_PER_CYCLE}
                # Viewers cut microseconds down to whole nanoseconds, in floats. The quarter keeps them from cutting
                # 1001 ns, held as 1.0009999, to 1000 and finding an overlap, for which they drop the slice.
                yield {
                    "ph": "X",
                    "name": label,
                    "cat": kind,
                    "pid": core + 1,
                    "tid": tid,
                    "ts": (4 * begin_ns + 1) / 4000,
                    "dur": (end_ns - begin_ns) / 1000,
                    "args": {**about, **cycles},
                }


def nanoseconds(ticks: int, clock_hz: float) -> int:
    """Whole nanoseconds before `ticks`. Exact integers, so that the end of one slice is the start of the next."""
    numerator, denominator = clock_hz.as_integer_ratio()
    return ticks * NANOSECONDS * denominator // (TICKS_PER_CYCLE * numerator)


def _label(kind: str, pid: int, tid: int, value: dict[str, Any]) -> dict[str, Any]:
    track = {"tid": tid} if tid else {}
    return {"ph": "M", "name": kind, "pid": pid, **track, "args": value}
