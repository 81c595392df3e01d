"""The clock that power allows, against the formula of `power.py` written out again, and its closed forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.simulators.family import Activity
from presil.simulators.gpu.power import sustained_clock_hz

from .gpu_parts import A100, H100, changed

FULL = 1.83e9
PICO = 1e-12


def watts(ratio: float, activity: Activity) -> float:
    """Of an H100: 120 idle; 1.65 pJ a bf16 multiply-add, 15 a lane operation, times (0.6 + 0.4 f)^2; 32 pJ a byte."""
    switched = 1.65 * activity.multiply_adds.get("bf16", 0) + 15 * activity.operations
    return 120 + (switched * (0.6 + 0.4 * ratio) ** 2 + 32 * activity.memory_bytes) * PICO * ratio / activity.seconds


def products(joules: float) -> Activity:
    """Multiply-adds that take so many joules at the full clock, in one second."""
    return Activity(1.0, {"bf16": round(joules / (1.65 * PICO))}, 0, 0)


def test_within_the_limit_the_clock_is_full():
    assert sustained_clock_hz(products(0), H100) == FULL
    assert sustained_clock_hz(products(579.9), H100) == FULL  # 120 + 579.9 of 700
    assert sustained_clock_hz(products(580.1), H100) < FULL
    assert sustained_clock_hz(Activity(0.0, {"bf16": 1 << 50}, 0, 0), H100) == FULL  # nothing was done


def test_where_the_voltage_stays_power_goes_with_the_clock():
    flat = changed(H100, "power", voltage_floor=1.0)
    # 120 + 800 f = 700: f = 0.725.
    assert sustained_clock_hz(products(800), flat) == pytest.approx(0.725 * FULL, abs=2)
    # 120 + (500 + 300) f: memory counts alike.
    half = Activity(1.0, products(500).multiply_adds, 0, round(300 / (32 * PICO)))
    assert sustained_clock_hz(half, flat) == pytest.approx(0.725 * FULL, abs=2)
    # Twice the time: half the rate, 120 + 400.
    assert sustained_clock_hz(Activity(2.0, products(800).multiply_adds, 0, 0), flat) == FULL


def test_where_the_voltage_goes_with_the_clock_power_goes_with_its_cube():
    steep = changed(H100, "power", voltage_floor=0.0)
    # 120 + 800 f^3 = 700: f = 0.725^(1/3). Memory keeps its voltage: 120 + 800 f.
    assert sustained_clock_hz(products(800), steep) == pytest.approx(0.725 ** (1 / 3) * FULL, abs=2)
    memory = Activity(1.0, {}, 0, round(800 / (32 * PICO)))
    assert sustained_clock_hz(memory, steep) == pytest.approx(0.725 * FULL, abs=2)


def test_the_closed_form_of_a_voltage_between():
    # (0.6 + 0.4 f)^2 f is 0.16 f^3 + 0.48 f^2 + 0.36 f; at f = 0.75:
    # 0.0675 + 0.27 + 0.27 = 0.6075, so 120 + S * 0.6075 = 700 for S = 954.7.
    assert sustained_clock_hz(products(580 / 0.6075), H100) == pytest.approx(0.75 * FULL, abs=2)


def test_the_clock_does_not_fall_below_the_least():
    assert sustained_clock_hz(products(1e6), H100) == pytest.approx(0.5 * FULL, abs=2)
    assert sustained_clock_hz(products(1e6), changed(H100, "power", least_clock=0.8)) == pytest.approx(
        0.8 * FULL, abs=2
    )


def test_each_format_takes_its_own():
    count = round(800 / (1.65 * PICO))
    fp8 = sustained_clock_hz(Activity(1.0, {"fp8": count}, 0, 0), H100)
    both = sustained_clock_hz(Activity(1.0, {"fp8": count, "bf16": count}, 0, 0), H100)
    assert fp8 == FULL  # 0.82 pJ: 120 + 398
    assert both < sustained_clock_hz(products(800), H100) < FULL
    # A100: 90 + 2.36 pJ of 400 W; 310 W are 131.36e12 a second.
    full = A100.clock_hz
    assert sustained_clock_hz(Activity(1.0, {"bf16": 131_350_000_000_000}, 0, 0), A100) == full
    assert sustained_clock_hz(Activity(1.0, {"bf16": 131_360_000_000_000}, 0, 0), A100) < full


ACTIVITIES = st.builds(
    lambda macs, operations, moved: Activity(1.0, {"bf16": macs}, operations, moved),
    st.integers(0, 10**15),
    st.integers(0, 10**14),
    st.integers(0, 5 * 10**12),
)


@given(ACTIVITIES)
def test_power_at_the_sustained_clock_is_the_limit(activity):
    clock = sustained_clock_hz(activity, H100)
    if clock == FULL:
        assert watts(1.0, activity) <= 700.0001
    elif clock > 0.5 * FULL + 2:
        assert watts(clock / FULL, activity) == pytest.approx(700, rel=1e-6)
    else:
        assert watts(0.5, activity) >= 699.9999


@given(ACTIVITIES, st.integers(1, 10**15), st.sampled_from(["macs", "operations", "bytes"]))
def test_who_does_more_is_no_faster(activity, more, what):
    macs, operations, moved = activity.multiply_adds["bf16"], activity.operations, activity.memory_bytes
    macs += more * (what == "macs")
    busier = Activity(1.0, {"bf16": macs}, operations + more * (what == "operations"), moved + more * (what == "bytes"))
    assert sustained_clock_hz(busier, H100) <= sustained_clock_hz(activity, H100)
