"""What was counted in one simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engine import Engine


@dataclass(frozen=True, slots=True)
class Tally:
    """Ticks, how often each instruction was issued (by core and number), and stalls in ticks by (engine, reason).

    `executed` is how many instructions were stepped through; `ended`: the run was stopped on purpose.
    """

    ticks: int
    issued: tuple[int, ...]
    stalls: Mapping[tuple[int, str], int]
    executed: int
    ended: bool = False


def tally(engine: Engine) -> Tally:
    """What a finished engine has counted."""
    ended = engine.executed == engine.stop_after
    return Tally(engine.ticks, tuple(engine.issued), dict(engine.stalls), engine.executed, ended)
