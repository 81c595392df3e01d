"""`presil check FILE.pasm --workload WORKLOAD`."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from .output import Json, MachineName, print_json, print_text
from .simulate import PasmFile, load


def check(
    file: PasmFile,
    *,
    workload: Annotated[str, typer.Option("--workload", "-w", metavar="WORKLOAD", help="What it must compute.")],
    machine: MachineName | None = None,
    as_json: Json = False,
) -> None:
    """Say whether a program is right, or wrong and exactly why. Ends with code 1 when wrong.

    Examples:
      presil check best.pasm --workload matmul:m=512,n=512,k=512,dtype=int8
      presil check best.pasm -w matmul:m=512,n=512,k=512,dtype=int8 --machine tpu-v1 --json
    """
    from presil.kernels.checking import check as judge
    from presil.kernels.operators.registry import parse_workload
    from presil.simulators.errors import Undefined
    from presil.suites.results import verdict_json

    task = parse_workload(workload)
    try:
        program, target = load(file, machine)
        found = verdict_json(judge(program, task, target, budget_seconds=math.inf))
    except Undefined as error:  # the program's own fault is a verdict
        reason = {"kind": error.kind, "where": error.where, "detail": error.detail}
        found = {"verdict": "wrong", "reasons": [reason]}
    if as_json:
        print_json(found)
    else:
        print_text(f"{file}: {found['verdict']}")
        for reason in found["reasons"]:
            print_text(f"  {reason['kind']} at {reason['where']}: {reason['detail']}")
    if found["verdict"] == "wrong":
        raise typer.Exit(1)
