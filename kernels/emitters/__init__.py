"""Emitters: how an operator becomes a program on a family of machines.

An emitter is one file `FAMILY/OPERATOR.py` here that defines `EMITTER`; it is found by listing. Files without one are
helpers of their neighbours. Outside packages add an emitter through the entry point group `presil.emitters`, under the
name `FAMILY.OPERATOR`; theirs goes before ours.
"""

from __future__ import annotations

import functools
import importlib
from importlib.metadata import entry_points
from pathlib import Path

from presil.simulators.errors import Unsupported, nearest

from ..space import Emitter

_GROUP = "presil.emitters"


@functools.cache
def emitter(operator: str, family: str) -> Emitter:
    """The emitter of `operator` on machines of `family`. Raises Unsupported where none is built, by name."""
    for entry in entry_points(group=_GROUP):
        if entry.name == f"{family}.{operator}":
            outside: Emitter = entry.load()
            return outside
    # The file is named like its operator; a file that serves another operator is looked at only when that one is asked.
    files = sorted(_files(family), key=lambda name: (name != operator, name))
    for name in files:
        found = _emitter_in(family, name)
        if found is not None and found.operator == operator:
            return found
    built = emitter_names(family)
    if not built:
        raise Unsupported(f"no operator is built for the family '{family}'")
    raise Unsupported(
        f"operator '{operator}' is not built for the family '{family}'{nearest(operator, built)}; "
        f"there are: {', '.join(built)}"
    )


def emitter_names(family: str) -> tuple[str, ...]:
    """The operators that have an emitter for `family`, sorted."""
    inside = {found.operator for name in _files(family) if (found := _emitter_in(family, name)) is not None}
    prefix = f"{family}."
    outside = {e.name.removeprefix(prefix) for e in entry_points(group=_GROUP) if e.name.startswith(prefix)}
    return tuple(sorted(inside | outside))


def _files(family: str) -> tuple[str, ...]:
    return tuple(sorted(p.stem for p in (Path(__file__).parent / family).glob("*.py") if not p.stem.startswith("_")))


def _emitter_in(family: str, name: str) -> Emitter | None:
    found: Emitter | None = getattr(importlib.import_module(f".{family}.{name}", __package__), "EMITTER", None)
    return found
