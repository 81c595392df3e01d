"""`presil operators [NAME]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import Json, console, print_json, print_text, table

if TYPE_CHECKING:
    from presil.kernels.operators.operator import Operator, Parameter


def operators(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="An operator; none: all there are.")] = None,
    *,
    as_json: Json = False,
) -> None:
    """The operators that can be asked for, or the parameters of one.

    A WORKLOAD is an operator with its parameters, in one text.

    Examples:
      presil operators
      presil operators conv2d
      presil operators matmul --json
    """
    from presil.kernels.operators import operator, operator_names

    if name is not None:
        found = operator(name)
        print_json(operator_json(found)) if as_json else _print_one(found)
        return
    known = [operator(each) for each in operator_names()]
    if as_json:
        print_json({"operators": [operator_json(each) for each in known]})
        return
    rows = table("operator", "parameters", "what it computes")
    for each in known:
        rows.add_row(each.name, " ".join(p.name for p in each.parameters), each.summary)
    console().print(rows)


def operator_json(found: Operator) -> dict[str, Any]:
    """The JSON form of an operator."""
    return {"name": found.name, "summary": found.summary, "parameters": [_parameter(p) for p in found.parameters]}


def _parameter(parameter: Parameter) -> dict[str, Any]:
    allowed: dict[str, Any] = (
        {"words": list(parameter.words)} if parameter.words else {"low": parameter.low, "high": parameter.high}
    )
    by_dtype = {"default_of": dict(parameter.default_of)} if parameter.default_of else {}
    return {"name": parameter.name, "doc": parameter.doc, "default": parameter.default, **by_dtype, **allowed}


def _print_one(found: Operator) -> None:
    print_text(f"{found.name}: {found.summary}")
    rows = table("parameter", "default", "allowed", "meaning")
    for p in found.parameters:
        by_dtype = ", ".join(f"{value} for {dtype}" for dtype, value in p.default_of.items())
        default = by_dtype or ("must be given" if p.default is None else str(p.default))
        rows.add_row(p.name, default, " ".join(p.words) or f"{p.low} to {p.high}", p.doc)
    console().print(rows)
    must = ",".join(
        f"{p.name}={p.words[0] if p.words else 64}" for p in found.parameters if p.default is None and not p.default_of
    )
    print_text(f"for example: {found.name}:{must}")
