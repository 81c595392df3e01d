"""The clock that the power of a chip allows while it runs a program.

Power at clock f is idle power, plus energy per multiply-add and per byte times their rates. Rates go with the clock and
energies with the square of the voltage, so power falls about with its cube. What memory moves is moved at its own pace.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..machine import Machine
from .spec import Gpu, gpu

STEPS = 40  # of the bisection: far below one hertz


def sustained_clock_hz(seconds: float, multiply_adds: Mapping[str, int], memory_bytes: int, machine: Machine) -> float:
    """The clock at which the chip stays within its power, for work that takes `seconds` at the full clock.

    `multiply_adds` are by the dtype that is multiplied. Raises nothing: at the least clock the power may be above.
    """
    spec = gpu(machine)
    if seconds <= 0 or _watts(1.0, seconds, multiply_adds, memory_bytes, spec) <= spec.power.limit_watts:
        return machine.clock_hz
    low, high = spec.power.least_clock, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        if _watts(middle, seconds, multiply_adds, memory_bytes, spec) > spec.power.limit_watts:
            high = middle
        else:
            low = middle
    return round(low * machine.clock_hz)


def _watts(clock: float, seconds: float, multiply_adds: Mapping[str, int], memory_bytes: int, spec: Gpu) -> float:
    """Power at `clock` times the full clock, if the work takes `seconds` / `clock`."""
    power = spec.power
    voltage = power.voltage_floor + (1 - power.voltage_floor) * clock
    kinds = {t.input: t.picojoules for t in spec.tensor_cores.types}
    switched = sum(count * kinds.get(dtype, 0.0) for dtype, count in multiply_adds.items())
    moved = memory_bytes * power.memory_picojoules_per_byte
    return power.idle_watts + (switched * voltage**2 + moved) * 1e-12 * clock / seconds
