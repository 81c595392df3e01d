"""The machine description: a chip as one YAML file, every figure with its source.

A figure is written `{value: 34 GB/s, source: "J17 Table 2"}`. Loading unwraps it into the models below and keeps the
source by dotted path. What only one family needs stands under the family's name and is that family's model.
A file that says `extends: NAME` needs to state only what differs from that machine. One that says `calibrated: true`
takes what it does not state from the figures measured on the RTL of its family (`FAMILY/calibration.yaml`).
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from .description import Description, KeyPath, Mistake, dotted, parse_description, read_description, refuse, validate
from .errors import BadInput, nearest
from .family import family, family_names
from .timing import TICKS_PER_CYCLE
from .units import Bytes, BytesPerSecond, Hertz, Seconds, looks_like_quantity

MACHINES = Path(__file__).parent / "machines"
CALIBRATION = "calibration.yaml"

TEXTS = ("name", "title", "family", "extends")  # top-level fields that are no figures

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]


class Memory(BaseModel):
    """An off-chip memory or link, shared by the cores. `bandwidth` x `efficiency` is what long transfers reach."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    bandwidth: BytesPerSecond
    latency: Seconds  # from request to first byte
    burst_bytes: int = Field(ge=1, le=1 << 20)  # the smallest transfer; shorter runs cost as much
    capacity: Bytes
    efficiency: float = Field(gt=0, le=1)


class Chip(BaseModel):
    """What every family's machine has."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: Name
    title: str = Field(min_length=1, max_length=120)
    family: str
    clock_hz: Hertz
    cores: int = Field(ge=1, le=65536)
    memories: dict[Name, Memory] = Field(min_length=1)


class Machine(Chip):
    """A described chip. Compares by value; `digest` names its figures.

    `sources` and `figures` give, by dotted path, where each figure comes from and how the file writes it.
    `spec` is the family's part (`systolic.spec.Systolic`, ...).
    """

    spec: Any
    sources: Mapping[str, str] = Field(default_factory=dict)
    figures: Mapping[str, str] = Field(default_factory=dict)

    @functools.cached_property
    def digest(self) -> str:
        """sha256 of all that changes a result: the canonical JSON without title, sources and spelling."""
        dump = self.model_dump(mode="json", exclude={"title", "sources", "figures"})
        return hashlib.sha256(json.dumps(dump, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.digest)

    def at_clock(self, clock_hz: float) -> Machine:
        """The same chip at another clock: what is given in seconds stays, what is given in cycles goes with it."""
        return Machine(**{**{name: getattr(self, name) for name in Machine.model_fields}, "clock_hz": clock_hz})

    def with_cores(self, cores: int) -> Machine:
        """The same chip with another number of cores."""
        return Machine(**{**{name: getattr(self, name) for name in Machine.model_fields}, "cores": cores})

    def seconds(self, ticks: int) -> float:
        """The time of `ticks`."""
        return ticks / TICKS_PER_CYCLE / self.clock_hz


def machine_names() -> tuple[str, ...]:
    """The machines that come with presil."""
    return tuple(sorted(path.stem for path in MACHINES.glob("*.yaml")))


def load_machine(name_or_path: str | Path) -> Machine:
    """A machine that comes with presil, by name, or the one in a YAML file (a path, or anything that ends in `.yaml`).

    Raises BadInput with every mistake of the file, each with line, column and field.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or "/" in text or text.endswith((".yaml", ".yml")):
        return build_machine(read_description(Path(text)))
    if text not in machine_names():
        known = machine_names()
        raise BadInput(f"unknown machine '{text[:60]}'{nearest(text, known)}; there are: {', '.join(known)}")
    return _built_in(text)


@functools.cache
def _built_in(name: str) -> Machine:
    return build_machine(read_description(MACHINES / f"{name}.yaml"))


def parse_machine(text: str, file: str = "<text>") -> Machine:
    """The machine in a YAML text. Raises BadInput as `load_machine` does."""
    return build_machine(parse_description(text, file))


