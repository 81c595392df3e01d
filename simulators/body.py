"""Reads the bodies of streams: loops, instructions, regions and affine expressions. Part of `assembly.py`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from .errors import BadInput, nearest
from .legality import MAX_TRIPS
from .lexer import MAX_INTEGER, Lexer, Token
from .program import Affine, Attribute, Buffer, Count, Dim, Instruction, Loop, Node, Region, Semaphore, Tensor

MAX_LOOP_DEPTH = 16
MAX_NODES = 200_000
# A program computes its answer. Numbers written into it are scales and the like; a table of answers is refused.
MAX_LITERAL_BYTES = 64 << 10
LITERAL_NUMBER_BYTES = 8
MAX_NAMES_SHOWN = 12

KEYWORDS = ("program", "workload", "grid", "tensor", "buffer", "semaphore", "stream", "loop")
_COUNTS = ("wait", "signal")


class BodyParser:
    """What parsing a body needs to know, and has counted so far: the declared names and the limits."""

    def __init__(self, text: str, file: str, ops: Collection[str] | None) -> None:
        self.lexer = Lexer(text, file)
        self.ops = ops
        self.data: dict[str, Tensor | Buffer] = {}
        self.semaphores: dict[str, Semaphore] = {}
        self.grid: dict[str, int] = {}
        self._nodes = 0
        self._literal_bytes = 0

    def body(self, block: str, line: int, scope: tuple[str, ...]) -> tuple[Node, ...]:
        """The nodes up to the `}` that closes `block`, which was opened in `line`; `scope` is the variables around."""
        lexer = self.lexer
        nodes: list[Node] = []
        while True:
            lexer.skip_newlines()
            token = lexer.peek()
            if token.kind == "}":
                lexer.take()
                return tuple(nodes)
            if token.kind == "end":
                raise lexer.error(token, f"the file ends inside {block} of line {line}: its '}}' is missing")
            if token.kind != "word":
                raise lexer.unexpected("an instruction, a loop or '}'")
            self._nodes += 1
            if self._nodes > MAX_NODES:
                raise lexer.error(token, f"found more than {MAX_NODES} loops and instructions, the most allowed")
            if token.text == "loop":
                nodes.append(self._loop(scope))
            elif token.text in KEYWORDS:
                raise lexer.error(token, f"found '{token.text}' inside {block} of line {line}: its '}}' is missing")
            else:
                nodes.append(self._instruction(scope))

    def _loop(self, scope: tuple[str, ...]) -> Loop:
        lexer = self.lexer
        lexer.take()
        token = lexer.expect("word", "the loop variable")
        if token.text in scope:
            kind = "grid" if token.text in self.grid else "loop"
            raise lexer.error(
                token, f"'{token.text}' is a {kind} variable already; allowed: a name not in use around it"
            )
        trips, terms = self._trips()
        if len(scope) - len(self.grid) >= MAX_LOOP_DEPTH:
            raise lexer.error(token, f"found a loop {MAX_LOOP_DEPTH + 1} deep; allowed: up to {MAX_LOOP_DEPTH}")
        lexer.expect("{", "'{' and the body of the loop")
        body = self.body(f"loop '{token.text}'", token.line, (*scope, token.text))
        if not body:
            # Nothing takes no time: an engine could not step over a billion trips of it, nor time them.
            raise lexer.error(token, f"loop '{token.text}' is empty; allowed: one instruction or more")
        return Loop(token.text, trips, body, terms)

    def _trips(self) -> tuple[int, tuple[tuple[str, int], ...]]:
        """`16`, or `1 + 2*qb` of grid variables; whether there is a trip at every point is for `legality.py`."""
        lexer = self.lexer
        if lexer.peek().kind == "integer" and lexer.peek(1).kind == "{":
            return lexer.integer("trips", 1, MAX_TRIPS), ()
        token = lexer.peek()
        if token.kind not in ("integer", "word", "-") or not self.grid:
            return lexer.integer("trips", 1, MAX_TRIPS), ()
        found = self._affine(tuple(self.grid))
        if not found.terms and not 1 <= found.base <= MAX_TRIPS:
            raise lexer.error(token, f"trips: found {found.base}; allowed: 1 to {MAX_TRIPS}")
        return found.base, found.terms

    def _instruction(self, scope: tuple[str, ...]) -> Instruction:
        lexer = self.lexer
        op = lexer.take()
        if self.ops is not None and op.text not in self.ops:
            raise self._unknown("instruction", op, sorted(self.ops))
        operands: list[Region] = []
        attributes: dict[str, Attribute] = {}
        counts: dict[str, list[Count]] = {kind: [] for kind in _COUNTS}
        if lexer.peek().kind == "word" and lexer.peek(1).kind not in ("=", "("):
            operands.append(self._region(scope))
            while lexer.accept(","):
                operands.append(self._region(scope))
        while lexer.peek().kind == "word" and lexer.peek(1).kind in ("=", "("):
            token = lexer.take()
            if lexer.take().kind == "(":
                if token.text not in counts:
                    raise self._unknown("word", token, _COUNTS)
                counts[token.text].append(self._count(scope))
            elif token.text in attributes:
                raise lexer.error(token, f"attribute '{token.text}' is given twice; allowed: once")
            else:
                attributes[token.text] = self._attribute(token, scope)
        if lexer.peek().kind not in ("newline", "}"):
            operand = "',' and an operand, " if operands else ""
            raise lexer.unexpected(f"{operand}key=value, wait(..), signal(..) or the end of the line")
        given = tuple(sorted(attributes.items()))
        return Instruction(op.text, tuple(operands), given, tuple(counts["wait"]), tuple(counts["signal"]))

    def _region(self, scope: tuple[str, ...]) -> Region:
        lexer = self.lexer
        token = lexer.expect("word", "an operand: the name of a tensor or a buffer")
        data = self.data.get(token.text)
        if data is None:
            what = "buffer" if lexer.peek().kind == "{" else "tensor or buffer"
            raise self._unknown(what, token, self.data)
        slot: Affine | None = None
        core: Dim | None = None
        if isinstance(data, Buffer) and lexer.accept("@"):
            lexer.expect("(", f"'(' and the instances whose buffer is meant, as in {token.text}@(x + 1)")
            core = self._cores(scope)
            lexer.expect(")", "')'")
        if isinstance(data, Buffer):
            lexer.expect("{", f"'{{' and the slot of buffer '{token.text}', such as {token.text}{{0}}")
            slot = self._affine(scope)
            lexer.expect("}", "'+', '-' or '}' at the end of the slot")
        elif lexer.peek().kind == "{":
            raise lexer.error(lexer.peek(), f"found a slot; allowed: none, since '{token.text}' is a tensor")
        dims: list[Dim] = []
        if lexer.accept("["):
            dims.append(self._dim(scope))
            while lexer.accept(","):
                dims.append(self._dim(scope))
            lexer.expect("]", "',' and a further dimension, or ']'")
            if len(dims) != len(data.shape):
                message = (
                    f"found {len(dims)} dimensions of '{token.text}'; allowed: {len(data.shape)}, or none for all of it"
                )
                raise lexer.error(token, message)
        return Region(token.text, slot, tuple(dims), core)

    def _dim(self, scope: tuple[str, ...]) -> Dim:
        start = self._affine(scope)
        self.lexer.expect("+:", "'+:' and a size, as in [START +: SIZE]")
        size = self.lexer.integer("size", 1)
        step = self.lexer.integer("step", 1) if self.lexer.accept(":") else 1
        return Dim(start, size, step)

    def _cores(self, scope: tuple[str, ...]) -> Dim:
        """`x + 1`, or several as in `8*y +: 8 : 2`."""
        start = self._affine(scope)
        if not self.lexer.accept("+:"):
            return Dim(start, 1)
        size = self.lexer.integer("cores", 1)
        return Dim(start, size, self.lexer.integer("step", 1) if self.lexer.accept(":") else 1)

    def _count(self, scope: tuple[str, ...]) -> Count:
        """What stands in the brackets of `signal(s, n, core=START +: SIZE)`."""
        lexer = self.lexer
        token = lexer.expect("word", "the name of a semaphore")
        if token.text not in self.semaphores:
            raise self._unknown("semaphore", token, self.semaphores)
        n, core = 1, None
        comma = lexer.accept(",")
        if comma and lexer.peek().kind != "word":
            n = lexer.integer("count", 1)
            comma = lexer.accept(",")
        if comma:
            word = lexer.expect("word", "core=EXPRESSION")
            if word.text != "core":
                raise self._unknown("word", word, ("core",))
            lexer.expect("=", "'=' and the core whose semaphore is meant")
            core = self._cores(scope)
        lexer.expect(")", "')'")
        return Count(token.text, n, core)

    def _attribute(self, key: Token, scope: tuple[str, ...]) -> Attribute:
        lexer = self.lexer
        token, following = lexer.peek(), lexer.peek(1)
        value: Attribute
        if token.kind == "text" or (
            token.kind == "word" and token.text not in scope and following.kind not in ("*", "+", "-")
        ):
            value = lexer.take().text
        elif "float" in (token.kind, following.kind if token.kind == "-" else ""):
            sign = -1.0 if lexer.accept("-") else 1.0
            token = lexer.take()
            value = sign * float(token.text)
            if not math.isfinite(value):
                raise lexer.error(token, f"{key.text}: found {token.text}; allowed: numbers that a float64 can hold")
        else:
            expression = self._affine(scope)
            value = expression if expression.terms else expression.base
        size = len(value) if isinstance(value, str) else LITERAL_NUMBER_BYTES
        self._literal_bytes += 0 if isinstance(value, Affine) else size
        if self._literal_bytes > MAX_LITERAL_BYTES:
            raise lexer.error(key, f"the attribute values exceed {MAX_LITERAL_BYTES} bytes in all, the most allowed")
        return value

    def _affine(self, scope: tuple[str, ...]) -> Affine:
        lexer = self.lexer
        first = lexer.peek()
        sums: dict[str, int] = {}
        sign = -1 if lexer.accept("-") else 1
        while True:
            name, factor = self._term(scope)
            sums[name] = sums.get(name, 0) + sign * factor
            if lexer.accept("+"):
                sign = 1
            elif lexer.accept("-"):
                sign = -1
            else:
                break
        if any(abs(value) > MAX_INTEGER for value in sums.values()):
            raise lexer.error(first, "the expression is too large; allowed: integers below 2**63")
        base = sums.pop("", 0)
        return Affine(base, tuple(sorted((name, factor) for name, factor in sums.items() if factor)))

    def _term(self, scope: tuple[str, ...]) -> tuple[str, int]:
        """`3`, `m`, `3*m` or `m*3` as variable and factor; the variable of a plain number is the empty name."""
        lexer = self.lexer
        meaning = "an integer or a loop variable"
        name, factor = "", 1
        token = lexer.peek()
        if token.kind == "integer":
            factor = lexer.value_of(lexer.take(), "integer")
            if not lexer.accept("*"):
                return name, factor
            name = self._variable(lexer.expect("word", "a loop variable"), scope)
        else:
            name = self._variable(lexer.expect("word", meaning), scope)
            if lexer.accept("*"):
                factor = lexer.value_of(lexer.expect("integer", "an integer"), "integer")
        return name, factor

    def _variable(self, token: Token, scope: tuple[str, ...]) -> str:
        if token.text not in scope:
            raise self._unknown("variable", token, scope)
        return token.text

    def _unknown(self, what: str, token: Token, allowed: Iterable[str]) -> BadInput:
        names = list(allowed)
        some = ", ".join(names[:MAX_NAMES_SHOWN]) + (", ..." if len(names) > MAX_NAMES_SHOWN else "")
        hint = nearest(token.text, names)
        return self.lexer.error(token, f"unknown {what} '{token.text}'{hint}; allowed: {some or 'none is declared'}")
