"""Two-dimensional pooling of quantised numbers: the maximum or the average of each window, channel by channel.

A window of r x s pixels starts at p * stride - padding; what lies outside of the image is left out of it. The average
is that of TensorFlow Lite (`reference_integer_ops::AveragePool`): the sum over the count of pixels inside, rounded to
nearest, halves away from zero. Input and output share scale and zero point, so neither takes part, and the average of
stored numbers is rounded, not that of real ones. Padding is less than the window, so that no window is empty.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from presil.simulators.errors import BadInput
from presil.simulators.formats import DTYPES

from .operator import Arrays, Crop, Operator, Parameter, TensorSpec, Work, Workload, enclosing, resized
from .patterns import check_size, chosen, generator, whole
from .quantisation import LIMITS


class Pool2d:
    """x [n, h, w, c]; y [n, oh, ow, c], of one dtype."""

    name = "pool2d"
    summary = "maximum or average of each window of an image"
    parameters = (
        Parameter(name="kind", doc="what is computed", words=("max", "average")),
        Parameter(name="n", doc="images", alike=1),
        Parameter(name="h", doc="rows of an image"),
        Parameter(name="w", doc="columns of an image"),
        Parameter(name="c", doc="channels", alike=64),
        Parameter(name="r", doc="rows of a window", high=1 << 12),
        Parameter(name="s", doc="columns of a window", high=1 << 12),
        Parameter(name="stride", doc="of the windows, both ways", default=1, high=1 << 10),
        Parameter(name="padding", doc="pixels beside the image, left out", default=0, low=0, high=1 << 10),
        Parameter(name="dtype", doc="of both tensors", default="int8", words=("int8", "uint8", "int16"), always=True),
    )

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""
        padding = workload.int("padding")
        for image, window in (("h", "r"), ("w", "s")):
            size, reach = workload.int(image), workload.int(window)
            if reach > size + 2 * padding:
                raise BadInput(f"'{window}' is {reach}; '{image}' with padding is {size + 2 * padding}")
            if padding >= reach:
                raise BadInput(f"'padding' is {padding}; less than {window}={reach} is needed: no window is empty")

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        n, h, w, c = (workload.int(name) for name in ("n", "h", "w", "c"))
        dtype = workload.word("dtype")
        return (
            TensorSpec("x", dtype, (n, h, w, c), "in"),
            TensorSpec("y", dtype, (n, *_output_size(workload), c), "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return {}

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`. `marker`: about one pixel of a window stands out; `integers`: averages that are halves."""
        specs = self.tensors(workload)
        check_size(specs)
        x, rng = specs[0], generator(seed, pattern, "x")
        low, high = LIMITS[x.dtype]
        if pattern == "random":
            return {"x": whole(rng, low, high, x)}
        if pattern == "extremes":
            values = chosen(rng, (low, low + 1, high), x)
            values[0, : -(-x.shape[1] // 2)] = low  # a maximum that starts from 0 is wrong
            return {"x": values}
        if pattern == "integers":
            return {"x": whole(rng, max(low, -3), 3, x)}
        reach = (high - low) // 4
        stands_out = rng.random(x.shape, np.float32) < 1 / (workload.int("r") * workload.int("s"))
        near = rng.integers(0, reach, x.shape, np.int32, endpoint=True)
        return {"x": np.where(stands_out, high - near, low + near).astype(DTYPES[x.dtype])}

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        x = inputs["x"].astype(np.int64)
        if workload["kind"] == "max":
            return {"y": _over_windows(workload, x, LIMITS[workload.word("dtype")][0], np.maximum)}
        total = _over_windows(workload, x, 0, np.add)
        count = _over_windows(workload, np.ones((1, *x.shape[1:3], 1), np.int64), 0, np.add)
        return {"y": np.sign(total) * ((np.abs(total) + count // 2) // count)}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """Zeros: every output is exact."""
        return {"y": np.zeros(self.tensors(workload)[-1].shape)}

    def crop(self, workload: Workload, inputs: Arrays, stored: np.ndarray) -> Crop:
        """The images and channels that enclose what is stored."""
        images, channels = enclosing(stored, 0), enclosing(stored, 3)
        smaller = resized(workload, n=images.stop - images.start, c=channels.stop - channels.start)
        return Crop(smaller, {"x": inputs["x"][images, ..., channels]}, (images, slice(None), slice(None), channels))

    def work(self, workload: Workload) -> Work:
        """One vector operation for each pixel that some window sees; the others need not move.

        Windows that overlap can share partial results, so no more is sure.
        """
        x, y = self.tensors(workload)
        n, h, w, c = x.shape
        seen = _over_pixels(workload)
        return Work(
            multiply_adds=0,
            vector_operations=n * c * seen,
            tensor_bytes={"x": x.size_bytes // (h * w) * seen, "y": y.size_bytes},
        )


def _output_size(workload: Workload) -> tuple[int, int]:
    stride, padding = workload.int("stride"), workload.int("padding")
    oh, ow = (
        (workload.int(image) + 2 * padding - workload.int(window)) // stride + 1
        for image, window in (("h", "r"), ("w", "s"))
    )
    return oh, ow


def _over_windows(workload: Workload, x: np.ndarray, outside: int, join: np.ufunc) -> np.ndarray:
    """`join` over the pixels of each window, [n, oh, ow, c]; `outside` is what changes nothing."""
    stride, padding = workload.int("stride"), workload.int("padding")
    oh, ow = _output_size(workload)
    image = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)), constant_values=outside)
    for axis, (outputs, window) in enumerate(((oh, "r"), (ow, "s")), start=1):
        runs = [
            np.take(image, np.arange(tap, tap + (outputs - 1) * stride + 1, stride), axis)
            for tap in range(workload.int(window))
        ]
        image = join.reduce(np.stack(runs), axis=0)
    return image


def _over_pixels(workload: Workload) -> int:
    """The pixels of an image that some window sees."""
    stride, padding = workload.int("stride"), workload.int("padding")
    seen = 1
    for outputs, image, window in zip(_output_size(workload), ("h", "w"), ("r", "s"), strict=True):
        first = np.arange(outputs)[:, None] * stride - padding
        places = np.unique(first + np.arange(workload.int(window)))
        seen *= int(((places >= 0) & (places < workload.int(image))).sum())
    return seen


OPERATOR: Operator = Pool2d()
