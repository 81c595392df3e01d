"""Sum or maximum of each row on a systolic machine, block by block of columns."""

from __future__ import annotations

from ...space import Emitter
from ..recipes import reduction
from .rowwise import RowEmitter

EMITTER: Emitter = RowEmitter("reduction", reduction)
