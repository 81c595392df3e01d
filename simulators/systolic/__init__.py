"""Weight- and output-stationary arrays, as in the TPU and Gemmini."""

from .isa import FAMILY

__all__ = ["FAMILY"]
