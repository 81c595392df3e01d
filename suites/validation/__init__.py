"""How near the models come to published figures. `validate` sets ours beside each row that a model covers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from presil.simulators.errors import BadInput, nearest

from . import gemmini, gpu, gpu_models, gpu_probes, scale_sim, tpu_v1, tpu_v5e
from .published import PublishedRow, ValidationRow, published_rows

__all__ = ["NOT_MODELLED", "PublishedRow", "ValidationRow", "not_modelled", "published_rows", "validate"]

FAMILIES = ("gpu", "systolic")
SEARCH_BUDGET = 40

# Why rows of these ids have nothing beside them.
NOT_MODELLED: Mapping[str, str] = {
    "SYS-TPU1E": "the error of Google's own model: the yardstick, not a target",
    "SYS-ICI": "links between chips are not modelled",
    "SYS-V2": "the row is a collective between chips",
    "SYS-V3": "no description of TPU v3: its clock is in no source that was read",
    "SYS-MLP": "whole servers of several chips",
    "SYS-VTA": "no description of VTA: its parameters are from memory, and its network runs layers on the host too",
    "SYS-EYE": "row-stationary dataflow is not modelled",
    "SYS-CORAL": "array and clock are from memory, and latencies include the host and USB",
    "GPU-L1": "the L1 cache is not modelled: loads go to the L2",
    "GPU-ROOF": "an A100 of 40 GB; chains of fp32 multiply-adds without memory are no operator",
    "GPU-KB-022": "the library multiplies this convolution in TF32, which is no format here: fp32 could not be as fast",
    "GPU-MLA": "latent attention is no operator yet",
}


def not_modelled(machine_family: str) -> dict[str, str]:
    """Why rows of a family have nothing beside them, by the beginning of their ids."""
    first = {"systolic": "SYS-", "gpu": "GPU-"}[machine_family]
    return {name: reason for name, reason in NOT_MODELLED.items() if name.startswith(first)}


def validate(
    machine_family: str = "systolic",
    rows: Iterable[str] | None = None,
    search_budget: int = SEARCH_BUDGET,
    show: Callable[[int, int, str], None] | None = None,
) -> tuple[ValidationRow, ...]:
    """Published rows of a family with ours beside them, in the order of the file; the rest is left out.

    `rows`: ids, or beginnings of ids (None: all). `show` is told (done, of how many, row) before each row.
    Raises BadInput for an id that matches nothing.
    """
    if machine_family not in FAMILIES:
        raise BadInput(f"no published rows for the family '{machine_family}'; there are: {', '.join(FAMILIES)}")
    published = published_rows(machine_family)
    wanted = list(rows) if rows is not None else [""]
    for prefix in wanted:
        if not any(row.startswith(prefix) for row in published):
            raise BadInput(f"no published row '{prefix[:40]}'{nearest(prefix, published)}")
    chosen = [row for name, row in published.items() if name.startswith(tuple(wanted))]
    found = []
    for number, row in enumerate(chosen):
        if show is not None:
            show(number, len(chosen), row.row)
        found.append(_compare(row, search_budget))
    return tuple(row for row in found if row is not None)


def _compare(row: PublishedRow, search_budget: int) -> ValidationRow | None:
    if row.row.startswith("GPU-"):
        return gpu.compare(row, search_budget) or gpu_probes.compare(row) or gpu_models.compare(row)
    if row.row.startswith(gemmini.PREFIX):
        return gemmini.compare(row)
    if row.row.startswith(tpu_v1.PREFIX):
        return tpu_v1.compare(row)
    if row.row.startswith(tpu_v5e.PREFIX):
        return tpu_v5e.compare(row, search_budget)
    if row.row.startswith(scale_sim.PREFIX):
        return scale_sim.compare(row)
    return None
