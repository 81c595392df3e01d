"""Matrix multiplication by groups, as in a mixture of experts: y[i] = x[i] @ w[expert[i // align]].

Rows are sorted by expert, and each expert's are padded to a multiple of `align`, so that a tile of `align` rows has one
expert: DeepGEMM's m-grouped contiguous layout (github.com/deepseek-ai/DeepGEMM, get_m_alignment_for_contiguous_layout)
and the expert_ids of vLLM's moe_align_block_size. Padding rows are rows like others here: they have values, and their
outputs count. Numbers, requantisation and the error bound: `contraction.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from presil.simulators.errors import BadInput
from presil.simulators.formats import size_bytes

from . import contraction, probes
from .operator import Arrays, Crop, Operator, Parameter, TensorSpec, Work, Workload, enclosing, resized
from .patterns import check_size, generator

_IDLE = 4  # one group of so many has no rows


class GroupedMatmul:
    """x [m, k], constant w [groups, k, n], expert int32 [m / align], perhaps a constant bias [n]; y [m, n]."""

    name = "grouped_matmul"
    summary = "rows by the matrix of their group, sorted and in aligned tiles, as experts have them"
    parameters = (
        Parameter(name="groups", doc="matrices", high=4096),
        Parameter(name="m", doc="rows of all groups, padding included; a multiple of align"),
        Parameter(name="n", doc="columns of the output", alike=64),
        Parameter(name="k", doc="length of the sums"),
        Parameter(name="align", doc="rows of a tile, which is of one group", default=128, high=1024),
        *contraction.PARAMETERS,
    )

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""
        contraction.validate(workload, workload.int("k"))
        m, align = workload.int("m"), workload.int("align")
        if m % align:
            raise BadInput(f"'m' is {m}; a multiple of align={align} is needed")

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        groups, m, n, k, align = (workload.int(name) for name in ("groups", "m", "n", "k", "align"))
        dtype = workload.word("dtype")
        return (
            TensorSpec("x", dtype, (m, k), "in"),
            TensorSpec("expert", "int32", (m // align,), "in"),
            TensorSpec("w", dtype, (groups, k, n), "const"),
            *contraction.bias_specs(workload, n),
            TensorSpec("y", workload.word("out"), (m, n), "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return contraction.attributes(workload, workload.int("k"))

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`. One group has half of the tiles, some have none; which is drawn."""
        specs = {spec.name: spec for spec in self.tensors(workload)}
        check_size(specs.values())
        depth, rows = workload.int("k"), specs["x"].shape[0]
        x = TensorSpec("x", specs["x"].dtype, (1, rows, depth), "in")
        if pattern == "marker":  # each tile has all rows of the probes
            plan = probes.plan(workload, depth, rows=workload.int("align"), columns=workload.int("n"))
            values = probes.x_probes(plan, x, depth, seed)
            w = probes.w_probes(plan, (workload.int("groups"), depth, workload.int("n")), specs["w"], seed)
        else:
            values = probes.operand(workload, x, depth, seed, pattern, corner=(slice(None), 0))
            corner = (slice(None), slice(None), 0)
            w = probes.operand(workload, specs["w"], depth, seed, pattern, corner=corner)
        found = {"x": values[0], "expert": _experts(workload, generator(seed, pattern, "expert")), "w": w}
        if "bias" in specs:
            found["bias"] = contraction.bias_values(workload, specs["bias"], depth, seed, pattern)
        return found

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        total = _by_group(workload, inputs, contraction.product)
        return {"y": contraction.finish(workload, workload.int("k"), total, inputs)}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`, and the derivation in `contraction.py`."""
        if workload["dtype"] == "int8":
            return {"y": np.zeros(self.tensors(workload)[-1].shape)}
        reference = self.reference(workload, inputs)["y"] if workload["out"] != "fp32" else None
        magnitude = _by_group(workload, inputs, contraction.magnitude_product)
        return {"y": contraction.float_bound(workload, workload.int("k"), magnitude, inputs, reference)}

    def crop(self, workload: Workload, inputs: Arrays, stored: np.ndarray) -> Crop:
        """The tiles and columns that enclose what is stored; sums stay whole, and all groups are there."""
        align = workload.int("align")
        rows, columns = (enclosing(stored, axis) for axis in range(2))
        tiles = slice(rows.start // align, -(-rows.stop // align))
        rows = slice(tiles.start * align, tiles.stop * align)
        part = {"x": inputs["x"][rows], "expert": inputs["expert"][tiles], "w": inputs["w"][:, :, columns]}
        if "bias" in inputs:
            part["bias"] = inputs["bias"][columns]
        smaller = resized(workload, m=rows.stop - rows.start, n=columns.stop - columns.start)
        return Crop(smaller, part, (rows, columns))

    def work(self, workload: Workload) -> Work:
        """The multiply-adds are m * n * k; every tensor moves once, but all rows may be of one group."""
        specs = self.tensors(workload)
        moved = {spec.name: spec.size_bytes for spec in specs}
        moved["w"] = workload.int("k") * workload.int("n") * size_bytes(workload.word("dtype"))
        return Work(
            multiply_adds=specs[-1].elements * workload.int("k"),
            vector_operations=contraction.vector_operations(workload, specs[-1].elements),
            tensor_bytes=moved,
        )


def _experts(workload: Workload, rng: np.random.Generator) -> np.ndarray:
    """The group of each tile, in order: one large, every fourth idle, the others by chance."""
    groups, tiles = workload.int("groups"), workload.int("m") // workload.int("align")
    order = rng.permutation(groups)
    large, others = order[:1], order[1 : groups - groups // _IDLE]
    rest = rng.choice(others if len(others) else large, tiles // 2)
    found: np.ndarray = np.sort(np.concatenate([np.repeat(large, tiles - tiles // 2), rest])).astype(np.int32)
    return found


def _by_group(
    workload: Workload, inputs: Arrays, product: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Sums of products [m, n]: one `product` for each group that has rows."""
    of_row = np.repeat(inputs["expert"], workload.int("align"))
    total = np.empty((workload.int("m"), workload.int("n")))
    for group in np.unique(of_row).tolist():
        total[of_row == group] = product(inputs["x"][of_row == group], inputs["w"][group])
    return total


OPERATOR: Operator = GroupedMatmul()
