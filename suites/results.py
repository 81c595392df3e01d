"""The JSON forms of timings and verdicts, as the CLI prints and the store keeps them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from presil.simulators.timing import TICKS_PER_CYCLE, Timing

if TYPE_CHECKING:
    from presil.kernels.checking import Verdict


def timing_json(timing: Timing) -> dict[str, Any]:
    """A timing; times in cycles of the machine's clock (multiples of 1/1024), traffic in bytes."""
    return {
        "cycles": timing.cycles,
        "seconds": timing.seconds,
        "fidelity": timing.fidelity,
        "mode": timing.mode,
        "engines": {
            name: {
                "busy": engine.busy_ticks / TICKS_PER_CYCLE,
                "stall": {reason: ticks / TICKS_PER_CYCLE for reason, ticks in engine.stall_ticks.items()},
            }
            for name, engine in timing.engines.items()
        },
        "traffic_bytes": dict(timing.traffic_bytes),
        "executed_instructions": timing.executed_instructions,
    }


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict, with the reasons of a wrong one."""
    return {
        "verdict": "right" if verdict.right else "wrong",
        "reasons": [asdict(reason) for reason in verdict.reasons],
    }
