"""Tokens of the `.pasm` text, read one line at a time in linear time.

The end of a line is a token of its own: an instruction or a declaration stands on one line. This file knows no
grammar beyond that; `assembly.py` does.
"""

from __future__ import annotations

import re
from collections import deque
from typing import NamedTuple

from .errors import BadInput

MAX_LINE_CHARACTERS = 16_384
MAX_NAME_CHARACTERS = 128
MAX_NUMBER_CHARACTERS = 64
MAX_INTEGER = 2**63 - 1
SHOWN_CHARACTERS = 40

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# No alternative can match in two ways, so the search never backtracks by more than the blanks it skipped.
_TOKEN = re.compile(
    r"""[ \t\r]*(?:
      (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<float>[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))
    | (?P<integer>[0-9]+)
    | "(?P<text>[^"\\\x00-\x1f]*)"
    | (?P<symbol>\+:|[-+*=:@,(){}\[\]])
    | (?P<comment>\#.*|$)
    )""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """`kind` is `word`, `integer`, `float`, `text`, `newline`, `end`, or for a symbol the symbol itself."""

    kind: str
    text: str
    line: int
    column: int


class Lexer:
    """A cursor over the tokens of `text`; `file` is what errors call it."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self._lines = text.split("\n")
        self._read_lines = 0
        self._tokens: deque[Token] = deque()

    def peek(self, ahead: int = 0) -> Token:
        """The token `ahead` places on, without taking it. Past the end it is the `end` token again and again."""
        while len(self._tokens) <= ahead:
            if self._read_lines < len(self._lines):
                self._read_line()
            else:
                last = len(self._lines)
                self._tokens.append(Token("end", "", last, len(self._lines[-1]) + 1))
        return self._tokens[ahead]

    def take(self) -> Token:
        """The next token, taken. Raises BadInput for what is no token."""
        self.peek()
        return self._tokens.popleft()

    def accept(self, kind: str) -> bool:
        """Takes the next token if it is of that kind."""
        if self.peek().kind == kind:
            self.take()
            return True
        return False

    def skip_newlines(self) -> None:
        """Takes all ends of lines that come next."""
        while self.accept("newline"):
            pass

    def expect(self, kind: str, meaning: str) -> Token:
        """The next token, which must be of that kind; `meaning` is what the error says should stand here."""
        if self.peek().kind != kind:
            raise self.unexpected(meaning)
        return self.take()

    def integer(self, field: str, low: int, high: int = MAX_INTEGER) -> int:
        """A plain integer from `low` to `high`, both included."""
        negative = self.peek().kind == "-" and self.peek(1).kind == "integer"
        token = self.peek(1 if negative else 0)
        if token.kind != "integer":
            raise self.unexpected(f"{field}: an integer from {low} to {high}")
        value = self.value_of(token, field)
        if negative or not low <= value <= high:
            found = f"{'-' if negative else ''}{token.text}"
            raise self.error(self.peek(), f"{field}: found {found}; allowed: {low} to {high}")
        self.take()
        return value

    def value_of(self, token: Token, field: str) -> int:
        """The value of an integer token."""
        # The length is looked at first: turning a million digits into an int takes quadratic time.
        value = int(token.text) if len(token.text) < MAX_NUMBER_CHARACTERS else MAX_INTEGER + 1
        if value > MAX_INTEGER:
            raise self.error(token, f"{field}: found {shown(token.text)}; allowed: integers below 2**63")
        return value

    def error(self, token: Token, message: str) -> BadInput:
        """A BadInput that points at `token`."""
        return BadInput(message, file=self.file, line=token.line, column=token.column)

    def unexpected(self, allowed: str) -> BadInput:
        """A BadInput that names the next token and what may stand in its place."""
        token = self.peek()
        at_end = token.kind == "end" or (token.kind == "newline" and self.peek(1).kind == "end")
        if at_end:
            return self.error(token, f"found the end of the file (is it cut off?); allowed: {allowed}")
        found = "the end of the line" if token.kind == "newline" else f"'{shown(token.text)}'"
        return self.error(token, f"found {found}; allowed: {allowed}")

    def _read_line(self) -> None:
        line = self._lines[self._read_lines]
        self._read_lines += 1
        number, position, any_token = self._read_lines, 0, False
        if len(line) > MAX_LINE_CHARACTERS:
            raise self.error(
                Token("", "", number, MAX_LINE_CHARACTERS + 1),
                f"the line has {len(line)} characters; allowed: up to {MAX_LINE_CHARACTERS}",
            )
        while match := _TOKEN.match(line, position):
            kind = str(match.lastgroup)
            if kind == "comment":
                break
            token = Token(
                match[kind] if kind == "symbol" else kind,
                match[kind],
                number,
                match.start(kind) + (0 if kind == "text" else 1),
            )
            position = match.end()
            self._check(token, line[position : position + 1])
            self._tokens.append(token)
            any_token = True
        else:
            raise self._no_token(line, position, number)
        if any_token:
            self._tokens.append(Token("newline", "", number, len(line) + 1))

    def _check(self, token: Token, following: str) -> None:
        if token.kind == "word" and len(token.text) > MAX_NAME_CHARACTERS:
            what = f"a name of {len(token.text)} characters; allowed: up to {MAX_NAME_CHARACTERS}"
            raise self.error(token, f"found {what}")
        if token.kind in ("integer", "float"):
            if NAME.match(following) or following == ".":
                raise self.error(token, f"found '{shown(token.text + following)}'; allowed: a number such as 12 or 1.5")
            if token.kind == "float" and len(token.text) > MAX_NUMBER_CHARACTERS:
                raise self.error(token, f"found {shown(token.text)}; allowed: {MAX_NUMBER_CHARACTERS} characters")
        if token.kind == "text" and not token.text.isprintable():
            raise self.error(token, "found a character in the text that cannot be printed; allowed: printable ones")

    def _no_token(self, line: str, position: int, number: int) -> BadInput:
        start = position + len(line[position:]) - len(line[position:].lstrip(" \t\r"))
        place = Token("", "", number, start + 1)
        if line[start] == '"':
            return self.error(place, "found a text that is not closed; allowed: \"...\" on one line, without '\\'")
        return self.error(place, f"found {line[start]!a}, which begins nothing in this language")


def shown(text: str) -> str:
    """`text`, cut to what an error message can bear."""
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
