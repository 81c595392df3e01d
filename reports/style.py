"""How figures look: colours that colour-blind readers can tell apart, one typeface, the same bytes each time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, GREY, PALE, RULE = "#1b2733", "#66717c", "#c9d0d6", "#e4e8eb"
COLOURS = ("#332288", "#b06d16", "#117733", "#c0506a", "#2f86ad", "#882255", "#2f8f80", "#7a7a22", "#aa4499")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
SPLIT = ("#2f4b7c", "#8fb3d1", "#e0b26b")  # array, memory, rest
WIDTH = 6.7  # inches: the width of the text

_DRAWN_IN, _SHOWN_IN = "STIXGeneral", "Libertinus Serif"
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "presil",
    "font.family": [_DRAWN_IN, "DejaVu Sans"],  # the second for signs that the first lacks
    "font.size": 9.0,
    "text.parse_math": False,  # a `$` in a name is a dollar
    "text.color": INK,
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}


@contextmanager
def styled() -> Iterator[None]:
    """Within it figures get this module's looks."""
    with mpl.rc_context(_SETTINGS):
        yield


def colour(index: int) -> str:
    """The colour of the series of that index; they come round again after nine."""
    return COLOURS[index % len(COLOURS)]


def marker(index: int) -> str:
    """The marker of the series of that index: a second sign beside the colour."""
    return MARKERS[index % len(MARKERS)]


def quiet(axes: Axes) -> None:
    """Takes the left spine and the ticks off, for charts whose rows are labelled."""
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def svg(figure: Figure) -> bytes:
    """The figure as SVG whose text is text, to be set in the report's typeface. Equal figures give equal bytes."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return re.sub(rf"(font(?:-family)?: [^;\"]*?)'?{_DRAWN_IN}'?", rf"\1'{_SHOWN_IN}'", buffer.getvalue()).encode()
