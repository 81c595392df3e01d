"""Quantised two-dimensional convolution: as `conv2d.py`, of x - x_zero and w - w_zero[f], then bias, rescaling, clamp.

x is x_zero outside of the image. With groups = c the convolution is depthwise; f may then be a multiple of c, as
TFLite's DEPTHWISE_CONV_2D has it. Definition and inputs: `requantisation.py`, `quantised_inputs.py`. Every output is
exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from . import contraction, conv2d, quantised_inputs, requantisation
from .operator import Arrays, Crop, Operator, TensorSpec, Work, Workload, enclosing, resized


class QConv2d:
    """x [n, h, w, c], constant w [r, s, c/groups, f] (int4: packed [r, s, c/groups/2, f]), constants [f] of each
    channel; y [n, oh, ow, f].
    """

    name = "qconv2d"
    summary = "two-dimensional convolution of quantised numbers, rescaled channel by channel"
    parameters = (*conv2d.PARAMETERS, *requantisation.PARAMETERS)

    def validate(self, workload: Workload) -> None:
        """See `Operator`."""
        conv2d.check_geometry(workload)
        inner = workload.int("c") // workload.int("groups")
        requantisation.validate(workload, conv2d.depth(workload), inner)

    def tensors(self, workload: Workload) -> tuple[TensorSpec, ...]:
        """See `Operator`."""
        n, h, w, c, f = (workload.int(name) for name in ("n", "h", "w", "c", "f"))
        oh, ow = conv2d.output_size(workload)
        return (
            TensorSpec("x", workload.word("dtype"), (n, h, w, c), "in"),
            requantisation.weight_spec(workload, _filter_shape(workload)),
            *requantisation.constant_specs(workload, f),
            TensorSpec("y", workload.word("out"), (n, oh, ow, f), "out"),
        )

    def attributes(self, workload: Workload) -> Mapping[str, int]:
        """See `Operator`."""
        return requantisation.attributes(workload)

    def inputs(self, workload: Workload, seed: int, pattern: str) -> dict[str, np.ndarray]:
        """See `Operator`. Windows overlap, so the probes of a sum all lie in the weights."""
        sums = quantised_inputs.Sums(
            shape=_filter_shape(workload),
            depth=conv2d.depth(workload),
            channels=workload.int("f"),
            groups=workload.int("groups"),
        )
        return quantised_inputs.draw(workload, self.tensors(workload), sums, seed, pattern)

    def reference(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """See `Operator`. Less x_zero, padding is 0."""
        total = conv2d.convolve(workload, requantisation.centred(workload, inputs), contraction.product)
        return {"y": requantisation.finish(workload, total, inputs)}

    def error_bound(self, workload: Workload, inputs: Arrays) -> dict[str, np.ndarray]:
        """Zeros: every output is exact."""
        return {"y": np.zeros(self.tensors(workload)[-1].shape)}

    def crop(self, workload: Workload, inputs: Arrays, stored: np.ndarray) -> Crop:
        """The images that enclose what is stored, and its filters unless they are in groups."""
        images = enclosing(stored, 0)
        filters = enclosing(stored, 3) if workload.int("groups") == 1 else slice(0, workload.int("f"))
        part = {name: values[..., filters] for name, values in inputs.items() if name != "x"}
        smaller = resized(workload, n=images.stop - images.start, f=filters.stop - filters.start)
        return Crop(smaller, {"x": inputs["x"][images], **part}, (images, slice(None), slice(None), filters))

    def work(self, workload: Workload) -> Work:
        """As `conv2d.Conv2d.work`; one vector operation for each output that is rescaled."""
        specs = self.tensors(workload)
        return conv2d.least_work(workload, specs, requantisation.vector_operations(workload, specs[-1].elements))


def _filter_shape(workload: Workload) -> tuple[int, int, int, int]:
    r, s, c, f, groups = (workload.int(name) for name in ("r", "s", "c", "f", "groups"))
    return r, s, c // groups, f


OPERATOR: Operator = QConv2d()
