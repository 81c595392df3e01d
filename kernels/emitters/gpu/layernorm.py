"""Layer normalisation on a GPU."""

from __future__ import annotations

from ...space import Emitter
from ..recipes import layernorm
from .rowwise import RowEmitter

EMITTER: Emitter = RowEmitter("layernorm", layernorm)
