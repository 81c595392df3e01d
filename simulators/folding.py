"""Times one of several alike parts of a core: arrays that do the same at the same time.

Streams of one text in all but the names of their semaphores and the number of their engine form a *group* with their
likes: shift and matrix of array 0, of array 1, ... Groups meet the rest of the program only through semaphores. Where
every other instruction waits for and signals the semaphores of all groups alike, all groups are in the same state at
every tick: completions come before streams within a tick, and no instruction signals when it starts. So only the first
group is simulated, and what it did is counted for the others. Links are shared in order of arrival, so streams that use
one are never folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .compiled import Code, CompiledProgram, Issue
from .engine import Engine

Pairs = dict[int, int]  # of the first group -> of the group that mirrors it


@dataclass(frozen=True, slots=True)
class Mirror:
    """A group that is not simulated: its engines, instructions and semaphores, by those of the first group."""

    engines: Pairs
    issues: Pairs
    semaphores: Pairs


@dataclass(frozen=True, slots=True)
class Folded:
    """A program without its mirrored groups."""

    program: CompiledProgram
    mirrors: tuple[Mirror, ...]

    def unfold(self, engine: Engine) -> None:
        """Count what the first group did for every mirror too."""
        program, names = self.program, self.program.semaphore_names
        engines = len(program.engine_names)
        for mirror in self.mirrors:
            renamed = {names[a]: names[b] for a, b in mirror.semaphores.items()}
            for core in range(program.cores):
                for kept, mirrored in mirror.issues.items():
                    engine.issued[core * program.issues + mirrored] = engine.issued[core * program.issues + kept]
                for kept, mirrored in mirror.engines.items():
                    for (index, reason), ticks in list(engine.stalls.items()):
                        if index == core * engines + kept:
                            engine.stalls[core * engines + mirrored, renamed.get(reason, reason)] = ticks


def fold(program: CompiledProgram) -> Folded:
    """`program` without the groups that mirror the first; the program itself where none do."""
    members = [group for group in _alike(program.codes) if len(group) > 1]
    sizes = {len(group) for group in members}
    if len(sizes) != 1:
        return Folded(program, ())
    groups = [[group[i] for group in members] for i in range(sizes.pop())]
    mirrors = [_mirror(groups[0], group) for group in groups[1:]]
    folded = {id(code) for group in groups for code in group}
    rest = [code for code in program.codes if id(code) not in folded]
    found = [m for m in mirrors if m is not None]
    if len(found) != len(mirrors) or not _apart(program, groups, rest, found):
        return Folded(program, ())
    dropped = {s for mirror in found for s in mirror.semaphores.values()}
    first = {id(code) for code in groups[0]}
    codes = tuple(
        code if id(code) in first else _without(code, dropped)
        for code in program.codes
        if id(code) in first or id(code) not in folded
    )
    return Folded(replace(program, kinds=(codes,)), tuple(found))


def _alike(codes: Sequence[Code]) -> list[list[Code]]:
    """Codes by their form: steps and prices, without names. Those that use a link are alone."""
    forms: dict[object, list[Code]] = {}
    for code in codes:
        steps: list[object] = []
        for step in code.steps:
            if not isinstance(step, Issue):
                steps.append(step)
                continue
            if step.links:
                steps.append(id(code))
            waits, signals = (tuple(n for _, n in counts) for counts in (step.waits, step.signals))
            steps.append((step.occupancy, step.latency, waits, signals))
        forms.setdefault(tuple(steps), []).append(code)
    return list(forms.values())


def _mirror(first: Sequence[Code], other: Sequence[Code]) -> Mirror | None:
    """How `other` mirrors `first`; None where the names do not go one to one."""
    pairs: tuple[Pairs, Pairs, Pairs] = ({}, {}, {})
    engines, issues, semaphores = pairs
    for a, b in zip(first, other, strict=True):
        for one, two in zip(a.steps, b.steps, strict=True):
            if not isinstance(one, Issue) or not isinstance(two, Issue):
                continue
            counts = zip((*one.waits, *one.signals), (*two.waits, *two.signals), strict=True)
            named = [(engines, one.engine, two.engine), (issues, one.number, two.number)]
            named += [(semaphores, kept, mirrored) for (kept, _), (mirrored, _) in counts]
            for table, kept, mirrored in named:
                if kept == mirrored or table.setdefault(kept, mirrored) != mirrored:
                    return None
    if any(len(set(table.values())) != len(table) or set(table) & set(table.values()) for table in pairs):
        return None
    return Mirror(*pairs)


def _apart(
    program: CompiledProgram, groups: Sequence[Sequence[Code]], rest: Sequence[Code], mirrors: Sequence[Mirror]
) -> bool:
    """Whether the groups share nothing, start alike, and all other instructions treat them alike."""
    own = [set(mirrors[0].semaphores), *(set(m.semaphores.values()) for m in mirrors)]
    used = [set(mirrors[0].engines), *(set(m.engines.values()) for m in mirrors)]
    if sum(map(len, own)) != len(set().union(*own)) or sum(map(len, used)) != len(set().union(*used)):
        return False
    if any(program.initial[a] != program.initial[b] for m in mirrors for a, b in m.semaphores.items()):
        return False
    engines = set().union(*used)
    for code in rest:
        for step in code.steps:
            if isinstance(step, Issue):
                if step.engine in engines:
                    return False
                if not all(_treats_alike(counts, own[0], mirrors) for counts in (step.waits, step.signals)):
                    return False
    return True


def _treats_alike(counts: Sequence[tuple[int, int]], first: set[int], mirrors: Sequence[Mirror]) -> bool:
    """Whether a semaphore of the first group is named before its mirrors, and each mirror as often with as much."""
    kept = [(s, n) for s, n in counts if s in first]
    for mirror in mirrors:
        back = {b: a for a, b in mirror.semaphores.items()}
        mirrored = [(back[s], n) for s, n in counts if s in back]
        if mirrored != kept:
            return False
    order = [s for s, _ in counts]
    return all(
        order.index(s) < order.index(m.semaphores[s]) for s, _ in kept for m in mirrors if m.semaphores[s] in order
    )


def _without(code: Code, dropped: set[int]) -> Code:
    """`code` without its waits and signals of `dropped` semaphores."""
    steps = tuple(
        replace(
            step,
            waits=tuple(c for c in step.waits if c[0] not in dropped),
            signals=tuple(c for c in step.signals if c[0] not in dropped),
        )
        if isinstance(step, Issue)
        else step
        for step in code.steps
    )
    return replace(code, steps=steps)
