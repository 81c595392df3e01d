"""Softmax on a GPU: rows whole, or in pieces with the sum online or apart."""

from __future__ import annotations

from ...space import Emitter
from ..recipes import online_softmax, softmax
from .rowwise import RowEmitter

EMITTER: Emitter = RowEmitter("softmax", softmax, online_softmax)
