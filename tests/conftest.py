"""What all tests share: reproducible hypothesis runs, and one thread for numpy's linear algebra."""

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

# Another number of threads gives other bits in float32 products. Set before anything loads numpy.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

# The examples are the same on every machine, and a slow machine is no failure.
settings.register_profile("presil", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("presil")

# Processes that a test spawns import its module by name; those of pytest-xdist do not have the root on their path.
sys.path.append(str(Path(__file__).resolve().parent.parent))
