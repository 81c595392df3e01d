"""Number formats: the names used in programs and the numpy types that hold them."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np

DTYPES: Mapping[str, np.dtype] = {
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),  # two int4 numbers as well, packed: the even place in the low nibble
    "int16": np.dtype(np.int16),
    "int32": np.dtype(np.int32),
    "fp8": np.dtype(ml_dtypes.float8_e4m3fn),  # OCP FP8 E4M3: no infinities, largest 448
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp16": np.dtype(np.float16),
    "fp32": np.dtype(np.float32),
}


def size_bytes(dtype: str) -> int:
    """Bytes of one element."""
    return DTYPES[dtype].itemsize
