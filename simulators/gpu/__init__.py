"""GPUs: streaming multiprocessors with tensor cores, asynchronous copies, L2 and HBM, as in A100, H100 and H200."""

from .isa import FAMILY

__all__ = ["FAMILY"]
