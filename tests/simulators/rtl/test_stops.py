"""Does the chip stop with a code at words that have no meaning, and say where it stopped?"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.simulators.encoding import Image, encode
from presil.simulators.errors import Undefined
from presil.simulators.rtl import run
from presil.simulators.rtl.run import Chip
from presil.simulators.words import INSTRUCTIONS, MAX_LOOPS, SEMAPHORES, CountField, Word, width

from .kernels import kernel, library, machine

WORKLOAD = "matmul:m=9,n=7,k=10,dtype=int8"
ENGINES = 6
VECTOR = 4
SYNC = Word(opcode=4, engine=VECTOR)
NONE = (CountField(),) * 4


def counts(*some):
    return (*some, *NONE)[:4]


def loops(*trips):
    return (*trips, *(1,) * (MAX_LOOPS - len(trips)))


def executed(*streams, initial=(0,) * 8, max_cycles=5000):
    """Runs words as they are; gives what each stream issued. The last word of each stream ends it."""
    chip = Chip(library(4), ENGINES)
    try:
        ended = tuple((*words[:-1], replace(words[-1], last=1)) for words in streams)
        chip.load(Image(ended, initial, {}, 0))
        chip.run([f"s{i}" for i in range(len(streams))], max_cycles)
        return chip.counters()[5 + ENGINES :][: len(streams)]
    finally:
        chip.close()


def stopped(*streams, **options):
    with pytest.raises(Undefined) as caught:
        executed(*streams, **options)
    return str(caught.value)


def test_words_that_mean_something_run_to_the_end():
    assert executed((SYNC, SYNC, SYNC), (SYNC,)) == [3, 1]


def test_loops_are_counted():
    inner = replace(SYNC, depth=2, ends=2, trips=loops(3, 5), start=(0, 1, *(0,) * 8))
    assert executed((replace(SYNC, depth=1, trips=loops(3)), inner)) == [3 + 15]


@pytest.mark.parametrize("code", [0, 5, 99, 255])
def test_an_unknown_opcode(code):
    assert stopped((SYNC, replace(SYNC, opcode=code))) == (
        "stopped at stream s0, word 1: the chip stopped with error 1: opcode"
    )


def test_the_opcode_of_another_engine():
    """A store to the load channel, a matmul to the loader of weights, ..., each word in the second stream."""
    codes = {"load": 1, "store": 2, "shift": 16, "matmul": 17, "drain": 19, "relu": 27}
    own = {0: ("load",), 1: ("shift",), 2: ("matmul",), 3: ("drain",), 4: ("relu",), 5: ("store",)}
    for engine, ops in own.items():
        for op, code in codes.items():
            if op not in ops:
                told = stopped((SYNC,), (Word(opcode=code, engine=engine),))
                assert told.startswith("stopped at stream s1, word 0: the chip stopped with error "), (engine, op)
                assert told.endswith((": opcode", ": engine")), (engine, op)


@pytest.mark.parametrize("engine", range(ENGINES, 16))
def test_an_engine_that_does_not_exist(engine):
    assert stopped((replace(SYNC, engine=engine),)).endswith("stream s0, word 0: the chip stopped with error 2: engine")


@pytest.mark.parametrize(("depth", "ends"), [(MAX_LOOPS + 1, 0), (15, 0), (0, 1), (2, 3)])
def test_loops_that_cannot_be(depth, ends):
    assert stopped((replace(SYNC, depth=depth, ends=ends),)).endswith("error 3: loop")


@pytest.mark.parametrize("field", ["waits", "signals"])
def test_a_semaphore_that_does_not_exist(field):
    last = replace(SYNC, **{field: counts(CountField(1, SEMAPHORES - 1, 1))})
    beyond = replace(SYNC, **{field: counts(CountField(), CountField(1, SEMAPHORES, 1))})
    assert stopped((beyond,)).endswith("error 4: semaphore")
    if field == "signals":
        assert executed((last,)) == [1]


def test_a_semaphore_holds_2_to_the_20_and_not_one_more():
    """Tight: the last unit that fits is given, the next stops the chip."""
    full = replace(SYNC, signals=counts(CountField(1, 3, 1 << 20)))
    assert executed((full,)) == [1]
    assert stopped((full, replace(SYNC, signals=counts(CountField(1, 3, 1))), *(SYNC,) * 40)) == (
        "stopped at a semaphore: the chip stopped with error 5: overflow"
    )


def test_waits_take_what_they_say():
    """Tight: 5 units let 5 pass, and the sixth waits for ever."""
    wait = replace(SYNC, waits=counts(CountField(1, 2, 1)), depth=1, ends=1)
    assert executed((replace(wait, trips=loops(5)),), initial=(0, 0, 5)) == [5]
    told = stopped((replace(wait, trips=loops(6)),), initial=(0, 0, 5))
    assert told == "endless at s0: not ended after 5,000 cycles of the RTL"


def test_a_chip_that_stands_still_is_a_deadlock(monkeypatch):
    monkeypatch.setattr(run, "SLICE_CYCLES", 1000)
    wait = replace(SYNC, waits=counts(CountField(1, 2, 1)))
    assert stopped((wait,), (SYNC,), max_cycles=100_000) == (
        "deadlock at s0, s1: nothing has happened for 1,000 cycles of the RTL"
    )


def test_a_chip_at_work_is_no_deadlock(monkeypatch):
    """Slices end while it works, between any two of its instructions."""
    monkeypatch.setattr(run, "SLICE_CYCLES", 50)
    assert executed((replace(SYNC, depth=1, ends=1, trips=loops(500)),)) == [500]


@given(st.integers(0, (1 << width(Word)) - 1), st.integers(0, 7))
@settings(max_examples=60)
def test_any_bits_end_stop_or_are_cut_off(bits, stream):
    """No word, however wrong, brings down the simulation."""
    chip = Chip(library(4), ENGINES)
    try:
        chip.load(Image(((SYNC,),) * 8, (), {}, 0))
        chip.write_word(stream, 0, bits)
        chip.run([f"s{i}" for i in range(8)], 2000)
    except Undefined as told:
        assert told.kind in {"stopped", "endless", "deadlock"}  # noqa: PT017 - any of these is right
    finally:
        chip.close()


def broken(change):
    """The image of a kernel, with one word of it changed."""
    image = encode(kernel(WORKLOAD, 4), machine(4))
    streams = [list(words) for words in image.streams]
    streams[2][0] = change(streams[2][0])
    return replace(image, streams=tuple(map(tuple, streams)))


def test_a_kernel_with_a_broken_word_stops(monkeypatch):
    monkeypatch.setattr(run, "encode", lambda *_: broken(lambda word: replace(word, opcode=77)))
    name = kernel(WORKLOAD, 4).streams[2].name
    with pytest.raises(Undefined, match=f"stopped at stream {name}, word 0: the chip stopped with error 1: opcode"):
        run.run_rtl(kernel(WORKLOAD, 4), machine(4), library=library(4))


def test_a_kernel_that_lacks_a_signal_does_not_end(monkeypatch):
    monkeypatch.setattr(run, "encode", lambda *_: broken(lambda word: replace(word, signals=NONE)))
    with pytest.raises(Undefined, match=r"endless at .*: not ended after 20,000 cycles of the RTL"):
        run.run_rtl(kernel(WORKLOAD, 4), machine(4), library=library(4), max_cycles=20_000)


def test_the_memory_of_instructions_is_as_long_as_it_says():
    assert executed((SYNC,) * INSTRUCTIONS) == [INSTRUCTIONS]
