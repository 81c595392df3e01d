"""`presil machines [NAME]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import Json, console, figure, print_json, print_text, table

if TYPE_CHECKING:
    from presil.simulators.machine import Machine


def machines(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A machine, or a YAML file; none: all there are.")
    ] = None,
    *,
    as_json: Json = False,
) -> None:
    """The machines that are described, or every figure of one with its source.

    Examples:
      presil machines
      presil machines tpu-v1
      presil machines ./my-chip.yaml --json
    """
    from presil.simulators.machine import load_machine, machine_names

    if name is not None:
        machine = load_machine(name)
        print_json(machine_json(machine)) if as_json else _print_one(machine)
        return
    found = [load_machine(known) for known in machine_names()]
    if as_json:
        print_json({"machines": [summary(machine) for machine in found]})
        return
    rows = table("machine", "family", "clock", "cores", "memory", "what it is", right=(2, 3))
    for machine in found:
        memory = ", ".join(f"{n} {figure(m.bandwidth, 'B/s')}" for n, m in machine.memories.items())
        rows.add_row(
            machine.name, machine.family, figure(machine.clock_hz, "Hz"), str(machine.cores), memory, machine.title
        )
    console().print(rows)


def summary(machine: Machine) -> dict[str, Any]:
    """The short JSON form of a machine."""
    return {
        "name": machine.name,
        "title": machine.title,
        "family": machine.family,
        "clock_hz": machine.clock_hz,
        "cores": machine.cores,
        "digest": machine.digest,
    }


def machine_json(machine: Machine) -> dict[str, Any]:
    """The whole JSON form: the models as they are, and each figure's source by its path."""
    return {**machine.model_dump(mode="json", exclude={"figures"}), "digest": machine.digest}


def _print_one(machine: Machine) -> None:
    print_text(f"{machine.name}: {machine.title}\nfamily {machine.family}, digest {machine.digest[:16]}")
    rows = table("figure", "value", "source", right=(1,))
    for path, source in machine.sources.items():
        rows.add_row(path, machine.figures.get(path, ""), source)
    console().print(rows)
