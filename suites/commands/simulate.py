"""`presil simulate FILE.pasm`."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .output import Json, MachineName, figure, print_json, print_text, say

if TYPE_CHECKING:
    from presil.simulators.machine import Machine
    from presil.simulators.program import Program
    from presil.simulators.timing import Execution, Timing

PasmFile = Annotated[Path, typer.Argument(metavar="FILE.pasm", help="A program in text form.", show_default=False)]


def simulate(
    file: PasmFile,
    *,
    machine: MachineName | None = None,
    fidelity: Annotated[
        Literal["bound", "event", "rtl"],
        typer.Option(help="Roofline bound, event simulation, or the chip's SystemVerilog itself."),
    ] = "event",
    mode: Annotated[
        Literal["full", "skip"],
        typer.Option(help="Of the event simulation: execute every instruction on data, or jump over steady state."),
    ] = "skip",
    timeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what happened when (.json or .json.gz, for Perfetto).")
    ] = None,
    waves: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Record every signal of the RTL (.vcd or .fst).")
    ] = None,
    verilator: Annotated[
        str | None, typer.Option(metavar="PATH", help="The Verilator that builds the RTL; else one is looked for.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Time a program, and say where the time of each engine went.

    Without --machine the machine that the file names is used. The RTL is built at its first use, which takes a minute;
    what is built is kept.

    Examples:
      presil simulate best.pasm
      presil simulate best.pasm --machine tpu-v4 --mode full --json
      presil simulate best.pasm --timeline best.json.gz
      presil simulate best.pasm --machine systolic-4 --fidelity rtl --waves best.fst
    """
    from presil.simulators.timing import Execution
    from presil.suites.results import timing_json

    _refuse(fidelity, {"--timeline": timeline, "--waves": waves, "--verilator": verilator})
    program, target = load(file, machine)
    if fidelity == "bound":
        execution = Execution(timing=_bound(program, target))
    elif fidelity == "event":
        execution = _event(program, target, mode, timeline)
    else:
        from presil.simulators.rtl.run import run_rtl

        execution = run_rtl(program, target, waves=waves, verilator=verilator)
    timing = execution.timing
    if as_json:
        print_json({**timing_json(timing), **_digests(execution)})
        return
    _show(timing, program, target)


def _refuse(fidelity: str, options: dict[str, Path | str | None]) -> None:
    """Raises BadInput for an option that another fidelity has."""
    from presil.simulators.errors import BadInput

    for option, given in options.items():
        only = "event" if option == "--timeline" else "rtl"
        if given is not None and fidelity != only:
            raise BadInput(f"{option} is for --fidelity {only}")


def _show(timing: Timing, program: Program, target: Machine) -> None:
    """For people."""
    cycles, seconds = figure(timing.cycles), figure(timing.seconds, "s")
    print_text(f"{program.name} on {target.name}: {cycles} cycles, {seconds} ({timing.fidelity})")
    for memory, traffic in timing.traffic_bytes.items():
        print_text(
            f"{memory}: {figure(traffic, 'B')}, {figure(traffic / timing.seconds, 'B/s') if timing.ticks else ''}"
        )
    if timing.engines:
        from presil.simulators.stalls import stall_table, stall_text

        print_text("\n" + stall_text(stall_table(timing, program)))


def load(file: Path, machine: str | None) -> tuple[Program, Machine]:
    """The program in a file and the machine asked for, or else named in the file. Raises BadInput."""
    from presil.simulators.assembly import load_program
    from presil.simulators.family import family
    from presil.simulators.machine import load_machine

    target = load_machine(machine) if machine else None
    program = load_program(file, family(target.family).ops if target else None)
    return program, target or load_machine(program.machine)


def _event(program: Program, machine: Machine, mode: Literal["full", "skip"], path: Path | None) -> Execution:
    from presil.simulators.simulate import simulate as event
    from presil.simulators.timeline import Timeline

    timeline = Timeline() if path else None
    execution = event(program, machine, mode=mode, timeline=timeline)
    if path and timeline:
        timeline.write(path, machine.clock_hz)
        if timeline.dropped:
            say(f"presil: the timeline is full; {timeline.dropped:,} later events were left out")
    return execution


def _digests(execution: Execution) -> dict[str, dict[str, str]]:
    """SHA-256 of each output's bytes, of a run on data: equal where two fidelities agree in every bit."""
    found = {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in execution.outputs.items()}
    return {"outputs": found} if found else {}


def _bound(program: Program, machine: Machine) -> Timing:
    """The roofline of what the program itself does: its multiply-adds, and the bytes it moves."""
    from presil.simulators.bound import lower_bound_ticks
    from presil.simulators.family import family
    from presil.simulators.legality import check_legality
    from presil.simulators.program import instructions
    from presil.simulators.timing import Timing

    check_legality(program, machine)
    prices = family(machine.family)
    multiply_adds, traffic = 0, dict.fromkeys(machine.memories, 0)
    for phase in program.phases:
        for stream in phase.streams:
            for instruction, times in instructions(stream.body):
                cost = prices.cost(instruction, stream.unit, phase, machine)
                multiply_adds += times * phase.instances * cost.multiply_adds
                for memory, moved in cost.traffic:
                    traffic[memory] += times * phase.instances * moved
    dtype = next((t.dtype for t in program.phases[0].tensors if t.role == "in"), "")
    ticks = lower_bound_ticks(multiply_adds, dtype, traffic, machine)
    return Timing(
        ticks=ticks,
        clock_hz=machine.clock_hz,
        fidelity="bound",
        mode=None,
        traffic_bytes=traffic,
        multiply_adds=multiply_adds,
    )
