"""The error tree. Each kind says whose problem it is; none is ever softened to a warning.

PresilError
├── BadInput      the user's file or argument is wrong (file, line, field, found, allowed)
├── Unsupported   legal to ask for, but this machine cannot do it or presil has not built it
├── Undefined     the program's fault: a race, a read of what was never written, a deadlock, ...
└── ModelError    ours: an invariant of the simulator broke
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PresilError(Exception):
    """Root of every error presil raises on purpose; `str(error)` is fit to show to a user."""


class BadInput(PresilError):
    """What the user gave is wrong.

    `file`, `line` and `column` (1-based) say where, as far as it is known.
    """

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        place = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(f"{place}: {message}" if place else message)
        self.message, self.file, self.line, self.column = message, file, line, column


class Unsupported(PresilError):
    """The request is legal but is not possible on this machine, or is not built. Named, never timed as zero."""


class Undefined(PresilError):
    """The program does what has no meaning. `kind` is one word (`race`, `deadlock`, `bounds`, ...)."""

    def __init__(self, kind: str, where: str, detail: str) -> None:
        super().__init__(kind, where, detail)  # its own arguments: SimPy and pickle make the error again from them
        self.kind, self.where, self.detail = kind, where, detail

    def __str__(self) -> str:
        return f"{self.kind} at {self.where}: {self.detail}"


class ModelError(PresilError):
    """An invariant of presil itself broke. Always a defect of presil."""


def nearest(name: str, allowed: Iterable[str]) -> str:
    """` (did you mean 'x'?)` for the allowed name nearest to `name`, or an empty string."""
    match = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.5)
    return f" (did you mean '{match[0]}'?)" if match else ""
