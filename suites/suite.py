"""The suite description: which workloads, on which machines, with which budget.

    name: quick
    title: ResNet-50 and a Llama-3-8B block on three chips
    machines: [tpu-v1, gemmini-16]        # names, or paths from this file
    budget: 12                            # evaluations per workload and machine
    check_seconds: 20                     # of functional runs per check; one is always made
    workloads:
      - matmul:m=512,n=512,k=512,dtype=int8
      - {operator: matmul, m: 512, n: 512, k: 512, dtype: int8}
      - {model: resnet50, batch: [1, 8]}
      - {model: llama-3-8b-block, phase: prefill, tokens: 2048}

Mistakes are reported all at once, each with file, line, column, field, what was found and what is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from presil.kernels.operators.registry import parse_workload, workload_from_mapping
from presil.simulators.description import (
    Description,
    KeyPath,
    Mistake,
    parse_description,
    read_description,
    refuse,
    validate,
)
from presil.simulators.errors import BadInput, PresilError, nearest
from presil.simulators.machine import Machine, load_machine

T = TypeVar("T")
Some = BeforeValidator(lambda found: tuple(found) if isinstance(found, list | tuple) else (found,))
Batches = Annotated[tuple[Annotated[int, Field(ge=1, le=65536)], ...], Some, Field(min_length=1, max_length=64)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
STRICT = ConfigDict(frozen=True, extra="forbid")


class Cnn(BaseModel):
    """All convolution and fully connected layers of a CNN, at each of the batch sizes."""

    model_config = STRICT
    model: Literal["resnet50"]
    batch: Batches = (1,)
    score: Literal["inferences/s"] = "inferences/s"


class Block(BaseModel):
    """Every matmul of one transformer block: `tokens` is the prompt (prefill) or the context (decode)."""

    model_config = STRICT
    model: Literal["llama-3-8b-block"]
    phase: Literal["prefill", "decode"]
    tokens: int = Field(default=2048, ge=1, le=131_072)
    batch: Batches = (1,)
    score: Literal["tokens/s"] = "tokens/s"


class Single(BaseModel):
    """One workload, in its canonical text."""

    model_config = STRICT
    workload: str


Entry = Single | Cnn | Block
MODELS: dict[str, type[Cnn | Block]] = {"resnet50": Cnn, "llama-3-8b-block": Block}


class _File(BaseModel):
    """The file as it stands; its entries are looked at one by one, so that each mistake keeps its place."""

    model_config = STRICT
    name: Name
    title: str = Field(default="", max_length=120)
    machines: tuple[str, ...] = Field(min_length=1, max_length=64)
    workloads: list[Any] = Field(min_length=1, max_length=10_000)
    budget: int = Field(default=32, ge=1, le=1_000_000)
    seed: int = Field(default=1, ge=0, le=2**32 - 1)
    check_seconds: float = Field(default=20.0, gt=0, le=86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A suite whose machines and workloads are all known to exist. `text` is the file's own.

    `check_seconds`: how long the functional runs of one check may take; there is always one, however long it takes.
    """

    name: str
    title: str
    machines: tuple[Machine, ...]
    entries: tuple[Entry, ...]
    budget: int
    seed: int
    check_seconds: float
    text: str


def load_suite(path: Path) -> Suite:
    """The suite in a YAML file. Raises BadInput with every mistake in it."""
    description = read_description(path)
    return build_suite(description, path.read_text(encoding="utf-8"), path.parent)


def parse_suite(text: str, file: str = "<text>") -> Suite:
    """The suite in a text. Raises BadInput as `load_suite` does."""
    return build_suite(parse_description(text, file), text, Path())


def build_suite(description: Description, text: str, folder: Path) -> Suite:
    """The suite of a description. Machines given as paths are found from `folder`. Raises BadInput."""
    file, mistakes = validate(_File, description.data, description)
    collected = _Collected(description, [*description.mistakes, *mistakes])
    entries = collected.each("workloads", lambda found, at: _entry(found, at, collected))
    machines = collected.each("machines", lambda found, _: _machine(found, folder))
    names = [machine and machine.name for machine in machines]
    for i, name in enumerate(names):
        if name and name in names[:i]:
            collected.mistakes.append(description.mistake(("machines", i), f"'{name}' is given twice"))
    refuse(description.file, collected.mistakes)
    assert file is not None
    return Suite(
        name=file.name,
        title=file.title or file.name,
        machines=tuple(m for m in machines if m is not None),
        entries=tuple(e for e in entries if e is not None),
        budget=file.budget,
        seed=file.seed,
        check_seconds=file.check_seconds,
        text=text,
    )


@dataclass(frozen=True, slots=True)
class _Collected:
    """The mistakes found so far."""

    description: Description
    mistakes: list[Mistake]

    def each(self, field: str, build: Callable[[Any, KeyPath], T]) -> list[T | None]:
        """What `build` makes of each element of a list; its errors become mistakes at that element."""
        found = self.description.data.get(field)
        built: list[T | None] = []
        for i, element in enumerate(found if isinstance(found, list) else []):
            try:
                built.append(build(element, (field, i)))
            except PresilError as error:
                message = error.message if isinstance(error, BadInput) and error.file is None else str(error)
                self.mistakes.append(self.description.mistake((field, i), message))
        return built


def _machine(found: Any, folder: Path) -> Machine | None:
    if not isinstance(found, str):
        return None  # the model of the file has said so
    if "\0" in found:  # no path may hold it
        raise BadInput(f"not the name of a machine (found '{found[:60]!a}')")
    beside = folder / found
    return load_machine(beside if "/" in found or found.endswith((".yaml", ".yml")) else found)


def _entry(found: Any, at: KeyPath, collected: _Collected) -> Entry | None:
    if isinstance(found, str):
        return Single(workload=str(parse_workload(found)))
    if not isinstance(found, dict) or ("model" in found) == ("operator" in found):
        raise BadInput("a workload is a text such as matmul:m=8,n=8,k=8, or has either `operator: ...` or `model: ...`")
    if "operator" in found:
        return Single(workload=str(workload_from_mapping(found)))
    name = str(found["model"])
    if name not in MODELS:
        raise BadInput(f"unknown model '{name[:60]}'{nearest(name, MODELS)}; there are: {', '.join(MODELS)}")
    entry, mistakes = validate(MODELS[name], found, collected.description, at)
    collected.mistakes.extend(mistakes)
    return entry
