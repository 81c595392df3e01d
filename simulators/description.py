"""Reads a YAML description so that every mistake in it can be named with its file, line and column.

Descriptions come from strangers: the size, the number of values and the depth are limited before anything is built,
and anchors, aliases, tags and keys given twice are refused. `validate` turns what a pydantic model finds wrong into the
same kind of message.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from .errors import BadInput, nearest

MAX_BYTES = 1 << 20
MAX_VALUES = 20_000
MAX_DEPTH = 16

KeyPath = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong with a description; line and column count from 1."""

    line: int
    column: int
    field: str  # dotted; empty for the file as a whole
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


@dataclass(frozen=True, slots=True)
class Description:
    """A YAML file as plain data, with the (line, column) of each key (`keys`) and each value (`values`) by path.

    `mistakes` are those that do not hinder reading on: a key given twice, a number out of reach.
    """

    file: str
    data: dict[str, Any]
    keys: Mapping[KeyPath, tuple[int, int]]
    values: Mapping[KeyPath, tuple[int, int]]
    mistakes: tuple[Mistake, ...] = ()

    def mistake(self, path: KeyPath, message: str, *, at_key: bool = False) -> Mistake:
        """A mistake at the deepest known place of `path`; that of a figure `{value, source}` is its value."""
        places = (self.keys, self.values) if at_key else (self.values, self.keys)
        if not at_key and (*path, "value") in self.values:
            return Mistake(*self.values[*path, "value"], dotted(path), message)
        for end in range(len(path), -1, -1):
            for known in places:
                if path[:end] in known:
                    return Mistake(*known[path[:end]], dotted(path), message)
        return Mistake(1, 1, dotted(path), message)


