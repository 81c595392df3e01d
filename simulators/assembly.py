"""The `.pasm` text of programs: `parse` reads it, `render` writes it, `load_program` reads a file.

Text comes from anywhere, so it is read under limits and in linear time, and an error says file, line and column, what
was found and what may stand there. Names are resolved here; whether an instruction is legal on a machine, and whether
its indices stay in bounds, is for `legality.py` and the engine.
"""

from __future__ import annotations

import math
import stat
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, get_args

from .body import MAX_LOOP_DEPTH, MAX_NODES, BodyParser
from .errors import BadInput, nearest
from .formats import DTYPES, size_bytes
from .legality import MAX_TRIPS
from .lexer import MAX_INTEGER, Token
from .program import Buffer, Place, Program, Role, Semaphore, Stream, Tensor
from .rendering import render

__all__ = ["MAX_LOOP_DEPTH", "MAX_NODES", "MAX_TEXT_BYTES", "MAX_TRIPS", "load_program", "parse", "render"]

MAX_TEXT_BYTES = 4 << 20
MAX_RANK = 8
MAX_DECLARATIONS = 512
MAX_STREAMS = 256  # sequencers of one core
MAX_GRID_VARIABLES = 8
MAX_INSTANCES = 1 << 20
MAX_PHASES = 16  # programs in one text, each run when the one before has ended

T = TypeVar("T", bound=str)
ROLES: tuple[Role, ...] = get_args(Role)
PLACES: tuple[Place, ...] = get_args(Place)
_DECLARATIONS = ("tensor", "buffer", "semaphore", "stream")


def parse(text: str, file: str = "<text>", ops: Collection[str] | None = None) -> Program:
    """The program written in `text`; `file` is what errors call it.

    `ops`, if given, are the names an instruction may have (the keys of `Family.ops`).
    Raises BadInput with file, line and column.
    """
    if len(text) > MAX_TEXT_BYTES or len(text.encode("utf-8", "replace")) > MAX_TEXT_BYTES:
        raise BadInput(f"the text is too long; allowed: up to {MAX_TEXT_BYTES} bytes", file=file)
    return _Parser(text, file, ops).phases()


