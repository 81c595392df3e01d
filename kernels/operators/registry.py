"""Finds operators, and reads and writes workloads.

Every file of this folder that defines `OPERATOR` is an operator. Outside packages add theirs through the entry point
group `presil.operators`: the entry's value is an object with the members of `Operator`.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path

from presil.simulators.errors import BadInput, nearest

from .operator import Operator, Parameter, Workload

_GROUP = "presil.operators"
_MOST_CHARACTERS = 1000  # of a workload; no operator's text comes near
_MOST_ELEMENTS = 1 << 40  # of one tensor; such a shape can be timed, though not held

Value = int | str


class _Place:
    """Where a workload stands; makes the errors that name it."""

    def __init__(self, text: str, file: str | None, line: int | None) -> None:
        self.text, self.file, self.line = text, file, line

    def error(self, message: str) -> BadInput:
        shown = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return BadInput(f"workload {shown!r}: {message}", file=self.file, line=self.line)


def operator(name: str) -> Operator:
    """The operator of that name. Raises BadInput, with the nearest name."""
    found = _operators().get(name)
    if found is None:
        raise BadInput(
            f"unknown operator '{name}'{nearest(name, operator_names())}; there are: {_listed(_operators())}"
        )
    return found


def operator_names() -> tuple[str, ...]:
    """All operators, sorted."""
    return tuple(sorted(_operators()))


@functools.cache
def _operators() -> Mapping[str, Operator]:
    found: dict[str, Operator] = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem.startswith("_") or path.stem == "registry":
            continue
        inside: Operator | None = getattr(importlib.import_module(f".{path.stem}", __package__), "OPERATOR", None)
        if inside is not None:
            found[inside.name] = inside
    for entry in entry_points(group=_GROUP):
        outside: Operator = entry.load()
        if outside.name in found:
            raise BadInput(
                f"entry point '{entry.name}' = '{entry.value}': there is an operator '{outside.name}' already"
            )
        found[outside.name] = outside
    return found


def parse_workload(text: str, *, file: str | None = None, line: int | None = None) -> Workload:
    """The workload that `OPERATOR:name=value,name=value` names, with all defaults filled in.

    Raises BadInput that says what is wrong, what is allowed and which name is nearest.
    """
    place = _Place(text, file, line)
    if len(text) > _MOST_CHARACTERS:
        raise place.error(f"{len(text)} characters; at most {_MOST_CHARACTERS}")
    head, colon, tail = text.partition(":")
    given: dict[str, Value] = {}
    for item in tail.split(",") if colon and tail.strip() else ():
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (name and equals and value):
            raise place.error(f"'{item.strip()}' is not of the form name=value")
        if name in given:
            raise place.error(f"'{name}' is given twice")
        given[name] = value
    return _build(head.strip(), given, place)


def workload_from_mapping(
    mapping: Mapping[str, object], *, file: str | None = None, line: int | None = None
) -> Workload:
    """The workload of a YAML mapping: `operator` and its parameters as keys. Raises BadInput as `parse_workload` does.

    YAML's `yes` and `no`, which some readers turn into booleans, are taken as the words.
    """
    mapping = {str(key): value for key, value in mapping.items()}  # YAML's keys may be numbers
    place = _Place(",".join(f"{key}={_short(value)}" for key, value in mapping.items()), file, line)
    name = mapping.get("operator")
    if not isinstance(name, str):
        raise place.error(f"'operator' must be one of: {_listed(_operators())}")
    given: dict[str, Value] = {}
    for key, value in mapping.items():
        if isinstance(value, bool):
            given[key] = "yes" if value else "no"
        elif isinstance(value, int | str):
            given[key] = _short(value) if isinstance(value, str) else value
        else:
            raise place.error(f"'{key}' is {_short(value)}; a whole number or a word is needed")
    del given["operator"]
    return _build(name, given, place)


def canonical_text(workload: Workload) -> str:
    """The shortest text that `parse_workload` reads as `workload`: what is at its default is left out."""
    known = _operators().get(workload.operator)
    rules = {p.name: p for p in known.parameters} if known else {}
    dtype = str(dict(workload.parameters).get("dtype", ""))
    shown = ",".join(
        f"{name}={value}" for name, value in workload.parameters if _is_shown(rules.get(name), value, dtype)
    )
    return f"{workload.operator}:{shown}"


def _is_shown(rule: Parameter | None, value: Value, dtype: str) -> bool:
    return rule is None or rule.always or value != rule.default_for(dtype)


def _build(name: str, given: Mapping[str, Value], place: _Place) -> Workload:
    known = _operators().get(name)
    if known is None:
        raise place.error(
            f"unknown operator '{name}'{nearest(name, operator_names())}; there are: {_listed(_operators())}"
        )
    rules = {p.name: p for p in known.parameters}
    for key in given:
        if key not in rules:
            raise place.error(f"{name} has no parameter '{key}'{nearest(key, rules)}; it has: {_listed(rules)}")
    values = {key: _value(rules[key], value, place) for key, value in given.items()}
    # The dtype first: other defaults may follow it.
    dtype = str(values.get("dtype", rules["dtype"].default if "dtype" in rules else ""))
    for rule in known.parameters:
        default = rule.default_for(dtype)
        if rule.name not in values:
            if default is None:
                raise place.error(f"'{rule.name}' is missing ({rule.doc}; {_allowed(rule)})")
            values[rule.name] = default
    workload = Workload(name, tuple((rule.name, values[rule.name]) for rule in known.parameters))
    try:
        known.validate(workload)
    except BadInput as error:
        raise place.error(error.message) from error
    for tensor in known.tensors(workload):
        if tensor.elements > _MOST_ELEMENTS:
            shape = "x".join(map(str, tensor.shape))
            raise place.error(f"tensor '{tensor.name}' of {shape} has {tensor.elements} elements; at most 2**40")
    return workload


def _value(rule: Parameter, value: Value, place: _Place) -> Value:
    """`value` as the parameter wants it."""
    if rule.words:
        if value not in rule.words:
            raise place.error(f"'{rule.name}' is '{value}'{nearest(str(value), rule.words)}; {_allowed(rule)}")
        return value
    # Twenty digits are more than any limit, and few enough to convert at once.
    if isinstance(value, str) and not re.fullmatch(r"[+-]?[0-9]{1,20}", value, re.ASCII):
        raise place.error(f"'{rule.name}' is '{value}'; {_allowed(rule)}")
    number = int(value)
    if not rule.low <= number <= rule.high:
        raise place.error(f"'{rule.name}' is {_short(number)}; {_allowed(rule)}")
    return number


def _short(value: object) -> str:
    """A value from a file as a few characters of an error; Python itself refuses to print an int of 5,000 digits."""
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _allowed(rule: Parameter) -> str:
    if rule.words:
        return f"one of: {_listed(rule.words)}"
    return f"a whole number from {rule.low} to {rule.high}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
