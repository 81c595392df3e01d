"""What is attached to the PDF: all layers and all published figures, as CSV in full precision."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from .data import Comparison, Layer, Validation


def layers_csv(data: Comparison) -> bytes:
    """All layers of all machines, one row each, in full precision."""
    out = io.StringIO()
    names = [n for n in Layer.__dataclass_fields__ if n not in {"checks", "reasons", "traffic_bytes"}]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*names, "gain", "traffic_bytes", "checks", "reasons"])
    for layer in data.layers:
        plain_values = ["" if getattr(layer, n) is None else _harmless(getattr(layer, n)) for n in names]
        traffic = ";".join(f"{k}={v}" for k, v in layer.traffic_bytes.items())
        checks = ";".join(f"{k}={v}" for k, v in layer.checks.items())
        reasons = "; ".join(f"{r.kind} at {r.where}: {r.detail}" for r in layer.reasons)
        writer.writerow([*plain_values, layer.gain or "", *map(_harmless, (traffic, checks, reasons))])
    return out.getvalue().encode()


def validation_csv(rows: Sequence[Validation]) -> bytes:
    """All published figures beside ours, in full precision."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Validation.__dataclass_fields__)
    writer.writerows([[_harmless(getattr(row, name)) for name in Validation.__dataclass_fields__] for row in rows])
    return out.getvalue().encode()


def _harmless(value: object) -> object:
    """A text that a spreadsheet would take for a formula gets a quote before it."""
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value
