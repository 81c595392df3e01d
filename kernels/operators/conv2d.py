"""Two-dimensional convolution (as networks mean it: no flipping of the filter), then bias and activation.

y[i, p, q, f] = sum over (a, b, c) of x[i, p * stride + a * dilation - padding, q * stride + b * dilation - padding, c]
* w[a, b, c, f], where x is 0 outside of the image. With groups, output channels come in that many equal runs, and each
sees its own run of input channels. Numbers, requantisation and the error bound: `contraction.py`, with the depth
r * s * c / groups (taps on padding included: they add exact zeros).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from presil.simulators.errors import BadInput

from . import contraction, probes
from .operator import Arrays, Crop, Operator, Parameter, TensorSpec, Work, Workload, enclosing, resized
from .patterns import check_size

_SIZES = ("n", "h", "w", "c", "f", "r", "s", "stride", "padding", "dilation", "groups")

PARAMETERS = (
    Parameter(name="n", doc="images", alike=1),
    Parameter(name="h", doc="rows of an image"),
    Parameter(name="w", doc="columns of an image"),
    Parameter(name="c", doc="channels of an image"),
    Parameter(name="f", doc="filters: channels of the output"),
    Parameter(name="r", doc="rows of a filter", default=1, high=1 << 10),
    Parameter(name="s", doc="columns of a filter", default=1, high=1 << 10),
    Parameter(name="stride", doc="of the outputs, both ways", default=1, high=1 << 10),
    Parameter(name="padding", doc="zeros on every side", default=0, low=0, high=1 << 10),
    Parameter(name="dilation", doc="distance of the taps, both ways", default=1, high=1 << 10),
    Parameter(name="groups", doc="runs of channels that do not mix", default=1),
)


class Conv2d:
    """x [n, h, w, c], constant w [r, s, c/groups, f], perhaps a constant bias [f]; y [n, oh, ow, f]."""

    name = "conv2d"
    summary = "two-dimensional convolution, with bias and activation behind it"
    parameters = (*PARAMETERS, *contraction.PARAMETERS)

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""
        check_geometry(workload)
        contraction.validate(workload, depth(workload))

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        n, h, w, c, f, r, s, *_, groups = (workload.int(name) for name in _SIZES)
        oh, ow = output_size(workload)
        dtype = workload.word("dtype")
        return (
            TensorSpec("x", dtype, (n, h, w, c), "in"),
            TensorSpec("w", dtype, (r, s, c // groups, f), "const"),
            *contraction.bias_specs(workload, f),
            TensorSpec("y", workload.word("out"), (n, oh, ow, f), "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return contraction.attributes(workload, depth(workload))

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`. Windows overlap, so the probes of a sum all lie in the weights."""
        specs = self.tensors(workload)
        check_size(specs)
        x, w, *bias, _ = specs
        length, groups, filters = depth(workload), workload.int("groups"), workload.int("f")
        if pattern == "marker":
            plan = probes.plan(workload, length, rows=1, columns=filters // groups)
            weights = probes.w_probes(plan, (groups, length, filters // groups), w, seed)
            values = {
                "x": probes.x_probes(plan, x, length, seed),
                "w": np.ascontiguousarray(weights.swapaxes(0, 1)).reshape(w.shape),
            }
        else:
            values = {
                "x": probes.operand(workload, x, length, seed, pattern, corner=(0, slice(0, x.shape[1] // 2))),
                "w": probes.operand(
                    workload, w, length, seed, pattern, corner=(slice(None), slice(None), slice(None), 0)
                ),
            }
        for spec in bias:
            values[spec.name] = contraction.bias_values(workload, spec, length, seed, pattern)
        return values

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`."""
        total = convolve(workload, inputs, contraction.product)
        return {"y": contraction.finish(workload, depth(workload), total, inputs)}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`, and the derivation in `contraction.py`."""
        if workload["dtype"] == "int8":
            return {"y": np.zeros(self.tensors(workload)[-1].shape)}
        reference = self.reference(workload, inputs)["y"] if workload["out"] != "fp32" else None
        magnitude = convolve(workload, inputs, contraction.magnitude_product)
        return {"y": contraction.float_bound(workload, depth(workload), magnitude, inputs, reference)}

    def crop(self, workload: Workload, inputs: Arrays, stored: np.ndarray) -> Crop:
        """The images that enclose what is stored, and its filters unless they are in groups."""
        images = enclosing(stored, 0)
        filters = enclosing(stored, 3) if workload.int("groups") == 1 else slice(0, workload.int("f"))
        part = {"x": inputs["x"][images], "w": inputs["w"][..., filters]}
        if "bias" in inputs:
            part["bias"] = inputs["bias"][filters]
        smaller = resized(workload, n=images.stop - images.start, f=filters.stop - filters.start)
        return Crop(smaller, part, (images, slice(None), slice(None), filters))

    def work(self, workload: Workload) -> Work:
        """A multiply-add per output and tap: n * oh * ow * f * r * s * c / groups, as published counts have it.

        Those that only meet padding are told apart, and so are pixels and taps that meet nothing: they need not move
        (three of four pixels of a 1x1 convolution with stride 2).
        """
        specs = self.tensors(workload)
        return least_work(workload, specs, contraction.vector_operations(workload, specs[-1].elements))


def check_geometry(workload: Workload) -> None:
    """Raises BadInput where channels do not go into groups, or the filter is larger than the padded image."""
    groups, padding, dilation = (workload.int(name) for name in ("groups", "padding", "dilation"))
    for name in ("c", "f"):
        if workload.int(name) % groups:
            raise BadInput(f"'{name}' is {workload[name]}; a multiple of groups={groups} is needed")
    for image, taps in (("h", "r"), ("w", "s")):
        reach, padded = dilation * (workload.int(taps) - 1) + 1, workload.int(image) + 2 * padding
        if reach > padded:
            raise BadInput(
                f"'{taps}' is {workload[taps]}, which reaches over {reach}; '{image}' with padding is {padded}"
            )


def least_work(workload: Workload, specs: Sequence[TensorSpec], vector_operations: int) -> Work:
    """What a convolution of `specs` (with x, w and last the output among them) must do and move: see `Conv2d.work`."""
    outputs = specs[-1].elements
    n, h, w, c, f, r, s, stride, padding, dilation, groups = (workload.int(name) for name in _SIZES)
    oh, ow = output_size(workload)
    pairs_h, rows, taps_h = _meetings(h, oh, r, stride=stride, padding=padding, dilation=dilation)
    pairs_w, columns, taps_w = _meetings(w, ow, s, stride=stride, padding=padding, dilation=dilation)
    moved = {spec.name: spec.size_bytes for spec in specs}
    moved["x"] = moved["x"] // (h * w) * (rows * columns)
    moved["w"] = moved["w"] // (r * s) * (taps_h * taps_w)
    all_taps = outputs * depth(workload)
    return Work(
        multiply_adds=all_taps,
        padding_multiply_adds=all_taps - n * f * (c // groups) * pairs_h * pairs_w,
        vector_operations=vector_operations,
        tensor_bytes=moved,
    )


def depth(workload: Workload) -> int:
    """Products per output."""
    return workload.int("r") * workload.int("s") * workload.int("c") // workload.int("groups")


def output_size(workload: Workload) -> tuple[int, int]:
    """(oh, ow): rows and columns of an output image."""
    stride, padding, dilation = (workload.int(name) for name in ("stride", "padding", "dilation"))
    oh, ow = (
        (workload.int(image) + 2 * padding - dilation * (workload.int(taps) - 1) - 1) // stride + 1
        for image, taps in (("h", "r"), ("w", "s"))
    )
    return oh, ow


def _meetings(size: int, outputs: int, taps: int, *, stride: int, padding: int, dilation: int) -> tuple[int, int, int]:
    """Along one direction: (output, tap) pairs on the image, image positions met, and taps that meet the image."""
    met = np.zeros(size, np.bool_)
    pairs = useful = 0
    for tap in range(taps):
        first = tap * dilation - padding  # where output 0 meets this tap
        start = max(0, -(first // stride))
        stop = min(outputs, (size - 1 - first) // stride + 1)
        if start < stop:
            met[first + start * stride : first + (stop - 1) * stride + 1 : stride] = True
            pairs += stop - start
            useful += 1
    return pairs, int(met.sum()), useful


def convolve(workload: Workload, inputs: Arrays, product: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """Sums of products [n, oh, ow, f], in float64: one `product` over taps and channels for each row of the filter."""
    n, _, _, c, f, r, s, stride, padding, dilation, groups = (workload.int(name) for name in _SIZES)
    oh, ow = output_size(workload)
    edge = (padding, padding)
    image = np.pad(inputs["x"], ((0, 0), edge, edge, (0, 0)))
    reach = (dilation * (r - 1) + 1, dilation * (s - 1) + 1)
    windows = np.lib.stride_tricks.sliding_window_view(image, reach, axis=(1, 2))
    windows = windows[:, ::stride, ::stride, :, ::dilation, ::dilation]  # [n, oh, ow, c, r, s]
    total = np.zeros((groups, n * oh * ow, f // groups))
    for tap in range(r):
        seen = windows[..., tap, :].reshape(n * oh * ow, groups, c // groups * s)
        weights = inputs["w"][tap].reshape(s, c // groups, groups, f // groups).transpose(2, 1, 0, 3)
        total += product(seen.swapaxes(0, 1), weights.reshape(groups, c // groups * s, f // groups))
    return total.swapaxes(0, 1).reshape(n, oh, ow, f)


OPERATOR: Operator = Conv2d()