def dotted(path: KeyPath) -> str:
    """`systolic.array.types[0].rate`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def refuse(file: str, mistakes: Iterable[Mistake]) -> None:
    """Raises BadInput with every mistake on its own line, in the order of the file; none: does nothing.

    Of several about one field at one place only the first is kept: the others follow from it.
    """
    firsts: dict[tuple[int, int, str], Mistake] = {}
    for mistake in mistakes:
        firsts.setdefault((mistake.line, mistake.column, mistake.field), mistake)
    if firsts:
        first, *others = (firsts[place] for place in sorted(firsts))
        rest = "".join(f"\n{file}:{m.line}:{m.column}: {m}" for m in others)
        raise BadInput(f"{first}{rest}", file=file, line=first.line, column=first.column)


def read_description(path: Path) -> Description:
    """The description in a file. Raises BadInput for whatever is wrong with it, also where it cannot be read."""
    try:
        if path.is_fifo():  # without a writer, opening it would wait for ever
            raise BadInput("this is no plain file; allowed: a text file", file=str(path))
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", file=str(path)) from None
    if len(raw) > MAX_BYTES:
        raise BadInput(f"too large for a description (allowed: {MAX_BYTES} bytes)", file=str(path))
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"not UTF-8 text (byte {error.start})", file=str(path)) from None
    return parse_description(text, str(path))


def parse_description(text: str, file: str = "<text>") -> Description:
    """The description in a text. Raises BadInput."""
    yaml = YAML(typ="safe", pure=True)
    try:
        _limit(yaml, text, file)
        root = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
        raise BadInput(f"not valid YAML: {error.problem}", file=file, line=line, column=column) from None
    except YAMLError as error:
        raise BadInput(f"not valid YAML: {str(error).splitlines()[0]}", file=file) from None
    if root is None:
        raise BadInput("empty: expected `key: value` lines", file=file)
    if not isinstance(root, MappingNode):
        kind = "list" if isinstance(root, SequenceNode) else "single value"
        raise BadInput(f"expected `key: value` lines at the top, found a {kind}", file=file, line=1, column=1)
    builder = _Builder(yaml)
    data = builder.build(root, ())
    return Description(file, data, builder.keys, builder.values, tuple(builder.mistakes))


def _limit(yaml: YAML, text: str, file: str) -> None:
    """Refuses what could blow up, from the event stream, before any tree is built."""
    depth = 0
    for values, event in enumerate(yaml.parse(text)):
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        wrong = None
        if kind == "AliasEvent" or getattr(event, "anchor", None):
            wrong = "anchors and aliases (& and *) are not allowed: write the value out"
        elif getattr(event, "ctag", None):
            wrong = f"tags are not allowed (found {event.ctag})"
        elif depth > MAX_DEPTH + 2:  # the stream and the document count too
            wrong = f"nested too deeply (allowed: {MAX_DEPTH} levels)"
        elif values > MAX_VALUES:
            wrong = f"too many values (allowed: {MAX_VALUES})"
        if wrong:
            mark = event.start_mark
            raise BadInput(wrong, file=file, line=mark.line + 1, column=mark.column + 1)


@dataclass(slots=True)
class _Builder:
    """Turns YAML nodes into plain data, keeping places and collecting mistakes."""

    yaml: YAML
    keys: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    values: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def build(self, node: Node, path: KeyPath) -> Any:
        self.values[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
        if isinstance(node, MappingNode):
            return dict(self._items(node, path))
        if isinstance(node, SequenceNode):
            return [self.build(item, (*path, i)) for i, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return self._scalar(node, path)

    def _items(self, node: MappingNode, path: KeyPath) -> Iterator[tuple[str, Any]]:
        seen: dict[str, int] = {}
        for key, value in node.value:
            line, column = key.start_mark.line + 1, key.start_mark.column + 1
            if not isinstance(key, ScalarNode):
                self.mistakes.append(Mistake(line, column, dotted(path), "a key must be a word"))
                continue
            name = str(key.value)
            if name in seen:
                message = f"given twice (first in line {seen[name]})"
                self.mistakes.append(Mistake(line, column, dotted((*path, name)), message))
                continue
            seen[name] = line
            self.keys[(*path, name)] = (line, column)
            yield name, self.build(value, (*path, name))

    def _scalar(self, node: ScalarNode, path: KeyPath) -> str | int | float | bool | None:
        try:
            value = self.yaml.constructor.construct_object(node)
        except (ValueError, YAMLError):
            value = node
        if isinstance(value, float) and math.isfinite(value):
            return value
        if value is None or isinstance(value, str | bool) or (isinstance(value, int) and abs(value) < 1 << 63):
            return value
        message = f"not a usable number or text (found {str(node.value)[:40]})"
        where = path[:-1] if path[-1:] == ("value",) else path  # a figure goes by its own name
        self.mistakes.append(Mistake(*self.values[path], dotted(where), message))
        return None


def validate(
    model: type[Model], data: Any, description: Description, at: KeyPath = ()
) -> tuple[Model | None, list[Mistake]]:
    """`data`, which stands at `at` in the description, as the model; or None and every mistake in it."""
    try:
        # JSON mode is strict about types (no "256" for 256, no true for 1) and still takes a list for a tuple.
        return model.model_validate_json(json.dumps(data), strict=True), []
    except ValidationError as error:
        wrong = error.errors(include_url=False)
        # A list whose items are wrong is reported as too short as well.
        wrong = [details for details in wrong if details["type"] != "too_short" or not details["input"]]
        return None, [_explain(model, details, description, at) for details in wrong]


def _explain(model: type[BaseModel], details: ErrorDetails, description: Description, at: KeyPath) -> Mistake:
    loc, kind, context, found = details["loc"], details["type"], details.get("ctx", {}), details["input"]
    path = (*at, *loc[:-1]) if loc[-1:] == ("[key]",) else (*at, *loc)
    if kind == "extra_forbidden":
        allowed = fields_at(model, loc[:-1])
        hint = nearest(str(loc[-1]), allowed)
        return description.mistake(path, f"unknown field (allowed: {', '.join(allowed)}){hint}", at_key=True)
    if kind == "missing":
        return description.mistake(path, "missing", at_key=True)
    shown = json.dumps(found)[:60] if not isinstance(found, dict | list) else "a list" if found else "nothing"
    shown = "`key: value` lines" if isinstance(found, dict) else shown
    if kind == "literal_error":
        allowed_words = str(context["expected"])
        hint = nearest(str(found), allowed_words.replace("'", "").replace(" or ", ", ").split(", "))
        return description.mistake(path, f"unknown word (found {shown}, allowed: {allowed_words}){hint}")
    if kind == "too_short":
        return description.mistake(path, f"empty (allowed: {context['min_length']} or more)")
    if kind == "string_pattern_mismatch":
        return description.mistake(path, f"not a name (found {shown}, allowed: {context['pattern']})")
    if kind == "value_error":
        return description.mistake(path, str(context["error"]))
    message = details["msg"].replace("Input should be", "should be").replace("valid ", "")
    message = message.replace("a integer", "a whole number")
    return description.mistake(path, f"{message} (found {shown})")


def fields_at(model: type[BaseModel], loc: KeyPath) -> tuple[str, ...]:
    """The fields of the model that stands at `loc` inside `model`."""
    at: type[BaseModel] = model
    parts = iter(loc)
    for part in parts:
        if isinstance(part, str):
            annotation = at.model_fields[part].annotation
            at = _inner(annotation) or at
            if get_origin(annotation) is dict:
                next(parts, None)  # a key of the dictionary, not a field
    return tuple(at.model_fields)


def _inner(annotation: Any) -> type[BaseModel] | None:
    """The pydantic model inside an annotation such as `tuple[Model, ...]`, `dict[str, Model]` or `Model | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inside = [_inner(argument) for argument in getattr(annotation, "__args__", ())]
    return next((found for found in inside if found is not None), None)
