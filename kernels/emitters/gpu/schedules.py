"""What schedules of GPU contractions have in common: tiles, stages, consumers, the order of blocks, clusters."""

from __future__ import annotations

from presil.simulators.errors import Unsupported
from presil.simulators.gpu.isa import FAMILY
from presil.simulators.gpu.spec import Gpu, MultiplyType
from presil.simulators.machine import Machine
from presil.simulators.program import Attribute, Tensor

from ...operators import operator
from ...operators.operator import Workload
from ...space import Axis, Schedule
from .contraction import Epilogue

MOST_CONSUMERS = 4
GROUPS = (1, 2, 4, 8, 16, 32)


def number(schedule: Schedule, axis: str) -> int:
    """A choice that is a number."""
    value = schedule[axis]
    assert isinstance(value, int), axis
    return value


def multiply_type(workload: Workload, spec: Gpu) -> MultiplyType:
    """How the inputs are multiplied. Raises Unsupported where they cannot be."""
    dtype = workload.word("dtype")
    kind = spec.multiply_type(dtype)
    if kind is None:
        have = ", ".join(t.input for t in spec.tensor_cores.types)
        raise Unsupported(f"there is no multiplication of {dtype}; there is: {have}")
    return kind


def epilogue(workload: Workload, kind: MultiplyType) -> Epilogue:
    """What is done to each sum, without the place of its bias."""
    out = workload.word("out")
    attributes: dict[str, Attribute] = dict(operator(workload.operator).attributes(workload))
    if workload["activation"] != "none":
        attributes["activation"] = workload.word("activation")
    plain = workload["bias"] == "no" and workload["activation"] == "none"
    if out == "int8":
        op = "requantize"
    elif plain:
        op = "" if out == kind.accumulator else "cast"
    else:
        op = "bias"
    return Epilogue(op=op, attributes=tuple(sorted(attributes.items())), out=out, bias=None)


def tensors(workload: Workload, machine: Machine) -> tuple[Tensor, ...]:
    """The operator's tensors, all in global memory."""
    return tuple(
        Tensor(t.name, t.dtype, t.shape, t.role, FAMILY.tensor_memory(t.role, machine))
        for t in operator(workload.operator).tensors(workload)
    )


def common_axes(spec: Gpu) -> tuple[Axis, ...]:
    """Pipeline, warps and order: what all contractions choose."""
    clusters = tuple(n for n in (1, 2, 4) if n <= spec.copy_unit.most_multicast)
    return (
        Axis("stages", (2, 3, 4, 5, 6, 8)),
        Axis("consumers", (1, 2, MOST_CONSUMERS)),
        Axis("place", ("dispatch", "persistent"), ordered=False),
        Axis("order", ("m", "n"), ordered=False),
        Axis("group", GROUPS),
        Axis("cluster", clusters),
    )


def ladder(extent: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes up to the first that covers `extent`."""
    kept = [size for size in sizes if size < extent]
    more = [size for size in sizes if size >= extent][:1]
    return tuple(kept + more)
