"""What checks find wrong with a program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """One finding. `kind` is one word, `where` the instruction or declaration, `detail` a sentence."""

    kind: str
    where: str
    detail: str
