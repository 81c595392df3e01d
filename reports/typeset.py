"""Sets the content of a report as a PDF: tagged, accessible (PDF/UA-1), the same bytes for the same content."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import typst

from presil.simulators.errors import BadInput, ModelError

from .attachments import layers_csv, rtl_csv, validation_csv
from .data import Comparison
from .pages import content

_TEMPLATES = Path(__file__).parent
_MAIN = "report.typ"


def render(data: Comparison) -> bytes:
    """The report as PDF bytes. Raises ModelError where the typesetter refuses it, BadInput where the disk is full."""
    page, images = content(data)
    files: dict[str, bytes] = {
        **{path.name: path.read_bytes() for path in _TEMPLATES.glob("*.typ")},
        **images,
        "content.json": json.dumps(page, ensure_ascii=False).encode(),
        "layers.csv": layers_csv(data),
        "validation.csv": validation_csv(data.validations),
        "rtl.csv": rtl_csv(data.rtl),
    }
    try:
        return _typeset(files)
    except OSError as error:
        raise BadInput(f"cannot write to the folder for temporary files: {error.strerror or error}") from error


def _typeset(files: Mapping[str, bytes]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="presil-report-") as folder:  # the typesetter sees this folder alone
        for name, body in files.items():
            (Path(folder) / name).write_bytes(body)
        try:
            main = str(Path(folder) / _MAIN)
            return typst.compile(main, root=folder, ignore_system_fonts=True, pdf_standards=["ua-1"])
        except typst.TypstError as error:
            raise ModelError(f"the report cannot be typeset: {error.message} {error.diagnostic}") from error


def write(pdf: bytes, output: Path) -> None:
    """Writes the file whole or not at all, making its folder. Raises BadInput where that cannot be done."""
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(pdf)
        part.replace(output)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise BadInput(f"cannot write the report: {error.strerror or error}", file=str(output)) from error
