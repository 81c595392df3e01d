"""Layer normalisation on a systolic machine: the variance is the mean of squared distances from the mean."""

from __future__ import annotations

from ...space import Emitter
from ..recipes import layernorm
from .rowwise import RowEmitter

EMITTER: Emitter = RowEmitter("layernorm", layernorm)
