"""Instances of a grid by what they do, and what legality asks of grids."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from presil.simulators.errors import BadInput, Unsupported
from presil.simulators.kinds import is_closed, kinds, loops, point, points
from presil.simulators.legality import check_legality
from presil.simulators.program import Affine, Instruction, Loop, Node, Program, Stream
from presil.simulators.sanitizer import sanitize

from .gpu_parts import H100, program
from .strategies import programs


def trips_of(nodes: tuple[Node, ...]) -> list[int]:
    return [loop.trips for loop in loops(nodes)]


def test_points_are_row_major():
    found = program("sync", grid="grid a=2, b=3 dispatch")
    assert list(points(found)) == [{"a": a, "b": b} for a in range(2) for b in range(3)]
    assert [point(found, i) for i in range(6)] == list(points(found))


def test_a_closed_program_is_one_kind():
    found = program("loop k 4 { sync }", grid="grid a=2, b=3 dispatch")
    (kind,) = kinds(found)
    assert is_closed(found)
    assert kind.program is found
    assert kind.instances == tuple(range(6))


def test_kinds_come_by_their_trips_in_the_order_of_their_first_instance():
    found = program("loop k 1 + 2*b { sync }", grid="grid a=2, b=3 dispatch")
    assert not is_closed(found)
    by = kinds(found)
    assert [kind.instances for kind in by] == [(0, 3), (1, 4), (2, 5)]
    assert [trips_of(kind.program.streams[0].body) for kind in by] == [[1], [3], [5]]
    assert all(is_closed(kind.program) for kind in by)
    falling = kinds(program("loop k 3 - b { sync }", grid="grid a=2, b=3 dispatch"))
    assert [trips_of(kind.program.streams[0].body) for kind in falling] == [[3], [2], [1]]


def test_other_points_with_the_same_trips_are_of_one_kind():
    # a + b: 0, 1, 2 | 1, 2, 3.
    by = kinds(program("loop k 1 + a + b { sync }", grid="grid a=2, b=3 dispatch"))
    assert [kind.instances for kind in by] == [(0,), (1, 3), (2, 4), (5,)]


def test_trips_of_all_loops_count():
    # Two loops that grow against each other: every point is a kind of its own, though the sum is the same.
    text = "stream s { loop k 1 + b { sync } }\nstream t { loop k 3 - b { sync } }"
    by = kinds(program(text, grid="grid b=3 dispatch"))
    assert [[trips_of(s.body) for s in kind.program.streams] for kind in by] == [
        [[1], [3]],
        [[2], [2]],
        [[3], [1]],
    ]


def test_a_loop_of_no_trips_is_left_out_and_so_is_what_is_empty_then():
    text = """
    stream s {
        sync
        loop k b {
            sync
        }
        loop m 3 {
            loop n 2*b {
                sync
            }
        }
    }
    """
    first, second = kinds(program(text, grid="grid b=2 dispatch"))
    assert first.program.streams[0].body == (Instruction("sync"),)
    assert second.program.streams[0].body == (
        Instruction("sync"),
        Loop("k", 1, (Instruction("sync"),)),
        Loop("m", 3, (Loop("n", 2, (Instruction("sync"),)),)),
    )


def test_an_instance_may_do_nothing_at_all():
    first, second = kinds(program("loop k b { sync }", grid="grid b=2 dispatch"))
    assert first.program.streams == (Stream("s", ()),)
    assert len(second.program.streams[0].body) == 1


@given(programs())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_kinds_part_the_instances(drawn: Program):
    """Each instance is of one kind, and the kind makes the trips that its point says."""
    by = kinds(drawn)
    assert sorted(i for kind in by for i in kind.instances) == list(range(drawn.instances))
    every = [loop for stream in drawn.streams for loop in loops(stream.body)]
    for kind in by:
        assert is_closed(kind.program)
        for instance in kind.instances:
            at = point(drawn, instance)
            wanted = [Affine(loop.trips, loop.terms).at(at) for loop in every]
            assert min(wanted, default=0) >= 0
            counted = sum(_issued(s.body) for s in kind.program.streams)
            assert counted == sum(_issued(s.body, at) for s in drawn.streams)


def _issued(nodes: tuple[Node, ...], at: dict[str, int] | None = None) -> int:
    """Instructions issued at a point of the grid, counted one loop at a time."""
    total = 0
    for node in nodes:
        if isinstance(node, Loop):
            trips = Affine(node.trips, node.terms).at(at) if at is not None else node.trips
            total += trips * _issued(node.body, at)
        else:
            total += 1
    return total


MISTAKES = [
    ("loop k b - 1 { sync }", "dispatch", BadInput, "loop k: -1 to 2 trips; allowed: 1 to 1,000,000,000"),
    ("loop k 2 - b { sync }", "dispatch", BadInput, "loop k: -1 to 2 trips"),
    ("loop k 1000000000*b { sync }", "dispatch", BadInput, "loop k: 0 to 3000000000 trips"),
    ("loop k 1 + b { sync }", "persistent", Unsupported, "instances of several kinds are dispatched, not persistent"),
    ("fill t{b} value=0.0", "persistent", Unsupported, "stream s: fill: buffers of persistent instances cannot depend"),
    ("fill t{0}[b +: 1] value=0.0", "persistent", Unsupported, "cannot depend on the grid"),
    ("sum r{0}, t{0} accumulate=b", "persistent", Unsupported, "stream s: sum: buffers of persistent instances"),
]


@pytest.mark.parametrize(("text", "place", "error", "why"), MISTAKES)
def test_mistakes_are_named(text, place, error, why):
    declared = "buffer t: fp32[4] x4 @registers+0\nbuffer r: fp32[1] x1 @registers+64\n"
    with pytest.raises(error) as found:
        program(declared + text, grid=f"grid b=4 {place}")
    assert why in str(found.value)


def test_what_is_right_is_not_refused():
    declared = "buffer t: fp32[4] x4 @registers+0\nbuffer r: fp32[1] x1 @registers+64\n"
    program(declared + "loop k b { sync }", grid="grid b=4 dispatch")  # none at 0
    program(declared + "loop k 3 - b { sync }", grid="grid b=4 dispatch")  # none at 3
    program(declared + "fill t{b}[b +: 1] value=0.0", grid="grid b=4 dispatch")
    program(declared + "loop k 4 { fill t{k}[k +: 1] value=0.0 }", grid="grid b=4 persistent")
    program(declared + "loop k 333333333*b { sync }", grid="grid b=4 dispatch")


def test_trips_of_other_variables_than_those_of_the_grid_are_refused():
    # No text says so; a program built in Python may.
    for term in ("m", "c"):
        body = (Loop("m", 2, (Loop("k", 1, (Instruction("sync"),), ((term, 1),)),)),)
        found = Program("p", "h100", "w", (), (), (), (Stream("s", body),), (("b", 2),), "dispatch")
        with pytest.raises(BadInput, match=f"loop k: its trips depend on '{term}', which is no grid variable"):
            check_legality(found, H100)


def test_a_loop_variable_reaches_as_far_as_its_longest_loop():
    # k goes to 6 at b = 3: 7 slots of a row are not too few, 6 are.
    text = """
    buffer t: fp32[{}] x1 @registers+0
    loop k 1 + 2*b {{ fill t{{0}}[k +: 1] value=0.0 }}
    """
    program(text.format(7), grid="grid b=4 dispatch")
    with pytest.raises(Exception, match=r"t dimension 0 reaches 0\.\.6, but has 0\.\.5"):
        program(text.format(6), grid="grid b=4 dispatch")


def test_more_instances_than_cores_where_they_are_dispatched():
    for place in ("dispatch", "persistent"):
        program("sync", grid=f"grid b=100000 {place}")
    with pytest.raises(Unsupported, match="the grid has 133 instances, but h100 has 132 cores"):
        program("sync", grid="grid b=133 static")


def test_a_wait_that_only_one_kind_misses_is_found():
    text = """
    tensor y: fp32[2, 4] out @hbm
    buffer t: fp32[4] x1 @registers+0
    semaphore full
    semaphore done
    stream s {
        loop k b { sync signal(full) }
        fill t{0} value=1.0 signal(done)
        store y[b +: 1, 0 +: 4], t{0} wait(done)
    }
    stream v {
        loop k b { sync wait(full) }
    }
    """
    assert sanitize(program(text, grid="grid b=2 dispatch"), H100) == ()
    # Block 0 signals nothing, block 1 once.
    always = program(text.replace("loop k b { sync wait(full) }", "sync wait(full)"), grid="grid b=2 dispatch")
    assert [f.kind for f in sanitize(always, H100)] == ["deadlock"]
    # What an instance leaves is nothing to the next, which finds its semaphores as they are at first ...
    never = text.replace("loop k b { sync wait(full) }", "sync")
    assert sanitize(program(never, grid="grid b=2 dispatch"), H100) == ()
    # ... unless it is persistent.
    found = sanitize(program(never.replace("loop k b { sync", "loop k 1 { sync"), grid="grid b=2 persistent"), H100)
    assert ("leftover", "semaphore full") in {(f.kind, f.where) for f in found}
