"""The sanitizer: right programs pass, and each way to be wrong is named."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.simulators.accesses import READ, WRITE, collect
from presil.simulators.assembly import parse
from presil.simulators.deadlock import advance, tables
from presil.simulators.family import family
from presil.simulators.machine import load_machine
from presil.simulators.order import Order
from presil.simulators.program import Program
from presil.simulators.races import RaceFinder
from presil.simulators.regions import Area, Box, Holder
from presil.simulators.sanitizer import sanitize

from .pipelines import MATMUL, waits, without

MACHINE = load_machine("gemmini-16")
KINDS = {"x_full": "RAW", "w_full": "RAW", "p_full": "RAW", "a_full": "RAW"}  # a missing wait for `free` is a WAR


def faults(text: str, **options):
    return sanitize(parse(text), MACHINE, **options)


def replaced(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def test_a_right_program_has_no_faults():
    assert faults(MATMUL) == ()


@pytest.mark.parametrize(("part", "occurrence"), waits(MATMUL))
def test_each_deleted_wait_is_named_as_the_race_it_makes(part, occurrence):
    found = faults(without(MATMUL, part, occurrence))
    semaphore = part[len("wait(") : part.index(",")]
    assert found[0].kind == "race"
    assert {f.detail[:3] for f in found if f.kind == "race"} == {KINDS.get(semaphore, "WAR")}
    assert [f.where for f in found if f.kind == "leftover"] == [f"semaphore {semaphore}"]
    assert all(semaphore in f.detail for f in found if f.kind == "race")  # who could have ordered them


def test_a_race_names_both_instructions_and_the_bytes():
    (fault, *_) = faults(without(MATMUL, "wait(w_full, 1)"))
    assert fault.where == "stream weights: shift plane{t}, wb{t} (t=0)"
    assert fault.detail == (
        "RAW: reads wb slot 0[0:16, 0:16], but nothing says that "
        "stream loadw: load wb{k + 24*m + 6*n}, w[0 +: 1, 16*k +: 16, 16*n +: 16] (m=0, n=0, k=0), "
        "which writes wb slot 0[0:16, 0:16], has completed; it signals w_full, for which nothing waits"
    )


SEEDED = {
    "ring one slot short": ("xb: int8[32, 16] x2", "xb: int8[32, 16] x1", "race", "WAR"),
    "one count too many at the start": ("x_free = 2", "x_free = 3", "race", "WAR"),
    "signal from the wrong end": (
        "wait(w_full, 1) wait(p_free, 1) signal(w_free, 1) signal(p_full, 1)",
        "wait(w_full, 1) wait(p_free, 1) signal(p_full, 1) signal(p_full, 1)",
        "deadlock",
        "w_free, of which it lacks 1; no signal is left that could free it",
    ),
    "never signalled": ("signal(a_full, 1)", "", "deadlock", "a_full, of which it lacks 1; no signal is left"),
    "count too small at the start": ("p_free = 2", "p_free = 0", "deadlock", "the signal of stream matrix: matmul"),
    "wait for more than there is": ("wait(a_full, 1)", "wait(a_full, 2)", "deadlock", "a_full"),
    "adds to what was never written": ("accumulate=0", "accumulate=1", "uninitialised", "element [0, 0]"),
    "half of the tile is loaded": (
        "load wb{24*m + 6*n + k}, w[0 +: 1, 16*k +: 16, 16*n +: 16]",
        "load wb{24*m + 6*n + k}[0 +: 8, 0 +: 16], w[0 +: 1, 16*k +: 8, 16*n +: 16]",
        "uninitialised",
        "of which element [8, 0] was never written",
    ),
    "half of the output": ("32*m +: 32, 16*n +: 16], acc", "32*m +: 32, 0 +: 16], acc", "unstored", "[0, 0, 16]"),
    "index behind the end": ("16*k +: 16] wait(x", "16*k + 1 +: 16] wait(x", "bounds", "1 to 96 of dimension 2"),
    "index before the start": ("32*m +: 32, 16*k", "32*m - 1 +: 32, 16*k", "bounds", "touches -1 to 62 of dimension 1"),
    "more than the scratchpad": ("@scratchpad+1024", "@scratchpad+261889", "capacity", "to 262401 of scratchpad"),
    "no such space": ("@scratchpad+1024", "@attic+0", "capacity", "there is no space attic"),
    "two buffers on the same bytes": ("@scratchpad+1024", "@scratchpad+512", "race", "xb slot 1"),
    "writes its input": ("y: int32[1, 64, 64] out", "y: int32[1, 64, 64] in", "input-written", "y is an input (in)"),
}  # fmt: skip


@pytest.mark.parametrize("name", SEEDED)
def test_seeded_faults(name):
    old, new, kind, detail = SEEDED[name]
    found = faults(replaced(MATMUL, old, new))
    assert [f for f in found if f.kind == kind and detail in f.detail], found


def test_a_semaphore_has_one_source_and_one_waiter():
    two_sources = replaced(MATMUL, "signal(w_full, 1)", "signal(w_full, 1) signal(x_full, 1)")
    assert [(f.kind, f.where) for f in faults(two_sources)] == [("semaphore-shared", "semaphore x_full")]
    assert "loadx on load and loadw on load" in faults(two_sources)[0].detail
    two_waiters = replaced(MATMUL, "wait(w_free, 1)", "wait(w_free, 1) wait(x_free, 1)")
    assert "waited for by streams loadx and loadw" in faults(two_waiters)[0].detail


def test_too_long_programs_are_refused_not_passed():
    assert [f.kind for f in faults(MATMUL, limit=199)] == ["limit"]
    assert faults(MATMUL, limit=200) == ()  # 48 + 48 + 48 + 48 + 8
    endless = replaced(MATMUL, "loop t 48", "loop t 1000000000")
    assert "issues 1,000,000,152 instructions" in faults(endless)[0].detail


def test_too_large_tensors_are_refused_not_passed():
    (fault, *_) = faults(MATMUL.replace("x: int8[1, 64, 96]", "x: int8[65536, 65536, 96]"))
    assert (fault.kind, fault.where) == ("limit", "tensor x")


def test_at_most_so_many_faults():
    assert len(faults(without(MATMUL, "wait(a_full, 1)"), max_faults=2)) == 2


def test_storing_twice_is_right_only_in_order():
    again = "wait(a_full, 1)\n store y[0 +: 1, 32*m +: 32, 16*n +: 16], acc{4*m + n} signal(a_free, 1)"
    twice = replaced(MATMUL, "wait(a_full, 1) signal(a_free, 1)", again)
    assert faults(twice) == ()  # one stream on one engine: in order
    other = twice + "stream again unit 0 {\n store y[0 +: 1, 0 +: 32, 0 +: 16], acc{0}\n}\n"
    assert {("race", "WAW"), ("race", "RAW")} <= {(f.kind, f.detail[:3]) for f in faults(other)}


def test_instances_must_not_store_to_the_same_elements():
    machine = load_machine("tpu-v4")
    text = """
    program "fill" on "tpu-v4"
    workload "elementwise"
    grid core=2 static
    tensor y: fp32[2, 8] out @hbm
    buffer b: fp32[1, 8] x1 @scratchpad+0
    semaphore full = 0
    stream a {
        fill b{0} value=1 signal(full, 1)
        store y[core +: 1, 0 +: 8], b{0} wait(full, 1)
    }
    """
    text = text.replace("@hbm", f"@{next(iter(machine.memories))}")
    assert sanitize(parse(text), machine) == ()
    (race, unstored) = sanitize(parse(text.replace("y[core +: 1", "y[0 +: 1")), machine)
    assert (race.kind, unstored.kind) == ("race", "unstored")
    assert "on another core" in race.detail
    assert {"(core=0)", "(core=1)"} <= set(re.findall(r"\(core=.\)", race.where + race.detail))
    overlap = text.replace("y[core +: 1, 0 +: 8], b{0}", "y[core +: 1, 4*core +: 4], b{0}[0 +: 1, 0 +: 4]")
    assert [f.kind for f in sanitize(parse(overlap), machine)] == ["unstored"]


# --- random pipelines: stages in a row, each hands tiles to the next through a ring -----------------------------------


def pipeline(slots: list[int], trips: int, chunk: int) -> str:
    """fill -> relu -> relu ... -> store, over rings of `slots`; waits and signals `chunk` at a time."""
    names = [f"b{i}" for i in range(len(slots))]
    lines = ['program "p" on "gemmini-16"', 'workload "w"', f"tensor y: int8[{trips}, {chunk}, 16] out @dram"]
    offset = 0
    for name, n in zip(names, slots, strict=True):
        lines.append(f"buffer {name}: int8[1, 16] x{n * chunk} @scratchpad+{offset}")
        offset += 16 * n * chunk
    for name, n in zip(names, slots, strict=True):
        lines += [f"semaphore {name}_full = 0", f"semaphore {name}_free = {n}"]
    for i, name in enumerate([*names, "y"]):
        before, own = names[i - 1] if i else None, name if i < len(names) else None
        lines += [f"stream s{i} {{", f"loop t {trips} {{"]
        for c in range(chunk):
            source = f"{before}{{{chunk}*t + {c}}}" if before else ""
            if own is None:
                body = f"store y[t +: 1, {c} +: 1, 0 +: 16], {source}"
            else:
                body = f"{'relu' if before else 'fill'} {own}{{{chunk}*t + {c}}}" + (
                    f", {source}" if before else " value=3"
                )
            if c == 0:
                body += (f" wait({before}_full, 1)" if before else "") + (f" wait({own}_free, 1)" if own else "")
            if c == chunk - 1:
                body += (f" signal({before}_free, 1)" if before else "") + (f" signal({own}_full, 1)" if own else "")
            lines.append(body)
        lines += ["}", "}"]
    return "\n".join(lines)


PIPELINES = st.tuples(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(4, 7), st.integers(1, 3))


@given(PIPELINES, st.randoms())
@settings(max_examples=60, deadline=None)
def test_pipelines_are_right_and_wrong_without_any_one_wait(shape, random):
    text = pipeline(*shape)
    assert faults(text) == ()
    part, occurrence = random.choice(waits(text))
    found = faults(without(text, part, occurrence))
    kind = "RAW" if "_full" in part else "WAR"
    assert {f.detail[:3] for f in found if f.kind == "race"} == {kind}
    assert {f.kind for f in found} == {"race", "leftover"}


def races_by_brute_force(program: Program) -> bool:
    """All pairs of accesses, with clocks from running the streams against each other."""
    order = Order(program, MACHINE)
    clocks = advance(tables(order._match(), order.lengths), len(order.queues))[0]
    area = Area([Holder.of(b) for b in program.buffers])
    a = collect(order, family("systolic").ops, area, {})
    cells = [
        set(itertools.product([(b.holder, b.slot)], *(range(s.start, s.stop, s.step) for s in b.slices)))
        for b in area.boxes
    ]
    known = {}
    for i in range(len(a.region)):
        stream = order.lines[a.line[i]].stream
        known[i] = clocks[stream][a.segment[i] - order.first_segment[stream]]
    for i, j in itertools.combinations(range(len(a.region)), 2):
        if a.queue[i] == a.queue[j] or not (a.flags[i] | a.flags[j]) & WRITE:
            continue
        if not cells[a.region[i]] & cells[a.region[j]]:
            continue
        if known[j][a.queue[i]] < a.index[i] and known[i][a.queue[j]] < a.index[j]:
            return True
    return False


@given(PIPELINES, st.randoms(), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_races_agree_with_comparing_all_pairs(shape, random, damage):
    slots, trips, chunk = shape
    text = pipeline(slots, min(trips, 5), chunk)
    for _ in range(damage):
        cut = random.choice(["wait", "free", "slots"])
        if cut == "wait" and waits(text):
            text = without(text, *random.choice(waits(text)))
        elif cut == "free":
            text = re.sub(r"_free = (\d)", lambda m: f"_free = {int(m[1]) + random.randint(0, 1)}", text)
        else:
            text = re.sub(r" x(\d)", lambda m: f" x{max(1, int(m[1]) - random.randint(0, 1))}", text)
    found = faults(text)
    assert ("race" in {f.kind for f in found}) == races_by_brute_force(parse(text))


@given(PIPELINES, st.randoms())
@settings(max_examples=40, deadline=None)
def test_clocks_are_those_of_running_the_streams(shape, random):
    order = Order(parse(pipeline(*shape)), MACHINE)
    clocks = advance(tables(order._match(), order.lengths), len(order.queues))[0]
    assert [clock for log in clocks for clock in log] == order.clock.T.tolist()


BOX = st.tuples(st.integers(0, 9), st.integers(1, 6), st.integers(1, 4))


@given(st.lists(st.tuples(st.integers(0, 1), BOX, BOX), min_size=2, max_size=12))
@settings(max_examples=200, deadline=None)
def test_overlap_is_that_of_sets_of_bytes(raw):
    """Two buffers of 40 x 40 that share bytes: int8 at 0 and int32 at 800, compared byte by byte."""
    holders = [Holder("a", (40, 40), 1, 1, 0), Holder("b", (40, 40), 4, 1, 800)]
    area = Area(holders)
    sets = []
    for holder, *dims in raw:
        starts, sizes, steps = zip(*dims, strict=True)
        number = area.number(holder, np.array([0]), [np.array([s]) for s in starts], sizes, steps)[0]
        owner = holders[holder]
        cells = itertools.product(*(range(s, s + (n - 1) * t + 1, t) for s, n, t in dims))
        firsts = [owner.offset + (40 * i + j) * owner.item_bytes for i, j in cells]
        if number == len(sets):
            sets.append({f + b for f in firsts for b in range(owner.item_bytes)})
    first, near = area.overlaps()
    for i, one in enumerate(sets):
        expected = {j for j, other in enumerate(sets) if j != i and one & other}
        assert set(near[first[i] : first[i + 1]].tolist()) == expected


def test_uncovered_names_the_first_element_left_out():
    area = Area([Holder("a", (4, 6), 4, 2, 0)])
    for starts, sizes in (((0, 0), (4, 6)), ((0, 0), (4, 3)), ((0, 3), (2, 3)), ((2, 3), (2, 3))):
        area.number(0, np.array([1]), [np.array([s]) for s in starts], sizes, (1, 1))
    assert area.boxes[2] == Box(0, 1, (0, 3), (2, 3), (1, 1))
    assert area.uncovered(0, [1, 2]) == (2, 3)
    assert area.uncovered(0, [1, 2, 3]) is None


def test_read_and_write_flags_follow_the_attribute():
    """matmul with accumulate=t overwrites in its first trip and adds in the others."""
    text = MATMUL.replace("accumulate=0", "accumulate=t")
    order = Order(parse(text), MACHINE)
    area = Area([Holder.of(b) for b in parse(text).buffers if b.name == "acc"])
    a = collect(order, family("systolic").ops, area, {})
    line = next(i for i, x in enumerate(order.lines) if len(x.place) == 8 and x.instruction.op == "matmul")
    assert a.flags[a.line == line].tolist() == [WRITE] + [READ | WRITE] * 7
    assert RaceFinder(order, area, a).written.tolist() == [True, True]
