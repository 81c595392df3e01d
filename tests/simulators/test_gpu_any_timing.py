"""What the sanitizer passes gives the same bits on GPUs of any figures: rings of drawn sizes, counts and places.

Blocks copy K pieces through a ring in shared memory and a ring in registers. Waits are left out, counts are too high or
too low, slots begin anew in each instance. Where the sanitizer says that all is ordered, it must come out right on
chips whose memory, copies or shared memory are fast or slow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.simulators.errors import Undefined
from presil.simulators.machine import Machine
from presil.simulators.program import Program
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate

from .gpu_parts import H100, changed, program

FAR = Machine(
    **{
        **{name: getattr(H100, name) for name in Machine.model_fields},
        "memories": {"hbm": H100.memories["hbm"].model_copy(update={"latency": 20e-6})},
    }
)
CHIPS = (
    H100,
    FAR,
    changed(H100, "path", shared_bytes_per_cycle=1, shared_latency=3000),  # moves are slow
    changed(H100, "path", port_bytes_per_cycle=1),
    changed(changed(H100, "copy_unit", setup=1, extra_latency=0), "cache", latency=1),
    changed(H100, "cache", latency=9000),  # stores are slow
)


@dataclass(frozen=True)
class Ring:
    """A draw. `full`, ...: whether that wait is there; the counts are those at the start."""

    place: str
    instances: int
    cores: int
    pieces: int
    slots: tuple[int, int]  # in shared memory, in registers
    counts: tuple[int, int]  # of free, of gone
    full: bool
    free: bool
    done: bool
    gone: bool

    @property
    def right(self) -> bool:
        """By thought: all waits are there, and as many units as slots at most."""
        waits = self.full and self.done and (self.free or self.fits(0)) and (self.gone or self.fits(1))
        return waits and all(0 < n <= slots for n, slots in zip(self.counts, self.slots, strict=True))

    def fits(self, ring: int) -> bool:
        """Whether no slot is used twice. A persistent block comes again."""
        again = self.place == "persistent" and self.instances > self.cores
        return not again and self.pieces <= self.slots[ring]

    def program(self) -> Program:
        waits = {name: f" wait({name}, 1)" if getattr(self, name) else "" for name in ("full", "free", "done", "gone")}
        text = f"""
        tensor x: fp32[{self.instances}, {4 * self.pieces}] in @hbm
        tensor y: fp32[{self.instances}, {4 * self.pieces}] out @hbm
        buffer s: fp32[1, 4] x{self.slots[0]} @shared+0
        buffer r: fp32[1, 4] x{self.slots[1]} @registers+0
        semaphore full = 0
        semaphore free = {self.counts[0]}
        semaphore done = 0
        semaphore gone = {self.counts[1]}
        stream c {{
            loop k {self.pieces} {{
                copy s{{k}}, x[b +: 1, 4*k +: 4]{waits["free"]} signal(full, 1)
            }}
        }}
        stream v {{
            loop k {self.pieces} {{
                move r{{k}}, s{{k}}{waits["full"]}{waits["gone"]} signal(free, 1) signal(done, 1)
                store y[b +: 1, 4*k +: 4], r{{k}}{waits["done"]} signal(gone, 1)
            }}
        }}
        """
        return program(text, grid=f"grid b={self.instances} {self.place}")


LIKELY = st.integers(0, 7).map(bool)  # most waits are there
RINGS = st.builds(
    Ring,
    st.sampled_from(["dispatch", "persistent"]),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 5),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    LIKELY,
    LIKELY,
    LIKELY,
    LIKELY,
)


def outcome(found: Program, chip: Machine, x: np.ndarray, seed: int) -> str:
    """`right`, `wrong`, or the kind of what is undefined."""
    try:
        y = simulate(found, chip, mode="full", inputs={"x": x}, poison_seed=seed).outputs["y"]
    except Undefined as error:
        return str(error)
    return "right" if np.array_equal(y, x) else "wrong"


@given(RINGS, st.integers(0, 99))
@settings(max_examples=150)
def test_what_is_passed_is_right_on_any_chip(ring, seed):
    found = ring.program()
    x = np.random.default_rng(seed).normal(size=(ring.instances, 4 * ring.pieces)).astype(np.float32)
    faults = sanitize(found, H100.with_cores(ring.cores))
    seen = {outcome(found, chip.with_cores(ring.cores), x, seed) for chip in CHIPS}
    if not faults:
        assert seen == {"right"}
    if seen != {"right"}:
        assert faults


@given(RINGS)
@settings(max_examples=150)
def test_what_is_right_by_thought_is_passed(ring):
    # A persistent ring that does not end where it starts is right only if it has no more units than are safe.
    whole = ring.pieces % ring.slots[0] == ring.pieces % ring.slots[1] == 0
    if ring.place == "persistent" and not whole and ring.instances > ring.cores:
        return
    faults = sanitize(ring.program(), H100.with_cores(ring.cores))
    left = ring.place == "persistent" and not (ring.full and ring.free and ring.done and ring.gone)
    if ring.right and not left:
        assert faults == ()
    if not ring.full or not ring.done:
        assert "race" in {f.kind for f in faults}


def test_both_are_drawn():
    """Or the tests above would say nothing."""
    passed = []

    @given(RINGS)
    @settings(max_examples=150, database=None)
    def look(ring):
        passed.append(not sanitize(ring.program(), H100.with_cores(ring.cores)))

    look()
    assert 0.1 < sum(passed) / len(passed) < 0.9
