"""Programs as `.pasm` text: one canonical text for each program, which `assembly.parse` reads back to an equal one."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from .errors import BadInput
from .lexer import NAME, shown
from .program import Affine, Attribute, Count, Dim, Instruction, Node, Program, Region

INDENT = "    "


def render(program: Program) -> str:
    """The canonical text of `program`.

    Raises BadInput where a name, a text or a number has no written form; it does not check the program further.
    """
    return "".join(map(_phase, program.phases))


def _phase(program: Program) -> str:
    lines = [
        f"program {_text(program.name)} on {_text(program.machine)}",
        f"workload {_text(program.workload)}",
    ]
    if program.grid or program.place != "static":
        sizes = ", ".join(f"{_name(name)}={size}" for name, size in program.grid)
        lines.append(f"grid {sizes} {program.place}" if sizes else f"grid {program.place}")
    for tensor in program.tensors:
        kind = f"{_name(tensor.dtype)}{_shape(tensor.shape)}"
        lines.append(f"tensor {_name(tensor.name)}: {kind} {tensor.role} @{_name(tensor.memory)}")
    for buffer in program.buffers:
        kind = f"{_name(buffer.dtype)}{_shape(buffer.shape)} x{buffer.slots}"
        lines.append(f"buffer {_name(buffer.name)}: {kind} @{_name(buffer.space)}+{buffer.offset}")
    lines.extend(f"semaphore {_name(s.name)} = {s.initial}" for s in program.semaphores)
    grid = tuple(name for name, _ in program.grid)
    for stream in program.streams:
        lines.append(f"stream {_name(stream.name)} unit {stream.unit} {{")
        lines.extend(_body(stream.body, grid, 1))
        lines.append("}")
    return "\n".join(lines) + "\n"


def render_instruction(instruction: Instruction, scope: Collection[str] = ()) -> str:
    """One instruction as it stands in the text, inside loops over the variables in `scope`."""
    parts = [_name(instruction.op)]
    if instruction.operands:
        parts.append(", ".join(map(_region, instruction.operands)))
    parts.extend(f"{_name(key)}={_attribute(value, scope)}" for key, value in instruction.attributes)
    parts.extend(f"wait{_count(count)}" for count in instruction.waits)
    parts.extend(f"signal{_count(count)}" for count in instruction.signals)
    return " ".join(parts)


def render_affine(expression: Affine) -> str:
    """`2*m - n + 3`."""
    parts = [(c, name if abs(c) == 1 else f"{abs(c)}*{name}") for name, c in expression.terms]
    if expression.base or not parts:
        parts.append((expression.base, str(abs(expression.base))))
    first, *others = parts
    text = f"-{first[1]}" if first[0] < 0 else first[1]
    return text + "".join(f" {'-' if value < 0 else '+'} {part}" for value, part in others)


def _body(nodes: tuple[Node, ...], scope: tuple[str, ...], depth: int) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Instruction):
            yield INDENT * depth + render_instruction(node, scope)
        else:
            yield f"{INDENT * depth}loop {_name(node.var)} {render_affine(Affine(node.trips, node.terms))} {{"
            yield from _body(node.body, (*scope, node.var), depth + 1)
            yield f"{INDENT * depth}}}"


def _region(region: Region) -> str:
    slot = "" if region.slot is None else f"{{{render_affine(region.slot)}}}"
    dims = f"[{', '.join(map(_dim, region.dims))}]" if region.dims else ""
    return f"{_name(region.name)}{slot}{dims}"


def _dim(dim: Dim) -> str:
    step = "" if dim.step == 1 else f" : {dim.step}"
    return f"{render_affine(dim.start)} +: {dim.size}{step}"


def _count(count: Count) -> str:
    core = "" if count.core is None else f", core={render_affine(count.core)}"
    return f"({_name(count.semaphore)}, {count.n}{core})"


def _attribute(value: Attribute, scope: Collection[str]) -> str:
    if isinstance(value, Affine):
        return render_affine(value)
    if isinstance(value, str):
        # A bare word that is a variable in scope would be read back as that variable.
        return value if NAME.fullmatch(value) and value not in scope else _text(value)
    if isinstance(value, int):
        return str(int(value))
    if not math.isfinite(value):
        raise BadInput(f"the attribute value {value!r} cannot be written; allowed: finite numbers")
    return repr(float(value))


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise BadInput(f"the name {shown(name)!a} cannot be written; allowed: letters, digits and '_'")
    return name


def _text(text: str) -> str:
    if not text.isprintable() or '"' in text or "\\" in text:
        raise BadInput(f"the text {shown(text)!a} cannot be written; allowed: printable characters but '\"' and '\\'")
    return f'"{text}"'
