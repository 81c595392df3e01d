"""Do quantities mean what a data sheet means by them?"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from presil.simulators.units import (
    BYTE_UNITS,
    Bytes,
    BytesPerSecond,
    Cycles,
    Hertz,
    Seconds,
    looks_like_quantity,
    parse_quantity,
)


class Sheet(BaseModel):
    size: Bytes = 1
    wait: Cycles = 0
    latency: Seconds = 0.0
    clock: Hertz = 1e9
    rate: BytesPerSecond = 1.0


def read(**fields):
    """As from a file: strict JSON."""
    return Sheet.model_validate_json(json.dumps(fields), strict=True)


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("size", "24 MiB", 25_165_824),  # 24 x 2**20, Jouppi 2017's unified buffer
        ("size", "64 KiB", 65_536),
        ("size", "64KiB", 65_536),
        ("size", "1.5 KiB", 1_536),
        ("size", "16 GB", 16_000_000_000),  # decimal, unlike GiB
        ("size", "3 B", 3),
        ("size", "12", 12),
        ("size", 12, 12),
        ("wait", "7 cycles", 7),
        ("wait", "1 cycle", 1),
        ("wait", 0, 0),
        ("latency", "100 ns", 1e-7),
        ("latency", "1.2 us", 1.2e-6),
        ("latency", "0 s", 0.0),
        ("clock", "700 MHz", 7e8),
        ("clock", "1.05 GHz", 1.05e9),
        ("rate", "34 GB/s", 34e9),
        ("rate", "1.2 TB/s", 1.2e12),
        ("rate", "1 MiB/s", 1_048_576.0),
    ],
)
def test_value(field, text, value):
    # Equal, not near: a quantity is read exactly and rounded once.
    assert getattr(read(**{field: text}), field) == value


@given(st.integers(1, 1000), st.sampled_from(sorted(BYTE_UNITS)))
def test_every_unit_scales_exactly(count, unit):
    assert parse_quantity(f"{count} {unit}", BYTE_UNITS, unitless=False) == count * BYTE_UNITS[unit]


@pytest.mark.parametrize(
    ("field", "given_value", "message"),
    [
        ("size", "24 MiBs", r"found .24 MiBs.; allowed: a number alone or with one of .*\) \(did you mean .MiB.\?\)"),
        ("size", "24 mib", r"unknown unit 'mib' .* \(did you mean 'MiB'\?\)"),
        ("size", "0.3 B", r"not a whole number of bytes \(found '0.3 B'\)"),
        ("size", 0, "greater than or equal to 1"),
        ("size", "-1 KiB", "greater than or equal to 1"),
        ("size", "2000 TiB", "less than or equal to 1125899906842624"),
        ("size", "lots", r"not a quantity \(found 'lots'; allowed: a number alone or with one of B"),
        ("size", True, "valid integer"),
        ("size", 1.5, "valid integer"),
        ("wait", -1, "greater than or equal to 0"),
        ("wait", "2.5", r"not a whole number of cycles \(found '2.5'\)"),
        ("latency", "100", r"no unit \(found '100'; allowed: a number with one of s, ms, us, ns, ps\)"),
        ("latency", 1e-7, r"no unit \(found '1e-07'; allowed: a number with one of s, ms"),
        ("latency", "100 nz", r"unknown unit 'nz' .*did you mean 'ns'"),
        ("latency", "2 s", "less than or equal to 1"),
        ("clock", "0 MHz", "greater than or equal to 1000"),
        ("clock", "700 Mhz", r"unknown unit 'Mhz' .*did you mean 'MHz'"),
        ("clock", "nan Hz", "not a quantity"),
        ("rate", "34 GBps", r"unknown unit 'GBps' .*did you mean 'GB/s'"),
        ("rate", "34 GB", r"unknown unit 'GB' .*did you mean 'GB/s'"),
        ("rate", "1e999 B/s", "not a quantity"),
        ("rate", True, "valid number"),
    ],
)  # fmt: skip
def test_refused(field, given_value, message):
    with pytest.raises(ValidationError, match=message):
        read(**{field: given_value})


def test_python_may_give_base_units():
    sheet = Sheet(size=12, wait=3, latency=1e-7, clock=7e8, rate=34e9)
    assert (sheet.size, sheet.wait, sheet.latency, sheet.clock, sheet.rate) == (12, 3, 1e-7, 7e8, 34e9)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("34 GB/s", True),
        ("12", True),
        ("1.5e3", True),
        ("16x16", False),
        ("ws", False),
        ("tpu-v1", False),
        ("3 cores", False),
    ],
)
def test_looks_like_quantity(text, expected):
    assert looks_like_quantity(text) is expected
