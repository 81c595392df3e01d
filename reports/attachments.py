"""What is attached to the PDF: all layers and all published figures, as CSV in full precision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from .data import Comparison, Reason, RtlKernel, Validation
from .frames import layers_frame, rtl_frame, validations_frame

_LAST = ["gain", "traffic_bytes", "checks", "reasons"]


def layers_csv(data: Comparison) -> bytes:
    """All layers of all machines, one row each, in full precision."""
    frame = layers_frame(data.layers).drop(columns="partial")
    frame["traffic_bytes"] = frame["traffic_bytes"].map(_pairs)
    frame["checks"] = frame["checks"].map(_pairs)
    frame["reasons"] = frame["reasons"].map(_reasons)
    return _csv(frame[[*frame.columns.drop(_LAST), *_LAST]])


def validation_csv(rows: Sequence[Validation]) -> bytes:
    """All published figures beside ours, in full precision."""
    return _csv(validations_frame(rows).drop(columns="row_set"))


def rtl_csv(rows: Sequence[RtlKernel]) -> bytes:
    """All kernels in the event model and on the RTL, in full precision."""
    return _csv(rtl_frame(rows))


def _csv(frame: pd.DataFrame) -> bytes:
    text: str = frame.apply(lambda column: column.map(_harmless)).to_csv(index=False, lineterminator="\n")
    return text.encode()


def _pairs(found: Mapping[str, int]) -> str:
    return ";".join(f"{name}={value}" for name, value in found.items())


def _reasons(found: Sequence[Reason]) -> str:
    return "; ".join(f"{r.kind} at {r.where}: {r.detail}" for r in found)


def _harmless(value: object) -> object:
    """A text that a spreadsheet would take for a formula gets a quote before it."""
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value
