"""Softmax on a systolic machine: subtract the maximum, exp, sum, reciprocal, multiply."""

from __future__ import annotations

from ...space import Emitter
from ..recipes import softmax
from .rowwise import RowEmitter

EMITTER: Emitter = RowEmitter("softmax", softmax)
