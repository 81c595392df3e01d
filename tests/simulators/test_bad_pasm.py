"""Programs that are broken, hostile or endless: each is refused at once with a message that says what and where.

What is wrong with the text alone is in `test_assembly_errors.py`; this is what a run of it meets.
"""

from __future__ import annotations

import time

import pytest

from presil.simulators import order
from presil.simulators.assembly import parse
from presil.simulators.errors import BadInput, PresilError, Undefined, Unsupported
from presil.simulators.legality import MAX_COUNT
from presil.simulators.sanitizer import sanitize
from presil.simulators.simulate import simulate

from .tiny import memory, tiny

GOOD = """\
program "copy" on "tiny"
workload "none"
tensor x: int8[64, 8] in @dram
tensor y: int8[64, 8] out @dram
buffer b: int8[8] x2 @scratchpad+0
semaphore full = 0
semaphore free = 2
stream load {
    loop i 64 {
        load b{i}, x[i +: 1, 0 +: 8] wait(free) signal(full)
    }
}
stream store {
    loop i 64 {
        store y[i +: 1, 0 +: 8], b{i} wait(full) signal(free)
    }
}
"""


def changed(old: str, new: str) -> str:
    assert old in GOOD, old
    return GOOD.replace(old, new, 1)


def test_the_program_that_the_others_are_made_from_is_right():
    for mode in ("skip", "full"):
        assert simulate(parse(GOOD), tiny(), mode=mode).timing.issued_instructions == 128
    assert sanitize(parse(GOOD), tiny()) == ()


REFUSED = {
    "an unknown buffer": (
        changed("store y[i +: 1, 0 +: 8], b{i}", "store y[i +: 1, 0 +: 8], bb{i}"),
        BadInput,
        "f.pasm:15:34: unknown buffer 'bb' (did you mean 'b'?); allowed: x, y, b",
    ),
    "a loop of 10^12": (
        changed("loop i 64 {\n        load", "loop i 1000000000000 {\n        load"),
        BadInput,
        "f.pasm:9:12: trips: found 1000000000000; allowed: 1 to 1000000000",
    ),
    "a loop that runs out of the tensor": (
        changed("loop i 64", "loop i 65"),
        Undefined,
        "bounds at stream load: load b, x: x dimension 0 reaches 0..64, but has 0..63",
    ),
    "a negative index": (
        changed("x[i +: 1", "x[i - 1 +: 1"),
        Undefined,
        "bounds at stream load: load b, x: x dimension 0 reaches -1..62, but has 0..63",
    ),
    "a negative size": (changed("x[i +: 1, 0 +: 8]", "x[i +: 1, 0 +: -8]"), BadInput, "f.pasm:10:35: size: found"),
    "a transfer of nothing": (
        changed("x[i +: 1, 0 +: 8]", "x[i +: 1, 0 +: 0]"),
        BadInput,
        "f.pasm:10:35: size: found 0",
    ),
    "a negative step": (changed("0 +: 8] wait", "7 +: 8 : -1] wait"), BadInput, "f.pasm:10:39: step: found"),
    "no trips": (changed("loop i 64", "loop i 0"), BadInput, "f.pasm:9:12: trips: found 0; allowed: 1 to"),
    "a tensor without elements": (
        changed("in @dram", "in @dram").replace("64, 8] in", "64, 0] in"),
        BadInput,
        "f.pasm:3:",
    ),
    "a buffer beyond the memory": (
        changed("@scratchpad+0", "@scratchpad+4088"),
        Undefined,
        "capacity at buffer b: ends at byte 4,104, but scratchpad of tiny has 4,096",
    ),
    "a ring beyond the memory": (
        changed("b: int8[8] x2", "b: int8[8] x513"),
        Undefined,
        "capacity at buffer b: ends at byte 4,104, but scratchpad of tiny has 4,096",
    ),
    "an offset between elements": (
        changed("buffer b: int8[8] x2 @scratchpad+0", "buffer b: int32[8] x2 @scratchpad+2"),
        BadInput,
        "buffer b: slots must be 1 or more, offset a multiple of the element size from 0",
    ),
    "an unknown space": (
        changed("@scratchpad", "@weights"),
        BadInput,
        "buffer b: tiny has no space 'weights'; it has: scratchpad, accumulator, planes, results",
    ),
    "an unknown memory": (
        changed("out @dram", "out @hbm"),
        BadInput,
        "tensor y: tiny has no memory 'hbm'; it has: dram",
    ),
    "tensors beyond the memory": (
        changed("x: int8[64, 8]", "x: int8[1073741825, 8]"),
        Undefined,
        "capacity at memory dram: x, y take 8,589,935,112 bytes, but tiny has 1,073,741,824",
    ),
    "an instruction of another family": (
        changed("load b{i}, x", "lode b{i}, x"),
        BadInput,
        "stream load: lode b, x: systolic machines have no 'lode' (did you mean 'load'?)",
    ),
    "an input that is stored to": (
        changed("store y[", "store x["),
        Undefined,
        "input-written at stream store: store x, b: x is an input",
    ),
    "too many operands": (
        changed("store y[i +: 1, 0 +: 8], b{i}", "store y[i +: 1, 0 +: 8], b{i}, b{i}"),
        BadInput,
        "stream store: store y, b, b: 3 operands; store takes tensor, buffer",
    ),
    "an unknown attribute": (
        changed("wait(full)", "accumulate=1 wait(full)"),
        BadInput,
        "stream store: store y, b: unknown attribute 'accumulate'",
    ),
    "a unit the machine has not": (
        changed("stream load {", "stream load unit 2 {"),
        Unsupported,
        "unit 2: there are 2 channels",
    ),
    "a count beyond all counters": (
        changed("signal(full)", f"signal(full, {MAX_COUNT + 1})"),
        BadInput,
        "stream load: load b, x: 1048577 of semaphore full; allowed: 1 to 1,048,576",
    ),
    "a start beyond all counters": (
        changed("free = 2", f"free = {MAX_COUNT + 1}"),
        BadInput,
        "semaphore free: starts at 1048577; allowed: 0 to 1,048,576",
    ),
    "more cores than there are": (
        changed('workload "none"\n', 'workload "none"\ngrid core=2 static\n'),
        Unsupported,
        "the grid has 2 instances, but tiny has 1 cores",
    ),
    "a dispatcher": (
        changed('workload "none"\n', 'workload "none"\ngrid core=1 dispatch\n'),
        Unsupported,
        "tiny has no dispatcher: place must be static",
    ),
    "a signal to another core": (
        changed("signal(full)", "signal(full, 1, core=0)"),
        Unsupported,
        "tiny has no links between cores",
    ),
    "a deadlock": (
        changed("free = 2", "free = 0"),
        Undefined,
        (
            "deadlock at copy: stream load waits for 1 of free (has 0) before load b, x; "
            "only a signal in stream store would free it; stream store waits for 1 of full (has 0) before store y, b; "
            "only a signal in stream load would free it"
        ),
    ),
}


