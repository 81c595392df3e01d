"""What a systolic machine has to say of itself, beside clock, cores and memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..units import Bytes, Cycles

if TYPE_CHECKING:
    from ..machine import Machine

Dataflow = Literal["ws", "os"]
VectorOperation = Literal[
    "requantize", "bias", "cast", "add", "subtract", "multiply", "maximum", "relu",
    "exp", "reciprocal", "rsqrt", "square", "scale", "sum", "max",
]  # fmt: skip


class MultiplyType(BaseModel):
    """One kind of multiplication the array can do: input dtype, accumulator dtype, speed against the full rate."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    input: Literal["int8", "bf16"]
    accumulator: Literal["int32", "fp32"]
    rate: float = Field(gt=0, le=8)  # 2: two narrow multiplications in the place of one


class Array(BaseModel):
    """The arrays of one core. Inner length (K) lies on rows, outputs (N) on columns in `ws`; M on rows in `os`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    rows: int = Field(ge=1, le=4096)
    columns: int = Field(ge=1, le=4096)
    count: int = Field(ge=1, le=64)  # arrays per core
    dataflows: tuple[Dataflow, ...] = Field(min_length=1)
    weight_planes: int = Field(ge=1, le=8)  # weight registers per element (2: the next tile shifts in unseen)
    result_planes: int = Field(ge=1, le=8)  # output-stationary accumulators per element
    types: tuple[MultiplyType, ...] = Field(min_length=1)


class Vector(BaseModel):
    """The vector/activation unit of one core."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    lanes: int = Field(ge=1, le=65536)  # elements per cycle
    latency: Cycles
    operations: tuple[VectorOperation, ...]  # the vector instructions it has; `sync` all have


class Dma(BaseModel):
    """Transfer engines of one core."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    load_channels: int = Field(ge=1, le=16)
    store_channels: int = Field(ge=1, le=16)
    port_bytes_per_cycle: int = Field(ge=1)  # on-chip side of one channel
    setup: Cycles  # per transfer
    row_setup: Cycles  # per contiguous run beyond the first
    in_flight_bytes: Bytes  # outstanding bytes per channel: bandwidth <= in_flight / latency


class Systolic(BaseModel):
    """Family part of a machine description."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    array: Array
    scratchpad: Bytes  # per core
    accumulator: Bytes  # per core, all arrays together
    weight_buffer: Bytes | None = None  # own on-chip weight memory; None: weights lie in the scratchpad
    weight_tile: Bytes | None = None  # transfers into the weight buffer move whole tiles of this size
    vector: Vector
    dma: Dma
    issue: Cycles  # sequencer, per instruction
    semaphore: Cycles  # from a signal to the start of the stream that waited for it
    activation_memory: str
    weight_memory: str

    def peak_multiply_adds_per_cycle(self, dtype: str) -> float:
        """Of one core, for input `dtype`; 0 where the arrays cannot multiply it."""
        rate = max((t.rate for t in self.array.types if t.input == dtype), default=0.0)
        return self.array.rows * self.array.columns * self.array.count * rate


def systolic(machine: Machine) -> Systolic:
    """The family part of a systolic machine."""
    assert isinstance(machine.spec, Systolic), machine.family
    return machine.spec
