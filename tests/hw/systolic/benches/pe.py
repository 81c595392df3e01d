"""Bench of `pe`: random inputs in every cycle against a model of one element."""

import itertools

import cocotb
import numpy as np
from cocotb.triggers import FallingEdge, ReadOnly
from tests.hw.bins import Bins
from tests.hw.signals import begin, noise, parameters, rounds

PARAMETERS = parameters()
WEIGHTS, RESULTS = PARAMETERS["WeightPlanes"], PARAMETERS["ResultPlanes"]
PASSED_ON = ("valid", "stationary", "clear", "plane", "x")
EXTREMES = (-128, 127)


def wrapped(value: int) -> int:
    """As an int32."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def drawn(rng: np.random.Generator) -> dict[str, int]:
    """Inputs of one cycle; the extremes are frequent."""
    stationary = int(rng.integers(2))
    byte = lambda: int(rng.choice(EXTREMES) if rng.integers(3) == 0 else rng.integers(-128, 128))  # noqa: E731
    return {
        "valid": int(rng.integers(4) > 0), "stationary": stationary, "clear": int(rng.integers(8) == 0),
        "plane": int(rng.integers(RESULTS if stationary else WEIGHTS)), "x": byte(),
        "down": byte() if stationary else int(rng.choice([-(1 << 31), (1 << 31) - 1, rng.integers(-1000, 1000)])),
        "shift": int(rng.integers(2)), "shift_plane": int(rng.integers(WEIGHTS)), "weight": byte(),
        "result_plane": int(rng.integers(RESULTS)),
    }  # fmt: skip


@cocotb.test()
async def follows_the_model(dut):
    await begin(dut)
    rng = noise()
    weights, results = [0] * WEIGHTS, [0] * RESULTS
    # What every register holds is known once it was written.
    for plane in range(WEIGHTS):
        await driven(dut, {"shift": 1, "shift_plane": plane, "weight": 0})
    for plane in range(RESULTS):
        await driven(dut, {"shift": 0, "valid": 1, "stationary": 1, "clear": 1, "plane": plane, "x": 0})
    bins = Bins(
        use=[("ws", p) for p in range(WEIGHTS)] + [("os", p) for p in range(RESULTS)],
        clear=itertools.product((0, 1), range(RESULTS)),
        product=itertools.product(("ws", "os"), EXTREMES, EXTREMES),
        wraps=("ws up", "ws down"),
        beside=("same plane", "other plane") if WEIGHTS > 1 else ("same plane",),
        idle=(0, 1),
    )
    for _ in range(20 * rounds()):
        given = drawn(rng)
        factor = given["down"] if given["stationary"] else weights[given["plane"]]
        use, product = "os" if given["stationary"] else "ws", given["x"] * factor
        out = given["down"] if given["stationary"] else wrapped(given["down"] + product)
        await driven(dut, given, weight=weights[given["shift_plane"]], result=results[given["result_plane"]])
        for name in PASSED_ON:
            assert int(getattr(dut, f"{name}_o").value) & 0xFF == given[name] & 0xFF, name
        assert dut.down_o.value.to_signed() == out
        bins.hit(use=(use, given["plane"]), product=(use, given["x"], factor), idle=given["valid"])
        if given["stationary"] and given["valid"]:
            before = 0 if given["clear"] else results[given["plane"]]
            results[given["plane"]] = wrapped(before + product)
            bins.hit(clear=(given["clear"], given["plane"]))
        if not given["stationary"] and out != given["down"] + product:
            bins.hit(wraps="ws up" if product > 0 else "ws down")
        if given["shift"]:
            bins.hit(beside="same plane" if given["plane"] == given["shift_plane"] else "other plane")
            weights[given["shift_plane"]] = given["weight"]
    bins.check()


async def driven(dut, given: dict[str, int], **before: int) -> None:
    """One clock edge with these inputs; `before` it, these outputs. Ends where the outputs of the next cycle stand."""
    for name, value in given.items():
        getattr(dut, f"{name}_i").value = value
    await ReadOnly()
    for name, value in before.items():
        assert getattr(dut, f"{name}_o").value.to_signed() == value, name
    await FallingEdge(dut.clk_i)
