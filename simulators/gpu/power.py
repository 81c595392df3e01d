"""The clock that the power of a chip allows while it runs a program.

Power at clock f is idle power, plus energy per multiply-add, per lane operation and per byte times their rates. Rates
go with the clock and the energy of switching with the square of the voltage, so power falls about with its cube.
"""

from __future__ import annotations

from ..family import Activity
from ..machine import Machine
from .spec import Gpu, gpu

STEPS = 40  # of the bisection: far below one hertz
PICO = 1e-12


def sustained_clock_hz(activity: Activity, machine: Machine) -> float:
    """The clock at which the chip stays within its power, for what takes `activity.seconds` at the full clock.

    At the least clock the power may be above.
    """
    spec = gpu(machine)
    if activity.seconds <= 0 or _watts(1.0, activity, spec) <= spec.power.limit_watts:
        return machine.clock_hz
    low, high = spec.power.least_clock, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        if _watts(middle, activity, spec) > spec.power.limit_watts:
            high = middle
        else:
            low = middle
    return round(low * machine.clock_hz)


def _watts(clock: float, activity: Activity, spec: Gpu) -> float:
    """Power at `clock` times the full clock, if it all takes as much longer."""
    power = spec.power
    voltage = power.voltage_floor + (1 - power.voltage_floor) * clock
    kinds = {t.input: t.picojoules for t in spec.tensor_cores.types}
    switched = sum(count * kinds.get(dtype, 0.0) for dtype, count in activity.multiply_adds.items())
    switched += activity.operations * power.lane_picojoules
    moved = activity.memory_bytes * power.memory_picojoules_per_byte
    return power.idle_watts + (switched * voltage**2 + moved) * PICO * clock / activity.seconds
