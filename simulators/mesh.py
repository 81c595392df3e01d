"""Programs whose instances differ, write to each other and signal each other: each instance on its own, or all as one.

`own` is the program of one instance: the streams that it has, with the grid variables of what it reaches elsewhere
replaced by numbers. `flat` is one program of all instances, for what looks at all of them together: stream, buffer and
semaphore `n` of instance 3 are called `n@3`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from .kinds import close, point
from .program import (
    Affine,
    Buffer,
    Count,
    Dim,
    Instruction,
    Loop,
    Node,
    Program,
    Region,
    Semaphore,
    Stream,
    instructions,
)

HERE = "here"  # an attribute of what reaches elsewhere: the instance that issues it


def own(program: Program, instance: int) -> Program:
    """The streams of one instance; those that it does not have are empty."""
    values = point(program, instance)
    streams = []
    for stream in program.streams:
        there = all(first <= values[name] < first + count for name, first, count in stream.when)
        body = _reaching(close(stream.body, values), values, instance) if there else ()
        streams.append(replace(stream, body=body, when=()))
    return replace(program, streams=tuple(streams))


def reaches(instruction: Instruction) -> bool:
    """Whether it writes to, reads from or signals other instances."""
    return any(r.core is not None for r in instruction.operands) or any(c.core is not None for c in instruction.signals)


def is_meshed(program: Program) -> bool:
    """Whether the instances of a program differ, or reach each other."""
    bodies = [i for stream in program.streams for i, _ in instructions(stream.body)]
    return bool(program.at) or any(stream.when for stream in program.streams) or any(map(reaches, bodies))


def _reaching(nodes: tuple[Node, ...], values: Mapping[str, int], instance: int) -> tuple[Node, ...]:
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            found.append(replace(node, body=_reaching(node.body, values, instance)))
        elif reaches(node):
            attributes = (*node.attributes, (HERE, instance))
            operands = tuple(replace(r, core=_fixed(r.core, values)) for r in node.operands)
            signals = tuple(replace(c, core=_fixed(c.core, values)) for c in node.signals)
            changed = replace(node, attributes=tuple(sorted(attributes)), operands=operands, signals=signals)
            found.append(changed)
        else:
            found.append(node)
    return tuple(found)


def _fixed(core: Dim | None, values: Mapping[str, int]) -> Dim | None:
    return None if core is None else replace(core, start=Affine(core.start.at(values)))


def reached(core: Dim) -> range:
    """The instances of a closed `core`."""
    return range(core.start.base, core.start.base + core.size * core.step, core.step)


def flat(program: Program) -> Program:
    """All instances as one. An operand that reaches several instances becomes several operands."""
    streams: list[Stream] = []
    buffers: list[Buffer] = []
    semaphores: list[Semaphore] = []
    names = {buffer.name for buffer in program.buffers}
    for instance in range(program.instances):
        values = point(program, instance)
        for buffer in program.buffers:
            holds = None if buffer.holds is None else _at(buffer.holds, values, instance, names)[0]
            space = f"{buffer.space}@{instance}"
            buffers.append(replace(buffer, name=f"{buffer.name}@{instance}", space=space, holds=holds))
        semaphores += [replace(s, name=f"{s.name}@{instance}") for s in program.semaphores]
        for stream in own(program, instance).streams:
            if stream.body:
                body = tuple(_flattened(stream.body, values, instance, names))
                streams.append(replace(stream, name=f"{stream.name}@{instance}", body=body))
    return replace(
        program,
        buffers=tuple(buffers),
        semaphores=tuple(semaphores),
        streams=tuple(streams),
        grid=(),
        at=(),
    )


def _flattened(nodes: tuple[Node, ...], values: Mapping[str, int], instance: int, buffers: set[str]) -> Iterator[Node]:
    for node in nodes:
        if isinstance(node, Loop):
            yield replace(node, body=tuple(_flattened(node.body, values, instance, buffers)))
            continue
        yield Instruction(
            node.op,
            tuple(region for r in node.operands for region in _at(r, values, instance, buffers)),
            tuple((k, _value(v, values) if isinstance(v, Affine) else v) for k, v in node.attributes if k != HERE),
            tuple(replace(c, semaphore=f"{c.semaphore}@{instance}") for c in node.waits),
            tuple(count for c in node.signals for count in _counts(c, instance)),
        )


def _counts(count: Count, instance: int) -> Iterator[Count]:
    for core in (instance,) if count.core is None else reached(count.core):
        yield Count(f"{count.semaphore}@{core}", count.n)


def _at(region: Region, values: Mapping[str, int], instance: int, buffers: set[str]) -> list[Region]:
    dims = tuple(replace(dim, start=_bound(dim.start, values)) for dim in region.dims)
    slot = None if region.slot is None else _bound(region.slot, values)
    if region.name not in buffers:
        return [Region(region.name, slot, dims)]
    cores = (instance,) if region.core is None else reached(region.core)
    return [Region(f"{region.name}@{core}", slot, dims) for core in cores]


def _bound(affine: Affine, values: Mapping[str, int]) -> Affine:
    """`affine` with the grid variables replaced; those of loops stay."""
    if not any(name in values for name, _ in affine.terms):
        return affine
    base = affine.base + sum(c * values[name] for name, c in affine.terms if name in values)
    return Affine(base, tuple((name, c) for name, c in affine.terms if name not in values))


def _value(affine: Affine, values: Mapping[str, int]) -> Affine | int:
    found = _bound(affine, values)
    return found if found.terms else found.base
