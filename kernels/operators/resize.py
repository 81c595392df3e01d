"""Resizing of quantised images: the nearest pixel, or bilinear interpolation in fixed point as TensorFlow Lite has it.

Output row i lies at a place of the input, along each direction on its own, by `grid`:

    half_pixel  (i + 1/2) * in / out - 1/2      align_corners  i * (in - 1) / (out - 1)      asymmetric  i * in / out

nearest: of half_pixel floor((i + 1/2) * in / out), of align_corners the place rounded, halves up, of asymmetric the
place rounded down, all exact (TFLite computes the place in fp32, and may differ where that is off by a pixel), at most
in - 1.
bilinear (`ResizeBilinearInteger`): the step in / out, or (in - 1) / (out - 1), is rounded to 10 fractional bits,
halves up; a place is p = i * step, and for half_pixel step / 2 (rounded down) - 512 more. The first pixel is
a = max(p // 1024, 0), the second b = min(max(p + 1023, 0) // 1024, in - 1); a weighs 1024 - (p - 1024 a), b weighs
p - 1024 a. The sum of the four products of weights and pixels, over 2**20, is rounded to nearest, halves away from 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from presil.simulators.errors import BadInput
from presil.simulators.formats import DTYPES

from .operator import Arrays, Crop, Operator, Parameter, TensorSpec, Work, Workload, enclosing, resized
from .patterns import check_size, chosen, generator, whole
from .quantisation import LIMITS

_BITS = 10
_ONE = 1 << _BITS
_MOST_SIZE = 1 << 14  # places with 10 fractional bits stay within int32


class Resize:
    """x [n, h, w, c]; y [n, oh, ow, c], of one dtype."""

    name = "resize"
    summary = "an image at another size: nearest pixel or bilinear"
    parameters = (
        Parameter(name="kind", doc="what is computed", words=("nearest", "bilinear")),
        Parameter(name="n", doc="images", alike=1),
        Parameter(name="h", doc="rows of an image", high=_MOST_SIZE),
        Parameter(name="w", doc="columns of an image", high=_MOST_SIZE),
        Parameter(name="c", doc="channels", alike=64),
        Parameter(name="oh", doc="rows of an output image", high=_MOST_SIZE),
        Parameter(name="ow", doc="columns of an output image", high=_MOST_SIZE),
        Parameter(
            name="grid",
            doc="where outputs lie",
            default="half_pixel",
            words=("half_pixel", "align_corners", "asymmetric"),
        ),
        Parameter(name="dtype", doc="of both tensors", default="int8", words=("int8", "uint8"), always=True),
    )

    def validate(self, workload: Workload) -> None:
        """See `Operator`. TFLite interpolates uint8 in floating point: no rule in integers to follow."""
        if workload["kind"] == "bilinear" and workload["dtype"] != "int8":
            raise BadInput(f"'dtype' is '{workload['dtype']}'; kind=bilinear is defined for int8")

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        n, h, w, c, oh, ow = (workload.int(name) for name in ("n", "h", "w", "c", "oh", "ow"))
        dtype = workload.word("dtype")
        return (TensorSpec("x", dtype, (n, h, w, c), "in"), TensorSpec("y", dtype, (n, oh, ow, c), "out"))

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return {}

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`. `marker`: neighbours differ along every axis; `integers`: small ones, often halfway."""
        specs = self.tensors(workload)
        check_size(specs)
        x, rng = specs[0], generator(seed, pattern, "x")
        low, high = LIMITS[x.dtype]
        if pattern == "random":
            return {"x": whole(rng, low, high, x)}
        if pattern == "extremes":
            return {"x": chosen(rng, (low, low + 1, high), x)}
        if pattern == "integers":
            return {"x": whole(rng, max(low, -3), 3, x)}
        n, h, w, c = np.indices(x.shape, sparse=True)
        code = (n + 59 * h + 83 * w + 97 * c + seed) % 241
        return {"x": (low + 7 + code).astype(DTYPES[x.dtype])}

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        x = inputs["x"].astype(np.int64)
        rows, columns = (_axis(workload, image, out) for image, out in (("h", "oh"), ("w", "ow")))
        if workload["kind"] == "nearest":
            return {"y": x[:, rows[0]][:, :, columns[0]]}
        above, below, lower = (values.reshape(-1, 1, 1) if i == 2 else values for i, values in enumerate(rows))
        left, right, inner = (values.reshape(-1, 1) if i == 2 else values for i, values in enumerate(columns))
        total = np.zeros((), np.int64)
        for row, of_row in ((above, _ONE - lower), (below, lower)):
            for column, of_column in ((left, _ONE - inner), (right, inner)):
                total = total + x[:, row][:, :, column] * of_row * of_column
        half = _ONE * _ONE // 2
        return {"y": np.sign(total) * ((np.abs(total) + half) >> 2 * _BITS)}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """Zeros: every output is exact."""
        return {"y": np.zeros(self.tensors(workload)[-1].shape)}

    def crop(self, workload: Workload, inputs: Arrays, stored: np.ndarray) -> Crop:
        """The images and channels that enclose what is stored."""
        images, channels = enclosing(stored, 0), enclosing(stored, 3)
        smaller = resized(workload, n=images.stop - images.start, c=channels.stop - channels.start)
        return Crop(smaller, {"x": inputs["x"][images, ..., channels]}, (images, slice(None), slice(None), channels))

    def work(self, workload: Workload) -> Work:
        """One vector operation for each output that is interpolated; pixels that none is made from need not move."""
        x, y = self.tensors(workload)
        moved = x.size_bytes // (x.shape[1] * x.shape[2])
        for image, out in (("h", "oh"), ("w", "ow")):
            first, second, weight = _axis(workload, image, out)
            moved *= len(np.unique(np.concatenate([first[weight != _ONE], second[weight != 0]])))
        return Work(
            multiply_adds=0,
            vector_operations=y.elements if workload["kind"] == "bilinear" else 0,
            tensor_bytes={"x": moved, "y": y.size_bytes},
        )


def _axis(workload: Workload, image: str, out: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each output along a direction: its first pixel, its second, and the weight of the second, of 1024."""
    size, outputs, grid = workload.int(image), workload.int(out), workload["grid"]
    i = np.arange(outputs, dtype=np.int64)
    corners = grid == "align_corners" and outputs > 1
    over, under = (size - 1, outputs - 1) if corners else (size, outputs)
    if workload["kind"] == "nearest":
        if grid == "half_pixel":
            place = (2 * i + 1) * over // (2 * under)
        else:
            place = (2 * i * over + under * (grid == "align_corners")) // (2 * under)
        nearest = np.minimum(place, size - 1)
        return nearest, nearest, np.zeros_like(i)
    step = (over * _ONE + under // 2) // under
    place = i * step
    if grid == "half_pixel":
        place += step // 2 - _ONE // 2
    first = np.maximum(place >> _BITS, 0)
    second = np.minimum(np.maximum(place + _ONE - 1, 0) >> _BITS, size - 1)
    return first, second, place - _ONE * first


OPERATOR: Operator = Resize()