def load_program(path: str | Path, ops: Collection[str] | None = None) -> Program:
    """The program in the file at `path`. Raises BadInput if there is none, or where `parse` does."""
    name = str(path)
    try:
        # A pipe or a device could be endless, and opening one can block: only plain files are opened.
        mode = Path(path).stat().st_mode
        if not stat.S_ISREG(mode):
            raise BadInput(
                f"this is {'a folder' if stat.S_ISDIR(mode) else 'no plain file'}; allowed: a text file", file=name
            )
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_TEXT_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise BadInput(f"cannot be read: {reason}", file=ascii(name)[1:-1]) from error
    if len(data) > MAX_TEXT_BYTES:
        raise BadInput(f"the file is too long; allowed: up to {MAX_TEXT_BYTES} bytes", file=name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput(
            f"byte {data[error.start]:#04x} is not UTF-8; allowed: UTF-8 text", file=name, line=line
        ) from error
    return parse(text, name, ops)


class _Parser(BodyParser):
    """Header and declarations; the bodies of streams are read by `BodyParser`."""

    def phases(self) -> Program:
        found = self.program()
        for _ in range(1, MAX_PHASES):
            if self.lexer.peek().kind == "end":
                return found
            self.grid, self.data, self.semaphores = {}, {}, {}
            found = replace(self.program(), before=found)
        if self.lexer.peek().kind != "end":
            raise self.lexer.error(self.lexer.peek(), f"found one program more than {MAX_PHASES}, the most allowed")
        return found

    def program(self) -> Program:
        name, machine = self._header()
        self._keyword("workload", 'workload "OPERATOR:..."')
        workload = self.lexer.expect("text", 'the workload, such as "matmul:m=512,n=512,k=512"').text
        self._end_of_line()
        place = self._grid()
        streams: dict[str, Stream] = {}
        self.lexer.skip_newlines()
        while self.lexer.peek().kind != "end" and not (streams and self.lexer.peek().text == "program"):
            self._declaration(streams)
            self.lexer.skip_newlines()
        if not streams:
            raise self.lexer.unexpected("a declaration; a program has one stream or more")
        return Program(
            name=name,
            machine=machine,
            workload=workload,
            tensors=tuple(t for t in self.data.values() if isinstance(t, Tensor)),
            buffers=tuple(b for b in self.data.values() if isinstance(b, Buffer)),
            semaphores=tuple(self.semaphores.values()),
            streams=tuple(streams.values()),
            grid=tuple(self.grid.items()),
            place=place,
        )

    def _header(self) -> tuple[str, str]:
        self.lexer.skip_newlines()
        self._keyword("program", 'program "NAME" on "MACHINE"')
        name = self.lexer.expect("text", 'the name of the program, such as "matmul"').text
        self._keyword("on", 'on "MACHINE"')
        machine = self.lexer.expect("text", 'the name of a machine, such as "tpu-v1"').text
        self._end_of_line()
        return name, machine

    def _grid(self) -> Place:
        lexer = self.lexer
        if lexer.peek().text != "grid":
            return "static"
        lexer.take()
        while lexer.peek().kind == "word" and lexer.peek(1).kind == "=":
            token = self._new_name("grid variable", self.grid)
            lexer.take()
            self.grid[token.text] = lexer.integer("grid size", 1, MAX_INSTANCES)
            if len(self.grid) > MAX_GRID_VARIABLES or math.prod(self.grid.values()) > MAX_INSTANCES:
                limits = f"up to {MAX_GRID_VARIABLES} variables and {MAX_INSTANCES} instances"
                raise lexer.error(token, f"the grid is too large; allowed: {limits}")
            if not lexer.accept(","):
                break
        place = lexer.expect("word", f"VARIABLE=SIZE, ... and then one of {', '.join(PLACES)}")
        found: Place = self._one_of(place, PLACES, "place")
        self._end_of_line()
        return found

    def _declaration(self, streams: dict[str, Stream]) -> None:
        token = self.lexer.peek()
        if token.kind == "}":
            raise self.lexer.error(token, "found '}' where no block is open; allowed: " + ", ".join(_DECLARATIONS))
        if token.kind != "word":
            raise self.lexer.unexpected(", ".join(_DECLARATIONS))
        kind = self._one_of(token, _DECLARATIONS, "declaration")
        if len(self.data) + len(self.semaphores) + len(streams) >= MAX_DECLARATIONS:
            raise self.lexer.error(token, f"found one declaration more than {MAX_DECLARATIONS}, the most allowed")
        if kind == "stream" and len(streams) >= MAX_STREAMS:
            raise self.lexer.error(token, f"found one stream more than {MAX_STREAMS}, the most allowed")
        if streams and kind != "stream":
            raise self.lexer.error(token, f"found '{kind}' behind a stream; allowed: all {kind}s before the streams")
        self.lexer.take()
        if kind == "stream":
            self._stream(streams)
            return
        if kind == "semaphore":
            self._semaphore()
        elif kind == "tensor":
            self._tensor()
        else:
            self._buffer()
        self._end_of_line()

    def _semaphore(self) -> None:
        name = self._new_name("semaphore", self.semaphores).text
        initial = self.lexer.integer("initial count", 0) if self.lexer.accept("=") else 0
        self.semaphores[name] = Semaphore(name, initial)

    def _tensor(self) -> None:
        name = self._new_name("tensor", self.data).text
        dtype, shape = self._kind()
        token = self.lexer.expect("word", f"a role: {', '.join(ROLES)}")
        role: Role = self._one_of(token, ROLES, "role")
        self.lexer.expect("@", "'@' and the memory that holds the tensor")
        memory = self.lexer.expect("word", "the name of a memory").text
        self.data[name] = Tensor(name, dtype, shape, role, memory)

    def _buffer(self) -> None:
        token = self._new_name("buffer", self.data)
        dtype, shape = self._kind()
        slots = self._slots()
        self.lexer.expect("@", "xSLOTS, or '@' and the space that holds the buffer")
        space = self.lexer.expect("word", "the name of an on-chip space").text
        offset = self.lexer.integer("byte offset", 0) if self.lexer.accept("+") else 0
        if math.prod(shape) * slots * size_bytes(dtype) + offset > MAX_INTEGER:
            raise self.lexer.error(token, f"buffer '{token.text}' is too large; allowed: below 2**63 bytes")
        self.data[token.text] = Buffer(token.text, dtype, shape, slots, space, offset)

    def _slots(self) -> int:
        token = self.lexer.peek()
        if token.kind != "word":
            return 1
        digits = token.text[1:]
        if token.text[0] != "x" or not digits.isdecimal():
            raise self.lexer.unexpected("xSLOTS such as x2, or '@' and the space that holds the buffer")
        slots = self.lexer.value_of(token._replace(text=digits), "slots")
        if slots < 1:
            raise self.lexer.error(token, "slots: found 0; allowed: 1 or more")
        self.lexer.take()
        return slots

    def _kind(self) -> tuple[str, tuple[int, ...]]:
        """`: int8[128, 256]` as dtype and shape."""
        lexer = self.lexer
        lexer.expect(":", "':' and a dtype")
        token = lexer.expect("word", f"a dtype: {', '.join(DTYPES)}")
        dtype = self._one_of(token, DTYPES, "dtype")
        lexer.expect("[", "'[' and the sizes of the dimensions")
        shape = [lexer.integer("size", 1)]
        while lexer.accept(","):
            shape.append(lexer.integer("size", 1))
        lexer.expect("]", "',' and a further size, or ']'")
        if len(shape) > MAX_RANK or math.prod(shape) * size_bytes(dtype) > MAX_INTEGER:
            allowed = f"up to {MAX_RANK} dimensions and below 2**63 bytes"
            raise lexer.error(
                token, f"the shape {shape[:MAX_RANK]} of {len(shape)} dimensions is too large; allowed: {allowed}"
            )
        return dtype, tuple(shape)

    def _stream(self, streams: dict[str, Stream]) -> None:
        token = self._new_name("stream", streams)
        unit = 0
        if self.lexer.peek().kind == "word":
            self._keyword("unit", "unit NUMBER or '{'")
            unit = self.lexer.integer("unit", 0)
        self.lexer.expect("{", "unit NUMBER or '{'")
        body = self.body(f"stream '{token.text}'", token.line, tuple(self.grid))
        streams[token.text] = Stream(token.text, body, unit)

    def _new_name(self, what: str, taken: Iterable[str]) -> Token:
        token = self.lexer.expect("word", f"the name of the {what}")
        if token.text in taken:
            raise self.lexer.error(
                token, f"the name '{token.text}' of this {what} is taken; allowed: a name of its own"
            )
        return token

    def _one_of(self, token: Token, allowed: Collection[T], what: str) -> T:
        for value in allowed:
            if value == token.text:
                return value
        raise self.lexer.error(
            token, f"unknown {what} '{token.text}'{nearest(token.text, allowed)}; allowed: {', '.join(allowed)}"
        )

    def _keyword(self, word: str, meaning: str) -> None:
        token = self.lexer.peek()
        if token.kind == "word" and token.text != word:
            raise self.lexer.error(token, f"found '{token.text}'{nearest(token.text, [word])}; allowed: {meaning}")
        self.lexer.expect("word", meaning)

    def _end_of_line(self) -> None:
        if self.lexer.peek().kind != "end":
            self.lexer.expect("newline", "the end of the line")
