"""Root-mean-square normalisation on a GPU."""

from __future__ import annotations

from ...space import Emitter
from ..recipes import rmsnorm
from .rowwise import RowEmitter

EMITTER: Emitter = RowEmitter("rmsnorm", rmsnorm)
