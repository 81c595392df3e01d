"""From a contraction to a whole program: tensors, epilogue, formats, cores."""

from __future__ import annotations

from collections.abc import Mapping

from presil.simulators.errors import Unsupported
from presil.simulators.machine import Machine
from presil.simulators.program import Affine, Attribute, Program, Tensor
from presil.simulators.systolic.isa import FAMILY
from presil.simulators.systolic.spec import Systolic

from ...operators import operator
from ...operators.operator import Workload
from ...space import Choice, Schedule
from .blocking import Epilogue
from .contraction import Contraction

CORE = "core"  # the grid variable


def operand_types(workload: Workload, spec: Systolic) -> tuple[str, str]:
    """(input, accumulator) formats. Raises Unsupported where the arrays do not multiply the input format."""
    dtype = workload.word("dtype")
    for kind in spec.array.types:
        if kind.input == dtype:
            return kind.input, kind.accumulator
    have = ", ".join(t.input for t in spec.array.types)
    raise Unsupported(f"the array does not multiply {dtype}; it multiplies: {have}")


def epilogue(workload: Workload) -> Epilogue:
    """What the vector unit does to each sum."""
    out = workload.word("out")
    attributes: dict[str, Attribute] = dict(operator(workload.operator).attributes(workload))
    if workload["activation"] != "none":
        attributes["activation"] = workload.word("activation")
    op = "requantize" if out == "int8" else "bias"
    return Epilogue(op, tuple(sorted(attributes.items())), out)


def core_offsets(totals: Mapping[str, int], split: Choice, cores: int) -> tuple[dict[str, int], dict[str, Affine]]:
    """(elements per core, where they begin) of each dimension when cores share dimension `split` (`1`: one core)."""
    own = dict(totals)
    offsets = {name: Affine() for name in totals}
    if split != "1":
        name = str(split)
        own[name] = totals[name] // cores
        offsets[name] = Affine.var(CORE, own[name])
    return own, offsets


def tensors(workload: Workload, machine: Machine) -> tuple[Tensor, ...]:
    """The operator's tensors, each in the memory where the machine keeps its kind."""
    return tuple(
        Tensor(t.name, t.dtype, t.shape, t.role, FAMILY.tensor_memory(t.role, machine))
        for t in operator(workload.operator).tensors(workload)
    )


def assemble(workload: Workload, machine: Machine, schedule: Schedule, contraction: Contraction) -> Program:
    """The program of a contraction."""
    return Program(
        name=workload.operator,
        machine=machine.name,
        workload=str(workload),
        tensors=tensors(workload, machine),
        buffers=contraction.buffers,
        semaphores=contraction.semaphores,
        streams=contraction.streams,
        grid=((CORE, machine.cores),) if schedule["cores"] != "1" else (),
    )
