"""Ignition, the search for kernels: propose, emit, check, rank. The whole line is in `search.py`."""
