"""The quantised operators of the ONNX standard on arrays in ONNX's own layouts, each rounding in a stated precision.

QuantizeLinear (opset 10 to 21): saturate(round(x / y_scale) + y_zero_point), the quotient in fp32, rounded to nearest,
halves to even. DequantizeLinear: (x - x_zero_point) * x_scale, the difference exact, the product rounded to fp32.
DynamicQuantizeLinear (opset 11): the scale of uint8 from the range of x, 0 included, all in fp32. MatMulInteger,
ConvInteger: exact in int32, which wraps. QLinearMatMul and QLinearConv: those sums, with an int32 bias of scale x_scale
* w_scale, times x_scale * w_scale / y_scale (both operations rounded to fp32), as `quantisation.scaled_by_fp32` says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from presil.simulators.errors import BadInput

from .quantisation import saturated, scaled_by_fp32


@dataclass(frozen=True, slots=True)
class Quantised:
    """Stored numbers with their scale (fp32) and zero point (in their format), each [] or [channels]."""

    values: np.ndarray
    scale: np.ndarray
    zero: np.ndarray


def quantize_linear(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int = 1) -> np.ndarray:
    """QuantizeLinear: x in the format of `zero`, by one scale (shape []) or one along `axis`. Raises BadInput."""
    scale, offset = _along(x, scale, axis), _along(x, zero, axis).astype(np.int64)
    quotient = np.clip(np.rint(x.astype(np.float32) / scale.astype(np.float32)), -(2.0**40), 2.0**40)
    return saturated(quotient.astype(np.int64) + offset, zero.dtype.name).astype(zero.dtype)


def dequantize_linear(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, axis: int = 1) -> np.ndarray:
    """DequantizeLinear: float32 in the shape of x, by one scale (shape []) or one along `axis`. Raises BadInput."""
    difference = x.astype(np.int64) - _along(x, zero, axis).astype(np.int64)
    real: np.ndarray = difference.astype(np.float32) * _along(x, scale, axis).astype(np.float32)
    return real


def dynamic_quantize_linear(x: np.ndarray) -> tuple[np.ndarray, np.float32, np.uint8]:
    """DynamicQuantizeLinear: (y uint8, y_scale, y_zero_point) of float32 x."""
    low, high = np.minimum(x.min(), np.float32(0)), np.maximum(x.max(), np.float32(0))
    scale = np.float32((high - low) / np.float32(255)) if high > low else np.float32(1) / np.float32(255)
    zero = np.uint8(np.rint(np.clip(-low / scale, np.float32(0), np.float32(255))))
    return quantize_linear(x, np.array(scale), np.array(zero)), scale, zero


def matmul_integer(a: np.ndarray, b: np.ndarray, a_zero: np.ndarray, b_zero: np.ndarray) -> np.ndarray:
    """MatMulInteger: int32 [.., m, n] of a [.., m, k], b [.., k, n]; `a_zero` [] or [m], `b_zero` [] or [n]."""
    rows = a_zero[:, None] if a_zero.ndim else a_zero
    total: np.ndarray = np.matmul(a.astype(np.int64) - rows, b.astype(np.int64) - b_zero).astype(np.int32)
    return total


def conv_integer(
    x: np.ndarray,
    w: np.ndarray,
    x_zero: np.ndarray,
    w_zero: np.ndarray,
    *,
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    group: int = 1,
) -> np.ndarray:
    """ConvInteger: int32 [n, f, oh, ow] of x [n, c, h, w] and w [f, c/group, r, s]; `w_zero` [] or [f].

    `pads`: top, left, bottom, right; padded with the zero point of x.
    """
    top, left, bottom, right = pads
    image = np.pad(x.astype(np.int64) - x_zero, ((0, 0), (0, 0), (top, bottom), (left, right)))
    weights: np.ndarray = w.astype(np.int64) - (w_zero.reshape(-1, 1, 1, 1) if w_zero.ndim else w_zero)
    filters, channels, *taps = weights.shape
    reach = tuple(dilation * (tap - 1) + 1 for dilation, tap in zip(dilations, taps, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(image, reach, axis=(2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]  # [n, c, oh, ow, r, s]
    n, _, oh, ow, *_ = windows.shape
    by_group = windows.reshape(n, group, channels, oh, ow, *taps)
    split = weights.reshape(group, filters // group, channels, *taps)
    total: np.ndarray = np.einsum("ngchwrs,gfcrs->ngfhw", by_group, split).astype(np.int32)
    return total.reshape(n, filters, oh, ow)


def qlinear_matmul(a: Quantised, b: Quantised, y_scale: np.ndarray, y_zero: np.ndarray) -> np.ndarray:
    """QLinearMatMul: [.., m, n] in the format of `y_zero`; scales and zero points of a and y: [], of b: [] or [n]."""
    total = matmul_integer(a.values, b.values, a.zero, b.zero)
    return _stored(total, _scale(a.scale, b.scale, y_scale), y_zero)


def qlinear_conv(
    x: Quantised,
    w: Quantised,
    y_scale: np.ndarray,
    y_zero: np.ndarray,
    bias: np.ndarray | None = None,
    *,
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
    group: int = 1,
) -> np.ndarray:
    """QLinearConv: [n, f, oh, ow] in the format of `y_zero`; scale and zero point of w [] or [f], `bias` int32 [f]."""
    total = conv_integer(
        x.values, w.values, x.zero, w.zero, pads=pads, strides=strides, dilations=dilations, group=group
    )
    if bias is not None:
        total = total + bias.reshape(-1, 1, 1)
    of_w = w.scale.reshape(-1, 1, 1) if w.scale.ndim else w.scale
    return _stored(total, _scale(x.scale, of_w, y_scale), y_zero)


def _scale(x_scale: np.ndarray, w_scale: np.ndarray, y_scale: np.ndarray) -> np.ndarray:
    scale: np.ndarray = x_scale.astype(np.float32) * w_scale.astype(np.float32) / y_scale.astype(np.float32)
    return scale


def _stored(total: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    return saturated(scaled_by_fp32(total, scale) + zero.astype(np.int64), zero.dtype.name).astype(zero.dtype)


def _along(x: np.ndarray, values: np.ndarray, axis: int) -> np.ndarray:
    """`values` in a shape that broadcasts to x: as they are, or along `axis`."""
    if values.ndim == 0:
        return values
    if values.shape != (x.shape[axis],):
        raise BadInput(f"scales or zero points of shape {values.shape}; for axis {axis} of {x.shape}: [] or one each")
    shape = [1] * x.ndim
    shape[axis] = -1
    return values.reshape(shape)
