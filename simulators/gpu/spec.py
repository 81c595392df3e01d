"""What a GPU has to say of itself, beside clock, SMs (its cores) and memories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..units import Bytes, Cycles, Seconds

if TYPE_CHECKING:
    from ..machine import Machine

Fragments = Literal["shared", "registers"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MultiplyType(_Part):
    """One kind of multiplication: input and accumulator dtype, multiply-adds per cycle of one SM, where it is done."""

    input: str
    accumulator: Literal["int32", "fp32"]
    multiply_adds_per_cycle: int = Field(ge=1, le=1 << 16)
    engine: Literal["tensor", "vector"]
    picojoules: float = Field(ge=0, le=1000)  # per multiply-add at the full clock, operands from shared memory included


class TensorCores(_Part):
    """The tensor cores of one SM, used by one warpgroup (four warps, one on each sub-core) at a time.

    `shared` fragments: the instruction reads its operands from shared memory (wgmma). `registers`: each warp loads its
    part of the tile into registers first (ldmatrix, mma.sync), so that both operands are read twice by 2 x 2 warps.
    """

    fragments: Fragments
    rows: int = Field(ge=8, le=256)  # M of one instruction of a warpgroup
    columns: int = Field(ge=8, le=512)  # the largest N
    column_step: int = Field(ge=1, le=64)  # N is a multiple of it
    inner_bytes: int = Field(ge=16, le=256)  # K of one instruction, in bytes of the input
    latency: Cycles  # from the last multiply-add to the result
    types: tuple[MultiplyType, ...] = Field(min_length=1)


class Vector(_Part):
    """The fp32 lanes and the special-function units of one SM."""

    lanes: int = Field(ge=1, le=1024)  # add, multiply, multiply-add a cycle
    half_lanes: int = Field(ge=1, le=1024)  # compare, minimum, maximum, conversion a cycle
    special_lanes: int = Field(ge=1, le=1024)  # exp2, reciprocal, reciprocal square root a cycle
    latency: Cycles  # of a dependent instruction
    shuffle: Cycles  # latency of one exchange between lanes; a row reduction takes two, over four lanes


class Occupancy(_Part):
    """What the blocks that live on one SM share."""

    registers: Bytes  # the register file of one SM
    registers_per_thread: int = Field(ge=16, le=1024)  # at most, of 4 bytes
    register_overhead: int = Field(ge=0, le=128)  # addresses, counters, barriers: per thread, beside the buffers
    copy_registers: int = Field(ge=8, le=255)  # per thread, of a warp that only issues copies
    threads: int = Field(ge=128, le=4096)
    blocks: int = Field(ge=1, le=64)
    shared: Bytes  # of one SM
    shared_per_block: Bytes  # at most
    shared_reserved: Bytes  # per block, taken by the system


class Copy(_Part):
    """Asynchronous copies from memory to shared memory: TMA, or cp.async."""

    setup: Cycles  # from one copy to the next
    extra_latency: Cycles  # beside that of a plain load
    most_multicast: int = Field(ge=1, le=16)  # blocks of a cluster that one copy can serve


class Cache(_Part):
    """The L2 cache, shared by all SMs."""

    capacity: Bytes
    ways: int = Field(ge=1, le=256)  # of a set; sets are chosen by a hash of the address
    bytes_per_cycle: int = Field(ge=1)  # that hits reach, all SMs together
    latency: Cycles  # of a plain load that hits


class Path(_Part):
    """Between one SM and the L2."""

    port_bytes_per_cycle: int = Field(ge=1)  # into the SM, and out of it
    shared_bytes_per_cycle: int = Field(ge=1)  # of shared memory: banks x bank width
    shared_latency: Cycles
    in_flight_bytes: Bytes  # that one SM can have asked for


class Power(_Part):
    """What limits the clock: at `limit` watts it falls until the power is met. Voltage falls linearly with the clock.

    V(f) = V(full) * (floor + (1 - floor) * f / full), and switching energy goes with V squared.
    """

    limit_watts: float = Field(gt=0)
    idle_watts: float = Field(ge=0)
    memory_picojoules_per_byte: float = Field(ge=0)
    lane_picojoules: float = Field(ge=0)  # of one operation of one lane of the vector unit, registers included
    voltage_floor: float = Field(ge=0, le=1)
    least_clock: float = Field(gt=0, le=1)  # of the full clock; it does not fall further


class Gpu(_Part):
    """Family part of a machine description. Cores are SMs."""

    tensor_cores: TensorCores
    vector: Vector
    occupancy: Occupancy
    copy_unit: Copy
    cache: Cache
    path: Path
    power: Power
    issue: Cycles  # of one instruction of the program: some machine instructions and their addresses
    barrier: Cycles  # from a signal to the start of what waited for it
    launch: Seconds  # from one kernel to the next: what the host and the front end take
    follow: Seconds  # from one kernel to the next where the host has launched both
    block_start: Cycles = Field(ge=1)  # from a free slot to the first instruction of its next block
    turnaround: float = Field(ge=0, le=1)  # of memory time lost where half of the bytes are written
    global_memory: str

    def peak_multiply_adds_per_cycle(self, dtype: str) -> float:
        """Of one SM, for input `dtype`; 0 where it cannot multiply it."""
        return float(max((t.multiply_adds_per_cycle for t in self.tensor_cores.types if t.input == dtype), default=0))

    def multiply_type(self, dtype: str) -> MultiplyType | None:
        """How `dtype` is multiplied; None where it cannot be."""
        return next((t for t in self.tensor_cores.types if t.input == dtype), None)


def gpu(machine: Machine) -> Gpu:
    """The family part of a GPU."""
    assert isinstance(machine.spec, Gpu), machine.family
    return machine.spec
