"""Numbers and names as a reader wants them: SI prefixes, three digits, only characters that the fonts have."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

NONE = "–"
_BREAK = "\u200b"  # a line may be broken here
_LONG = 20  # characters of an unbroken word that every column has room for
_PREFIXES = tuple(zip((1e15, 1e12, 1e9, 1e6, 1e3, 1.0, 1e-3, 1e-6, 1e-9), "PTGMk mµn", strict=True))


def digits(value: float | None, significant: int = 3) -> str:
    """`value` with that many significant digits, thousands grouped; a dash for None and for what is not finite."""
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    places = significant - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    places = significant - 1 - math.floor(math.log10(abs(rounded)))  # 9.996 has become 10.0
    return f"{rounded:,.{max(places, 0)}f}"


def quantity(value: float | None, unit: str) -> str:
    """`value` with an SI prefix: `34 GB/s`, `1.35 µs`."""
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0:
        return f"0 {unit}"
    scale, prefix = next((p for p in _PREFIXES if abs(value) >= p[0] * 0.9995), _PREFIXES[-1])
    text = digits(value / scale)
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {prefix.strip()}{unit}"


def whole(value: float | None) -> str:
    """A count or a number of cycles, thousands grouped."""
    return NONE if value is None else f"{round(value):,}"


def percent(share: float | None, places: int = 1) -> str:
    """A share as a percentage."""
    return NONE if share is None or not math.isfinite(share) else f"{100 * share:.{places}f}%"


def times(ratio: float | None) -> str:
    """A ratio: `2.41×`."""
    return NONE if ratio is None else f"{digits(ratio)}×"


def plural(count: int, noun: str) -> str:
    """`1 layer`, `2 layers`."""
    return f"{count:,} {noun if count == 1 else noun + 's'}"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "none"


def day(iso: str) -> str:
    """`1 December 2026, 04:12 UTC` of an ISO date; the text itself where it is none."""
    try:
        at = datetime.fromisoformat(iso)
    except ValueError:
        return iso or NONE
    return f"{at.day} {at:%B %Y, %H:%M} UTC"


def plain(text: str) -> str:
    r"""`text`; what the report's fonts lack, and control characters, as code points: `\u{XXXX}`."""
    known = _glyphs()
    return "".join(c if ord(c) in known and c.isprintable() else f"\\u{{{ord(c):04X}}}" for c in text)


def label(text: str, limit: int = 52) -> str:
    """`plain(text)`, cut to what a label of a figure has room for."""
    shown = plain(text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def breakable(text: str) -> str:
    """`plain(text)` that may be broken after `,` `:` `/`, and within a word that no column could hold."""
    parts = re.split(r"(?<=[,:/])(?=[^\d\s])", plain(text))  # not within a number
    return _BREAK.join(re.sub(rf"\S{{{_LONG + 1},}}", lambda m: _broken(m[0]), part) for part in parts)


def _broken(word: str) -> str:
    """A long word, breakable after `_` and `.`, and where that does not do after every so many characters."""
    pieces = re.split(r"(?<=[_.])(?=.)", word)
    return _BREAK.join(piece[i : i + _LONG] for piece in pieces for i in range(0, len(piece), _LONG))


@functools.cache
def _glyphs() -> frozenset[int]:
    """Code points that the typesetter can show: those of its fall-back font, which matplotlib ships too."""
    import matplotlib as mpl
    from matplotlib.ft2font import FT2Font

    path = Path(mpl.get_data_path()) / "fonts" / "ttf" / "DejaVuSansMono.ttf"
    return frozenset(FT2Font(str(path)).get_charmap())
