"""A stand-in for the line from workload to result, for tests of what runs and stores it.

The `seed` is how long one item takes, in milliseconds. A matmul with k=13 is unsupported, with k=17 its worker dies,
with k=19 no kernel is right.
"""

import os
import time

from presil.kernels.operators.registry import parse_workload
from presil.suites.items import lacking
from presil.suites.runs import Item


def run_item(item: Item) -> dict[str, object]:
    time.sleep(item.seed / 1000)
    k = parse_workload(item.workload).int("k")
    if k == 13:
        return lacking(item, "unsupported", "13 is not built")
    if k == 17:
        os._exit(0)
    if k == 19:
        return lacking(item, "no right kernel", "all are wrong")
    cycles = 1024.0 * k + item.budget
    return {
        **lacking(item, "done", ""),
        "reason": None,
        "cycles": cycles,
        "seconds": cycles / item.machine.clock_hz,
        "verdict": "right",
        "reasons": [],
    }
