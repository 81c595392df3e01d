"""Sum or maximum of each row on a GPU."""

from __future__ import annotations

from ...space import Emitter
from ..recipes import reduction
from .rowwise import RowEmitter

EMITTER: Emitter = RowEmitter("reduction", reduction)
