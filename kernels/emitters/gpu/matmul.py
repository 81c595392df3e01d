"""matmul on a GPU: x [batch, m, k] @ w [batch, k, n] in blocks of rows x columns, steps of `inner`."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

from presil.simulators.formats import size_bytes
from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import Machine
from presil.simulators.program import Affine, Dim, Region

from ...operators.operator import Workload
from ...space import Axis, Emitter, Schedule, Space
from . import estimate, schedules
from .combine import NAME, Parts
from .contraction import Tile
from .emitter import ContractionEmitter, Plan

ROWS = (16, 32, 64, 128, 192, 256)
COLUMNS = (16, 32, 64, 96, 128, 160, 192, 224, 256)
INNER_BYTES = (64, 128, 256)
SPLITS, LEAST_PART = (2, 4, 8, 16), 128  # parts of a sum, and products of a part
FULL_BLOCK = 128, 256  # rows and columns that keep an SM busy
MOST_SPLIT_WAVES, MOST_TAIL_WAVES = 1.5, 6  # beyond them a split saves little: of w waves less than one


def space(workload: Workload, machine: Machine) -> Space:
    """Tiles, stages, consumers, place, order of blocks, clusters, parts of the sum."""
    spec = gpu(machine)
    kind = schedules.multiply_type(workload, spec)
    size = size_bytes(kind.input)
    return Space(
        (
            Axis("rows", schedules.ladder(workload.int("m"), ROWS)),
            Axis("columns", schedules.ladder(workload.int("n"), COLUMNS)),
            Axis("inner", schedules.ladder(workload.int("k"), tuple(b // size for b in INNER_BYTES))),
            *schedules.common_axes(spec),
            *_split_axes(workload, machine),
        )
    )


def _split_axes(workload: Workload, machine: Machine) -> tuple[Axis, Axis]:
    """Into how many parts sums are split, and whether only those of what does not fill a wave."""
    rows, columns = FULL_BLOCK
    blocks = workload.int("batch") * -(-workload.int("m") // rows) * -(-workload.int("n") // columns)
    waves = blocks / machine.cores
    tail = 1 < waves < MOST_TAIL_WAVES
    splits = SPLITS[:2] if tail else tuple(s for s in SPLITS if s * waves <= MOST_SPLIT_WAVES)
    fit = tuple(s for s in splits if workload.int("k") // s >= LEAST_PART)
    return Axis("split", (1, *fit)), Axis("tail", (0, 1) if fit and tail else (0,), ordered=False)


@functools.lru_cache(maxsize=16)  # asked again at once: is it legal, how long will it take, emit it
def plan(workload: Workload, machine: Machine, schedule: Schedule) -> Plan:
    """The blocks and the grid of a schedule."""
    kind = schedules.multiply_type(workload, gpu(machine))
    rows, columns, split = (schedules.number(schedule, a) for a in ("rows", "columns", "split"))
    batch, m, n = (workload.int(name) for name in ("batch", "m", "n"))
    tiles = (-(-m // rows), -(-n // columns))
    after = schedules.epilogue(workload, kind)
    if workload["bias"] == "yes":
        bias = Dim(_at(schedule)["n"] * columns, columns)
        after = replace(after, bias=lambda _: Region("bias", None, (bias,)))
    whole = _Columns(workload, schedule, 0, tiles[1])
    wasted = _wasted(workload, schedule, tiles)
    if split == 1 or wasted:
        return Plan(whole.tile("y", 1), whole.grid(tiles[0], 1), kind, after, wasted)
    first = 0
    if schedule["tail"]:
        held = 1 if schedule["place"] == "persistent" else estimate.resident(whole.tile("y", 1), kind, after, machine)
        wave, line = machine.cores * max(held, 1), tiles[0] * batch
        first = line * tiles[1] // wave * wave // line
        if first in (0, tiles[1]):
            wasted = "there is no tail, or nothing else"
    tail, full = (_Columns(workload, schedule, *ends) for ends in ((first, tiles[1]), (0, first)))
    if any(not part.fits for part in (tail, full)):
        wasted = "the groups do not fit the blocks"
    parts = Parts((split, batch, m, n - first * columns), first * columns)
    before = (full.tile("y", 1), full.grid(tiles[0], 1)) if first else None
    return Plan(tail.tile(NAME, split), tail.grid(tiles[0], split), kind, after, wasted, parts, before)


def _at(schedule: Schedule) -> dict[str, Affine]:
    """The number of a block down and across."""
    grouped = str(schedule["order"])
    other = "n" if grouped == "m" else "m"
    within = Affine.var(f"{grouped}o", schedules.number(schedule, "group")) + Affine.var(f"{grouped}i")
    return {grouped: within, other: Affine.var(other)}


@dataclass(frozen=True, slots=True)
class _Columns:
    """The blocks across from `first` to `last`."""

    workload: Workload
    schedule: Schedule
    first: int
    last: int

    @property
    def fits(self) -> bool:
        """Whether they are whole groups."""
        return self.schedule["order"] == "m" or (self.last - self.first) % schedules.number(self.schedule, "group") == 0

    def grid(self, down: int, split: int) -> tuple[tuple[str, int], ...]:
        """The grid of so many blocks down, each output `split` times."""
        tiles = {"m": down, "n": self.last - self.first}
        grouped, group = str(self.schedule["order"]), schedules.number(self.schedule, "group")
        other = "n" if grouped == "m" else "m"
        parts = (("s", split),) if split > 1 else ()
        outer = (f"{grouped}o", -(-tiles[grouped] // group))
        return (*parts, ("g", self.workload.int("batch")), outer, (other, tiles[other]), (f"{grouped}i", group))

    def tile(self, target: str, split: int) -> Tile:
        """A block, which stores to `target`: y, or the parts of it."""
        workload, schedule, at = self.workload, self.schedule, _at(self.schedule)
        rows, columns, inner, consumers, cluster = (
            schedules.number(schedule, a) for a in ("rows", "columns", "inner", "consumers", "cluster")
        )
        steps = -(-workload.int("k") // (inner * split))
        m, n, own, g = at["m"] * rows, at["n"] * columns, rows // consumers, Dim(Affine.var("g"), 1)
        k, part = Affine.var("k", inner), ()
        if split > 1:
            k, part = k + Affine.var("s", steps * inner), (Dim(Affine.var("s"), 1),)  # type: ignore[assignment]
        return Tile(
            rows=rows,
            columns=columns,
            inner=inner,
            steps=(("k", steps),),
            stages=schedules.number(schedule, "stages"),
            consumers=consumers,
            # Blocks side by side share w where rows change fastest, and x where columns do.
            multicast=(1, cluster) if schedule["order"] == "m" else (cluster, 1),
            x=Region("x", None, (g, Dim(m, rows), Dim(k, inner))),
            w=Region("w", None, (g, Dim(k, inner), Dim(n + self.first * columns, columns))),
            y=lambda at: Region(target, None, (*part, g, Dim(m + at["rows"], own), Dim(n, columns))),
            x_shape=(rows, inner),
            w_shape=(inner, columns),
            y_shape=(own, columns),
            x_rows=lambda consumer: (Dim(Affine(consumer * own), own), Dim(Affine(), inner)) if consumers > 1 else (),
        )


def _wasted(workload: Workload, schedule: Schedule, tiles: tuple[int, int]) -> str | None:
    """Why a schedule is no schedule of its own, or None."""
    rows, consumers, cluster, group, split, inner = (
        schedules.number(schedule, a) for a in ("rows", "consumers", "cluster", "group", "split", "inner")
    )
    if tiles[schedule["order"] == "n"] % group:
        return "the groups do not fit the blocks"
    if cluster > 1 and group % cluster:
        return "a cluster is larger than a group"
    if consumers > 1 and (rows % consumers or rows // consumers < 64):
        return "too few rows for the consumers"
    if consumers > 1 and workload.int("m") <= rows // consumers * (consumers - 1):
        return "a consumer has no rows"
    steps = -(-workload.int("k") // (inner * split))
    if workload.int("k") <= (split - 1) * steps * inner:
        return "a part of the sum is empty"
    if split == 1 and schedule["tail"]:
        return "nothing is split"
    stages = schedules.number(schedule, "stages")
    if stages > max(2, steps):
        return "more stages than steps"
    whole = -(-workload.int("k") // inner)
    if schedule["place"] == "persistent" and (steps % stages or (schedule["tail"] and whole % stages)):
        return "the ring does not end where it starts"
    return None


EMITTER: Emitter = ContractionEmitter("matmul", space, plan)
