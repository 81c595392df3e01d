"""add, multiply or relu on a systolic machine: one vector instruction a block."""

from __future__ import annotations

from ...space import Emitter
from ..recipes import elementwise
from .rowwise import RowEmitter

EMITTER: Emitter = RowEmitter("elementwise", elementwise)
