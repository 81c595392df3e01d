"""Quantities as a chip's data sheet writes them: `24 MiB`, `34 GB/s`, `700 MHz`, `100 ns`.

The types here are for pydantic models. In a file (validated from JSON) a quantity other than bytes and cycles must name
its unit; in Python a plain number is taken to be in the base unit (bytes, cycles, seconds, hertz, bytes per second).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo

from .errors import nearest

_NUMBER = re.compile(r"([+-]?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,2})?)\s*([A-Za-z][^\d\s]*)?")

_DECIMAL = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}

BYTE_UNITS: Mapping[str, Fraction] = {f"{p}B": Fraction(10) ** e for p, e in _DECIMAL.items()} | {
    f"{p}B": Fraction(2) ** e for p, e in _BINARY.items()
}
RATE_UNITS: Mapping[str, Fraction] = {f"{unit}/s": factor for unit, factor in BYTE_UNITS.items()}
CYCLE_UNITS: Mapping[str, Fraction] = {"cycle": Fraction(1), "cycles": Fraction(1)}
FREQUENCY_UNITS: Mapping[str, Fraction] = {f"{p}Hz": Fraction(10) ** e for p, e in _DECIMAL.items() if e <= 9}
TIME_UNITS: Mapping[str, Fraction] = {
    f"{p}s": Fraction(1, 10**e) for p, e in zip(("", *"munp"), range(0, 15, 3), strict=True)
}

_ALL_UNITS = {*BYTE_UNITS, *RATE_UNITS, *CYCLE_UNITS, *FREQUENCY_UNITS, *TIME_UNITS}


def parse_quantity(text: str, units: Mapping[str, Fraction], *, unitless: bool) -> Fraction:
    """The exact value of `text` in the base unit of `units`. `unitless` says that a bare number is allowed.

    Raises ValueError with what was found, what is allowed and the nearest unit.
    """
    allowed = f"allowed: a number{' alone or' if unitless else ''} with one of {', '.join(units)}"
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not a quantity (found '{text[:60]}'; {allowed})")
    number, unit = match[1], (match[2] or "")
    if unit not in units and not (unitless and not unit):
        what = f"unknown unit '{unit[:30]}'" if unit else "no unit"
        raise ValueError(f"{what} (found '{text[:60]}'; {allowed}){_hint(unit, units)}")
    return Fraction(number) * (units[unit] if unit else 1)


def _hint(unit: str, units: Mapping[str, Fraction]) -> str:
    """The unit that differs in case alone, or else the nearest."""
    same = [known for known in units if known.casefold() == unit.casefold()]
    return f" (did you mean '{same[0]}'?)" if same else nearest(unit, units) if unit else ""


def looks_like_quantity(text: str) -> bool:
    """Whether a text is a number, alone or with a unit this file knows."""
    match = _NUMBER.fullmatch(text.strip())
    return match is not None and (match[2] is None or match[2] in _ALL_UNITS)


def _whole(units: Mapping[str, Fraction]) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        exact = parse_quantity(value, units, unitless=True)
        if exact.denominator != 1:
            raise ValueError(f"not a whole number of {'bytes' if units is BYTE_UNITS else 'cycles'} (found '{value}')")
        return exact.numerator

    return parse


def _real(units: Mapping[str, Fraction]) -> Callable[[Any, ValidationInfo], Any]:
    def parse(value: Any, info: ValidationInfo) -> Any:
        bare = isinstance(value, int | float) and not isinstance(value, bool)
        if isinstance(value, str) or (bare and info.mode == "json"):
            return float(parse_quantity(str(value), units, unitless=False))
        return value

    return parse


Bytes = Annotated[int, Field(ge=1, le=1 << 50), BeforeValidator(_whole(BYTE_UNITS))]
"""A size in bytes; 1 byte to 1 PiB."""
Cycles = Annotated[int, Field(ge=0, le=10**9), BeforeValidator(_whole(CYCLE_UNITS))]
"""A time in cycles of the machine's clock."""
Seconds = Annotated[float, Field(ge=0, le=1), BeforeValidator(_real(TIME_UNITS))]
"""A latency in seconds, one second at most."""
Hertz = Annotated[float, Field(ge=1e3, le=1e12), BeforeValidator(_real(FREQUENCY_UNITS))]
"""A clock in hertz; 1 kHz to 1 THz."""
BytesPerSecond = Annotated[float, Field(ge=1, le=1e18), BeforeValidator(_real(RATE_UNITS))]
"""A bandwidth in bytes per second."""