@pytest.mark.parametrize("mode", ["skip", "full"])
@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_in_words(name, mode):
    text, kind, message = REFUSED[name]
    with pytest.raises(PresilError) as caught:
        simulate(parse(text, "f.pasm"), tiny(), mode=mode)
    assert message in str(caught.value)
    assert type(caught.value) is kind


@pytest.mark.parametrize("end", range(8, len(GOOD) - 2, 7))
def test_a_file_that_is_cut_off_is_refused_where_it_ends(end):
    text = GOOD[:end]
    with pytest.raises((BadInput, Undefined)) as caught:
        simulate(parse(text, "f.pasm"), tiny(), mode="full")
    error = caught.value
    if isinstance(error, BadInput):
        assert error.file == "f.pasm"
        assert 1 <= (error.line or 0) <= text.count("\n") + 1
    else:  # cut between two declarations it is a program, but not one that stores its output
        assert error.kind in {"unstored", "deadlock"}


def test_a_file_that_is_cut_off_in_a_loop_says_which():
    with pytest.raises(BadInput, match=r"f.pasm:11:1: the file ends inside loop 'i' of line 9: its '}' is missing"):
        parse(GOOD[: GOOD.index("    }\n")], "f.pasm")


ENDLESS = GOOD.replace("x[i +: 1", "x[0 +: 1").replace("y[i +: 1", "y[0 +: 1").replace("loop i 64", "loop i 1000000000")