def build_machine(description: Description) -> Machine:
    """The machine of a description. Raises BadInput with every mistake."""
    unwrapped = _Figures(description)
    data = unwrapped.unwrap(_extended(description), ())
    mistakes = unwrapped.mistakes
    name = data.get("family")
    chip_data, spec_data = dict(data), None
    spec_model: type[BaseModel] | None = None
    if isinstance(name, str) and name in family_names():
        spec_model, spec_data = family(name).spec_model, chip_data.pop(name, None)
        if name not in data:
            mistakes.append(Mistake(1, 1, name, "missing (the part that only this family has)"))
    elif isinstance(name, str):
        known = family_names()
        message = f"unknown family (found '{name[:60]}', allowed: {', '.join(known)}){nearest(name, known)}"
        mistakes.append(description.mistake(("family",), message))
        chip_data = {key: value for key, value in data.items() if key in Chip.model_fields}
    chip, wrong = validate(Chip, chip_data, description)
    mistakes += wrong
    spec = None
    if spec_model is not None and name in data:
        spec, wrong = validate(spec_model, spec_data, description, (name,))
        mistakes += wrong
        mistakes += _unknown_memories(description, name, spec_data, data.get("memories"))
    refuse(description.file, mistakes)
    assert chip is not None
    assert spec is not None
    return Machine(**dict(chip), spec=spec, sources=unwrapped.sources, figures=unwrapped.figures)


def _extended(description: Description) -> dict[str, Any]:
    """The data of a description laid over those of the machine it extends, and those over the calibration."""
    data = _over_base(description)
    calibrated = data.pop("calibrated", False)
    if calibrated is False:
        return data
    measured = Path(__file__).parent / str(data.get("family")) / CALIBRATION
    if calibrated is not True or data.get("family") not in family_names() or not measured.is_file():
        message = f"'true', for a family whose RTL is calibrated, is all it can be (found '{str(calibrated)[:20]}')"
        refuse(description.file, [description.mistake(("calibrated",), message)])
    return {**_overlay(read_description(measured).data["figures"], data)}


def _over_base(description: Description) -> dict[str, Any]:
    """The data of a description laid over those of the machine it extends."""
    own = dict(description.data)
    if "extends" not in own:
        return own
    base = own.pop("extends")
    if base not in machine_names() or "extends" in (found := read_description(MACHINES / f"{base}.yaml")).data:
        known = machine_names()
        message = f"not a machine that can be extended (found '{str(base)[:60]}', allowed: {', '.join(known)})"
        refuse(description.file, [description.mistake(("extends",), message + nearest(str(base), known))])
    return {**_overlay(found.data, own)}


def _overlay(base: Any, top: Any) -> Any:
    """`top` over `base`, mapping by mapping; figures and lists are replaced whole."""
    if not isinstance(base, dict) or not isinstance(top, dict) or "value" in base or "value" in top:
        return top
    return {
        key: _overlay(base[key], top[key]) if key in base and key in top else (top | base)[key] for key in base | top
    }


def _unknown_memories(description: Description, part: str, spec: Any, memories: Any) -> list[Mistake]:
    """A field of the family part whose name ends in `_memory` must name a memory."""
    if not isinstance(spec, dict) or not isinstance(memories, dict):
        return []
    return [
        description.mistake(
            (part, key),
            f"unknown memory (found '{value[:60]}', allowed: {', '.join(memories)}){nearest(value, memories)}",
        )
        for key, value in spec.items()
        if key.endswith("_memory") and isinstance(value, str) and value not in memories
    ]


class _Figures:
    """Replaces each `{value, source}` by its value, and asks a source of every number."""

    def __init__(self, description: Description) -> None:
        self.description = description
        self.sources: dict[str, str] = {}
        self.figures: dict[str, str] = {}
        self.mistakes = list(description.mistakes)

    def unwrap(self, data: Any, path: KeyPath) -> Any:
        if isinstance(data, dict):
            if "value" in data or set(data) == {"source"}:
                return self._figure(data, path)
            return {key: self.unwrap(value, (*path, key)) for key, value in data.items()}
        if isinstance(data, list):
            return [self.unwrap(value, (*path, i)) for i, value in enumerate(data)]
        number = isinstance(data, int | float) and not isinstance(data, bool)
        if path[0] not in TEXTS and (number or (isinstance(data, str) and looks_like_quantity(data))):
            self._wrong(
                path, f"figure without source (found {data}; write {{value: {data}, source: where it is from}})"
            )
        return data

    def _figure(self, data: dict[str, Any], path: KeyPath) -> Any:
        for key in data.keys() - {"value", "source"}:
            message = f"unknown field (allowed: value, source){nearest(key, ['value', 'source'])}"
            self.mistakes.append(self.description.mistake((*path, key), message, at_key=True))
        source = data.get("source")
        if not isinstance(source, str) or not source.strip():
            self._wrong(path, "figure without source (a figure needs both `value` and `source`, a text)")
        elif "value" not in data:
            self._wrong(path, "source without value (a figure needs both `value` and `source`)")
        else:
            self.sources[dotted(path)] = source
            self.figures[dotted(path)] = str(data["value"])
        return data.get("value")

    def _wrong(self, path: KeyPath, message: str) -> None:
        self.mistakes.append(self.description.mistake(path, message))
