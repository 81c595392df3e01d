"""Where the time of each engine went, in words: which data, from where, or which free slot it waited for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .program import Instruction, Program, instructions
from .timing import Timing

MAX_SIGNALLERS_SHOWN = 3
# Reasons that are no semaphores.
WORDS: Mapping[str, str] = {
    "issue": "waiting for its sequencer",
    "done": "finished",
    "idle": "idle; the RTL counts no reasons",
    "launch": "waiting for the launch of the program",
    "dispatch": "waiting for its next instance",
}
NO_STALL_WORDS = "never waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class StallRow:
    """One reason why one engine stood still. Percentages are of the time of the whole run.

    An engine that never waited has one row with an empty `reason`.
    """

    engine: str
    busy_percent: float
    reason: str
    stall_percent: float
    words: str

    @property
    def sentence(self) -> str:
        """`matrix engine: 53% waiting for w from ddr3 (...)`."""
        share = f"{self.stall_percent:.0f}% " if self.reason else ""
        return f"{self.engine} engine: {share}{self.words}"


def stall_table(timing: Timing, program: Program) -> list[StallRow]:
    """The rows of all engines, in the order of `timing.engines`; within an engine the longest stall comes first."""
    rows: list[StallRow] = []
    causes = _Causes(timing, program)
    for engine, time in timing.engines.items():
        busy = _percent(time.busy_ticks, timing.ticks)
        stalls = sorted(((-ticks, reason) for reason, ticks in time.stall_ticks.items() if ticks > 0))
        if not stalls:
            rows.append(StallRow(engine=engine, busy_percent=busy, reason="", stall_percent=0.0, words=NO_STALL_WORDS))
        for negative_ticks, reason in stalls:
            share = _percent(-negative_ticks, timing.ticks)
            words = causes.words(engine, reason, -negative_ticks)
            rows.append(StallRow(engine=engine, busy_percent=busy, reason=reason, stall_percent=share, words=words))
    return rows


class _Causes:
    """Follows a wait to what is behind it: who should signal may itself be waiting, most of that time, for another."""

    def __init__(self, timing: Timing, program: Program) -> None:
        self.timing, self.program = timing, program
        self.explained: dict[str, str] = {}
        self.waits: dict[str, set[str]] = {}  # by stream
        self.givers: dict[str, set[str]] = {}  # streams, by semaphore
        for stream in (stream for phase in program.phases for stream in phase.streams):
            for instruction, _ in instructions(stream.body):
                self.waits.setdefault(stream.name, set()).update(c.semaphore for c in instruction.waits)
                for count in instruction.signals:
                    self.givers.setdefault(count.semaphore, set()).add(stream.name)

    def words(self, engine: str, reason: str, ticks: int) -> str:
        """Why `engine` waited for `reason`, in words."""
        root = self._root(engine.rpartition(".")[0], reason, ticks)
        if root not in self.explained:
            self.explained[root] = explain(root, self.program)
        words = self.explained[root]
        return words if root == reason else f"{words.removesuffix(')')}; held up through {reason})"

    def _root(self, core: str, reason: str, ticks: int) -> str:
        """The last of the chain of waits in which each covers at least half of the time of the first."""
        chain = [reason]
        while True:
            waited = {w for giver in self.givers.get(chain[-1], ()) for w in self.waits.get(giver, ())} - set(chain)
            behind = {w: self._ticks(core, w) for w in waited}
            longest = max(sorted(behind), key=lambda w: behind[w], default=None)
            if longest is None or 2 * behind[longest] < ticks:
                return chain[-1]
            chain.append(longest)

    def _ticks(self, core: str, reason: str) -> int:
        engines = self.timing.engines.items()
        return max((t.stall_ticks.get(reason, 0) for name, t in engines if name.rpartition(".")[0] == core), default=0)


def stall_text(rows: Iterable[StallRow]) -> str:
    """The rows as an aligned table, one line each, with a head."""
    cells = [("engine", "busy", "stalled", "")]
    for row in rows:
        stalled = f"{row.stall_percent:.1f}%" if row.reason else "-"
        cells.append((row.engine, f"{row.busy_percent:.1f}%", stalled, row.words))
    width = max(len(engine) for engine, *_ in cells)
    lines = (f"{engine:<{width}}  {busy:>6}  {stalled:>7}  {words}" for engine, busy, stalled, words in cells)
    return "\n".join(line.rstrip() for line in lines)


def explain(reason: str, program: Program) -> str:
    """A stall reason (a semaphore, `link NAME`, or one of `WORDS`) in words."""
    known = [phase for phase in program.phases if any(s.name == reason for s in phase.semaphores)]
    if reason in WORDS and not known:
        return WORDS[reason]
    if reason.startswith("link "):
        return f"waiting for memory {reason.removeprefix('link ')}"
    program = known[0] if known else program
    givers, takers = _users(reason, program)
    if not givers:
        return f"waiting for semaphore {reason}, which nothing signals"
    by = list(dict.fromkeys(f"{giver.op} in stream {stream}" for stream, giver in givers))
    some = " and ".join(by[:MAX_SIGNALLERS_SHOWN]) + (" and others" if len(by) > MAX_SIGNALLERS_SHOWN else "")
    return f"waiting for {_meant(givers, takers, program)} (semaphore {reason}, signalled by {some})"


def _users(semaphore: str, program: Program) -> tuple[list[tuple[str, Instruction]], list[Instruction]]:
    """Who signals the semaphore, with the stream, and who waits for it."""
    givers: list[tuple[str, Instruction]] = []
    takers: list[Instruction] = []
    for stream in program.streams:
        for instruction, _ in instructions(stream.body):
            if any(count.semaphore == semaphore for count in instruction.signals):
                givers.append((stream.name, instruction))
            if any(count.semaphore == semaphore for count in instruction.waits):
                takers.append(instruction)
    return givers, takers


def _meant(givers: list[tuple[str, Instruction]], takers: list[Instruction], program: Program) -> str:
    """What a wait is for: a slot that the signaller has read out, or what it has written."""
    written_by_takers = {taker.operands[0].name for taker in takers if taker.operands}
    read_by_takers = {region.name for taker in takers for region in taker.operands[1:]}
    for _, giver in givers:
        for region in giver.operands[1:]:
            if region.name in written_by_takers and region.name not in read_by_takers:
                return f"a free slot of {region.name}"
    # Where several signal, the one that writes what is read next is the one that is meant.
    stream, giver = next(((s, g) for s, g in givers if g.operands and g.operands[0].name in read_by_takers), givers[0])
    if not giver.operands:
        return f"{giver.op} in stream {stream}"
    target = program.tensor(giver.operands[0].name)
    if target is not None:
        return f"{target.name} to reach {target.memory}"
    for region in giver.operands[1:]:
        source = program.tensor(region.name)
        if source is not None:
            return f"{source.name} from {source.memory}"
    return f"{giver.operands[0].name} from {giver.op}"


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