def test_a_billion_steady_trips_are_jumped_over():
    timing = simulate(parse(ENDLESS), tiny()).timing
    assert timing.issued_instructions == 2 * 10**9
    assert timing.executed_instructions < 200
    # Steady: both directions share the link, 8 bytes each way at 4 a cycle, or the ring of two: two slots go round in
    # 2 + 20 cycles there and 2 + 20 back.
    assert timing.cycles == pytest.approx(10**9 * 44 / 2, rel=1e-6)


def test_a_stream_that_never_ends_is_ended():
    nest = "{body}"
    for depth in range(9):
        nest = nest.replace("{body}", f"loop l{depth} 1000000000 {{\n{{body}}\n}}")
    text = changed("loop i 64 {\n        store y[i +: 1, 0 +: 8], b{i} wait(full) signal(free)\n    }", nest)
    text = text.replace("{body}", "store y[0 +: 1, 0 +: 8], b{0}").replace("wait(free) signal(full)", "")
    program = parse(text)
    began = time.process_time()
    timing = simulate(program, tiny()).timing  # 10^81 stores, nested nine deep: a jump for each loop
    assert timing.issued_instructions == 10**81 + 64
    assert timing.executed_instructions < 10_000
    with pytest.raises(
        Unsupported, match=r"copy issues 1,000,.* instructions; at most 50,000,000 are executed one by one"
    ):
        simulate(program, tiny(), mode="full")
    assert time.process_time() - began < 5


def test_a_count_that_grows_beyond_all_counters_is_refused():
    text = ENDLESS.replace("signal(full)\n", "signal(full) signal(more)\n").replace(
        "semaphore full", "semaphore more = 0\nsemaphore full"
    )
    with pytest.raises(Undefined, match=r"overflow at .*more.* 1,048,576"):
        simulate(parse(text), tiny())


def test_astronomic_tensors_can_be_timed_but_not_held():
    text = GOOD.replace("[64, 8]", "[1099511627776, 8]")
    machine = tiny(memories={"dram": memory(capacity=1 << 50)})
    assert simulate(parse(text), machine).timing.issued_instructions == 128
    with pytest.raises(Unsupported, match=r"copy: tensors and on-chip memories of 17,592,186,0.* bytes; at most"):
        simulate(parse(text), machine, mode="full")


def test_buffers_that_share_bytes_are_caught_when_their_lives_collide():
    shared = (
        changed("semaphore full", "buffer c: int8[8] x1 @scratchpad+4\nsemaphore full")
        + "stream other unit 1 {\n    load c{0}, x[0 +: 1, 0 +: 8]\n}\n"
    )
    faults = sanitize(parse(shared), tiny())
    assert {f.kind for f in faults} == {"race"}
    apart = shared.replace("@scratchpad+4", "@scratchpad+16")
    assert sanitize(parse(apart), tiny()) == ()


def _chain(streams: int, trips: int) -> str:
    """Each stream waits for the one behind it, so that news of the last reaches the first after as many rounds."""
    semaphores = "".join(f"semaphore s{i} = 0\n" for i in range(streams))
    text = GOOD[: GOOD.index("semaphore")] + semaphores
    for i in range(streams - 1):
        text += f"stream c{i} {{\n loop i {trips} {{\n sync wait(s{i + 1}) signal(s{i})\n }}\n}}\n"
    return text + f"stream last {{\n loop i {trips} {{\n sync signal(s{streams - 1})\n }}\n}}\n"


def test_too_many_waits_to_judge_are_a_limit_in_bounded_time_and_memory(monkeypatch):
    """12 GB and hours, before there were limits."""
    began = time.process_time()
    (fault,) = sanitize(parse(_chain(200, 40_000)), tiny())
    assert (fault.kind, fault.where) == ("limit", "copy")
    # 199 streams wait 40,000 times, and each has a beginning.
    assert fault.detail == (
        "200 streams on engines and 7,960,200 waits make 1,592,040,000 pairs; at most 200,000,000 can be judged"
    )
    monkeypatch.setattr(order, "MAX_STEPS", 1_000_000)
    (fault,) = sanitize(parse(_chain(50, 100)), tiny())
    assert (fault.kind, fault.where) == ("limit", "copy")
    assert "news of completions takes too many ways" in fault.detail
    assert time.process_time() - began < 20


def test_a_chain_of_streams_within_the_limits_is_judged():
    assert {f.kind for f in sanitize(parse(_chain(20, 100)), tiny())} == {"leftover", "unstored"}
