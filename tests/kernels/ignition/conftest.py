"""Makes `made_up.py` importable here and in the worker processes that a search starts."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
