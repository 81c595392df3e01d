"""About how long a plan along rows takes, in closed form."""

from __future__ import annotations

import math

from presil.simulators.formats import size_bytes
from presil.simulators.machine import Machine
from presil.simulators.systolic.spec import Systolic, systolic

from ..recipe import OUTPUT, Pass, Step
from .rowplan import Plan


def cycles(plan: Plan, machine: Machine) -> float:
    """The passes one after the other, and from the first block's load to the last one's store.

    Rings hold a few blocks only, so that one pass hardly works ahead for the next.
    """
    spec = systolic(machine)
    latency = _latency(machine)
    whole = [g for g in plan.groups if plan.loaded_whole(g)]
    before = sum(len(plan.groups[g]) * _transfer(plan, plan.groups[g][0], machine)[0] for g in whole)
    first, _ = _transfer(plan, plan.recipe.inputs[0], machine)
    last, _ = _transfer(plan, OUTPUT, machine)
    # Edge blocks are smaller.
    filled = plan.rows * plan.columns / (plan.row_blocks * plan.block_rows * plan.column_blocks * plan.block_columns)
    passes = sum(_pass(plan, each, machine, spec) for each in plan.recipe.passes)
    blocks = plan.row_blocks * plan.column_blocks * len(plan.recipe.passes)
    work = sum(_step(plan, step, spec) for step in plan.recipe.passes[-1].steps)
    return max(before, first) + filled * passes * (1 - 1 / blocks) + work + last + 2 * latency


def _pass(plan: Plan, each: Pass, machine: Machine, spec: Systolic) -> float:
    """Cycles of one pass over all blocks: the slowest of vector unit, channels, link and rings.

    A ring of n slots takes a new block every (transfer + latency + work) / n cycles at best.
    """
    latency = _latency(machine)
    blocks = plan.row_blocks * plan.column_blocks
    work = sum(_step(plan, step, spec) for step in each.steps)
    closing = sum(_step(plan, step, spec) for step in each.closing)
    channels = [0.0] * spec.dma.load_channels
    link, rings = 0.0, 0.0
    for i, (group, members) in enumerate(plan.groups.items()):
        if plan.loaded_whole(group) or not each.reads(members):
            continue
        taken, moved = _transfer(plan, members[0], machine)
        channels[min(i, len(channels) - 1)] += blocks * len(members) * taken
        link += blocks * len(members) * moved
        if plan.tiles(group) > plan.ring(group):
            rings = max(rings, blocks * (len(members) * taken + latency + work) / plan.ring(group))
    store = 0.0
    if any(step.target == OUTPUT for step in each.steps):
        tiles = plan.output_tiles
        taken, moved = _transfer(plan, OUTPUT, machine)
        store = tiles * taken
        link += tiles * moved
        if tiles > plan.output_ring:
            rings = max(rings, tiles * (taken + latency + work * blocks / tiles) / plan.output_ring)
    return max(blocks * work + plan.row_blocks * closing, *channels, store, plan.cores * link, rings)


def _latency(machine: Machine) -> float:
    """Cycles of a transfer beyond those it takes a channel for."""
    spec = systolic(machine)
    return machine.memories[spec.activation_memory].latency * machine.clock_hz + spec.dma.setup


def _step(plan: Plan, step: Step, spec: Systolic) -> int:
    """Cycles of one vector instruction on the largest block."""
    elements = max(math.prod(plan.shape(name)) for name in (step.target, *step.sources))
    return max(-(-elements // spec.vector.lanes), spec.issue, 1)


def _transfer(plan: Plan, name: str, machine: Machine) -> tuple[float, float]:
    """(cycles of the channel, cycles of the link) that a block of `name` takes."""
    spec = systolic(machine)
    dma, memory = spec.dma, machine.memories[spec.activation_memory]
    shape = plan.shape(name)
    together = len(shape) == 1 or shape[1] == 1 or (plan.column_blocks == 1 and plan.split == "rows")
    runs = 1 if together else shape[0]
    moved = math.prod(shape) * size_bytes(plan.output_dtype if name == OUTPUT else plan.dtype)
    touched = runs * math.ceil(moved / runs / memory.burst_bytes) * memory.burst_bytes
    link = touched * machine.clock_hz / (memory.bandwidth * memory.efficiency)
    outstanding = touched * memory.latency * machine.clock_hz / dma.in_flight_bytes
    port = moved / dma.port_bytes_per_cycle
    return max(link, outstanding, port, dma.setup + (runs - 1) * dma.row_setup, spec.issue, 1), link
