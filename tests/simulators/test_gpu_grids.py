"""Grids of GPU blocks: edges are clipped, instances make the trips of their point, faults and mistakes are found."""

from __future__ import annotations

import numpy as np
import pytest

from presil.simulators.assembly import parse, render
from presil.simulators.errors import BadInput, Undefined, Unsupported
from presil.simulators.gpu.isa import OPS
from presil.simulators.kinds import kinds
from presil.simulators.legality import check_legality
from presil.simulators.machine import load_machine
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate

H100 = load_machine("h100")


@pytest.mark.parametrize("place", ["dispatch", "persistent"])
def test_edges_are_zeros_and_stay_untouched(place):
    # 5 x 7 in tiles of 2 x 4 from (-1, -2), two apart in the columns: padding on every side.
    text = f"""program "p" on "h100"
workload "none"
grid i=4, j=2 {place}
tensor x: fp32[5, 7] in @hbm
tensor y: fp32[7, 7] out @hbm
buffer r: fp32[2, 4] x1 @registers+0
semaphore there
semaphore gone = 1
stream s {{
    load r{{0}}, x[2*i - 1 +: 2, 8*j - 2 +: 4 : 2] wait(gone, 1) signal(there, 1)
    store y[2*i +: 2, 4*j +: 4], r{{0}} wait(there, 1) signal(gone, 1)
}}
"""
    found = parse(text, ops=OPS)
    machine = H100.with_cores(3)
    assert sanitize(found, machine) == ()
    x = np.arange(1, 36, dtype=np.float32).reshape(5, 7)
    y = simulate(found, machine, mode="full", inputs={"x": x}).outputs["y"]
    wide = np.zeros((20, 40), np.float32)
    wide[1:6, 2:9] = x  # index 0 is -1 and -2
    expected = np.block([[wide[2 * i : 2 * i + 2, 8 * j : 8 * j + 8 : 2] for j in range(2)] for i in range(4)])
    np.testing.assert_array_equal(y, expected[:7, :7])


TRIANGLE = """program "p" on "h100"
workload "none"
grid b=4 dispatch
tensor y: fp32[4, 4] out @hbm
buffer r: fp32[1, 4] x1 @registers+0
semaphore done
stream s {
    fill r{0} value=1.0
    loop k 0 + 2*b {
        add r{0}, r{0}, r{0}
    }
    scale r{0}, r{0} factor=1.0 offset=0.0 signal(done, 1)
    store y[b +: 1, 0 +: 4], r{0} wait(done, 1)
}
"""


def test_instances_make_the_trips_of_their_point_and_none_where_there_are_none():
    found = parse(TRIANGLE, ops=OPS)
    assert parse(render(found), ops=OPS) == found
    check_legality(found, H100)
    assert [len(kind.program.streams[0].body) for kind in kinds(found)] == [3, 4, 4, 4]
    assert sanitize(found, H100) == ()
    y = simulate(found, H100, mode="full", inputs={}).outputs["y"]
    # Doubled 2b times.
    np.testing.assert_array_equal(y, np.repeat(4.0 ** np.arange(4)[:, None], 4, axis=1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0 + 2*b", "2 - b", r"loop k: -1 to 2 trips; allowed: 1 to"),
        ("0 + 2*b", "0", "trips: found 0; allowed: 1 to"),
        ("0 + 2*b", "2*c", "unknown variable 'c'"),
        ("b=4 dispatch", "b=4 persistent", "instances of several kinds are dispatched, not persistent"),
        ("y[b +: 1", "y[b - 1 +: 1", "bounds"),
    ],
)
def test_mistakes_of_grids_are_named(old, new, message):
    with pytest.raises((BadInput, Unsupported, Undefined), match=message):
        check_legality(parse(TRIANGLE.replace(old, new), ops=OPS), H100)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("y[b +: 1, 0 +: 4]", "y[0 +: 1, 0 +: 4]", "race"),  # all instances store one row
        ("y: fp32[4, 4]", "y: fp32[5, 4]", "unstored"),
        (" wait(done, 1)", "", "race"),
        ("fill r{0} value=1.0\n", "", "uninitialised"),
    ],
)
def test_faults_of_grids_are_found(old, new, kind):
    assert kind in {fault.kind for fault in sanitize(parse(TRIANGLE.replace(old, new), ops=OPS), H100)}


def test_a_persistent_ring_must_end_where_it_starts():
    # Three steps through two slots: the second instance begins in slot 0 while slot 0 may still be read.
    text = """program "p" on "h100"
workload "none"
grid b=264 persistent
tensor x: fp32[264, 3] in @hbm
tensor y: fp32[264, 3] out @hbm
buffer s: fp32[1, 1] x2 @shared+0
buffer r: fp32[1, 3] x1 @registers+0
semaphore full
semaphore free = 2
semaphore done
semaphore gone = 1
stream c {
    loop k STEPS {
        copy s{k}, x[b +: 1, k +: 1] wait(free, 1) signal(full, 1)
    }
}
stream v {
    sync wait(gone, 1)
    loop k STEPS {
        move r{0}[0 +: 1, k +: 1], s{k} wait(full, 1) signal(free, 1)
    }
    fill r{0}[0 +: 1, 2 +: 1] value=0.0
    scale r{0}, r{0} factor=1.0 offset=0.0 signal(done, 1)
    store y[b +: 1, 0 +: 3], r{0} wait(done, 1) signal(gone, 1)
}
"""
    assert sanitize(parse(text.replace("STEPS", "2"), ops=OPS), H100) == ()
    assert "race" in {f.kind for f in sanitize(parse(text.replace("STEPS", "3"), ops=OPS), H100)}
