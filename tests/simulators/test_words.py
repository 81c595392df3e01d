"""Do words keep what is packed into them, and does the sequencer's reference walk loops as a program does?"""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.simulators.errors import Unsupported
from presil.simulators.words import (
    COUNTS,
    DIMS,
    ERRORS,
    MAX_LOOPS,
    OPERANDS,
    SPACES,
    CountField,
    OperandField,
    Word,
    commands,
    pack,
    steps,
    unpack,
    width,
)

GROUPS = (CountField, OperandField, Word)


def values(meta):
    """What one element of a field may hold; its extremes often."""
    if "of" in meta:
        return groups(meta["of"])
    size = meta["width"]
    low, high = (-(1 << (size - 1)), (1 << (size - 1)) - 1) if meta["signed"] else (0, (1 << size) - 1)
    return st.sampled_from([low, high]) | st.integers(low, high)


def groups(of):
    fields = {}
    for f in dataclasses.fields(of):
        one, count = values(f.metadata), f.metadata["count"]
        fields[f.name] = st.tuples(*[one] * count) if count > 1 else one
    return st.builds(of, **fields)


@given(st.sampled_from(GROUPS).flatmap(groups))
def test_what_is_packed_comes_back(group):
    bits = pack(group)
    assert 0 <= bits < 1 << width(type(group))
    assert unpack(type(group), bits) == group


@given(st.data())
def test_any_bits_are_some_word(data):
    of = data.draw(st.sampled_from(GROUPS))
    bits = data.draw(st.integers(0, (1 << width(of)) - 1))
    assert pack(unpack(of, bits)) == bits


def test_widths_by_hand():
    assert width(CountField) == 1 + 6 + 21
    assert width(OperandField) == 3 + 3 + 3 * 32 + DIMS * (24 + 32) + 2 * MAX_LOOPS * 32
    loops = MAX_LOOPS * (21 + 12)
    assert width(Word) == 8 + 3 * 4 + 1 + loops + 8 * 28 + 3 * width(OperandField) + (1 + MAX_LOOPS) * 32 + 64


def test_the_first_field_is_the_most_significant_and_element_0_the_least():
    """As SystemVerilog packs structs and arrays."""
    assert pack(CountField(1, 2, 3)) == 1 << 27 | 2 << 21 | 3
    assert pack(Word(opcode=1)) == 1 << (width(Word) - 8)
    assert pack(Word(immediate1=5)) == 5
    sizes = width(OperandField) - 6 - 3 * 32 - DIMS * 24  # bits below the sizes
    assert pack(OperandField(size=(7, 0, 0, 0))) == 7 << sizes
    assert pack(OperandField(size=(0, 0, 0, 7))) == 7 << (sizes + 3 * 24)


def test_negative_values_are_twos_complement():
    step = (*(0,) * (MAX_LOOPS - 1), -1)
    top = MAX_LOOPS * 32 * 2  # ring steps below, then the steps themselves
    assert pack(OperandField(step=step)) == 0xFFFFFFFF << (top - 32)


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (CountField(1, 64), r"semaphore = 64 does not fit the RTL's word; allowed: 0 to 63"),
        (CountField(1, 0, 1 << 21), r"amount = 2097152 does not fit .* 0 to 2097151"),
        (OperandField(address=-1), r"address = -1 does not fit .* 0 to 4294967295"),
        (OperandField(stride=(0, 0, 0, 1 << 31)), r"stride = 2147483648 .* -2147483648 to 2147483647"),
        (Word(trips=(1 << 21, *(1,) * (MAX_LOOPS - 1))), r"trips = 2097152"),
        (Word(accumulate=-(1 << 31) - 1), r"accumulate = -2147483649"),
    ],
)
def test_what_does_not_fit_is_refused(group, message):
    with pytest.raises(Unsupported, match=message):
        pack(group)


def test_every_number_has_a_name():
    """The fields that hold them are 3 and 4 bits wide."""
    assert len(SPACES) <= 8
    assert len(ERRORS) <= 16
    assert (OPERANDS, COUNTS, len(set(SPACES)), len(set(ERRORS))) == (3, 4, len(SPACES), len(ERRORS))


NESTS = st.lists(st.integers(1, 4), min_size=0, max_size=5)


@given(NESTS.flatmap(lambda trips: st.tuples(st.just(trips), st.tuples(*[st.integers(-9, 9)] * len(trips)))))
def test_steps_walk_an_affine_value_without_multiplying(nest):
    """An oracle of its own: all values of the loops in order, and the value computed by multiplication."""
    trips, coefficients = nest
    found, at = [], 5
    order = list(itertools.product(*[range(n) for n in trips]))
    for here, then in itertools.pairwise([*order, order[0]]):
        found.append(at)
        turning = max((d for d, n in enumerate(trips) if here[d] < n - 1), default=None)
        if turning is None:
            assert then == order[0]
        else:
            at += steps(coefficients, trips)[turning]
    assert found == [5 + sum(c * i for c, i in zip(coefficients, turn, strict=True)) for turn in order]


def loops(*trips):
    return (*trips, *(1,) * (MAX_LOOPS - len(trips)))


def test_the_order_of_a_nest_that_begins_and_ends_in_different_words():
    """a; loop 2 { b; loop 3 { c }; d }; e"""
    a = Word(opcode=1)
    b = Word(opcode=2, depth=1, trips=loops(2), start=(1, *(0,) * 9))
    c = Word(opcode=3, depth=2, ends=1, trips=loops(2, 3), start=(1, 2, *(0,) * 8))
    d = Word(opcode=4, depth=1, ends=1, trips=loops(2), start=(1, *(0,) * 9))
    e = Word(opcode=5, last=1)
    assert [x.word.opcode for x in commands([a, b, c, d, e])] == [1, *[2, 3, 3, 3, 4] * 2, 5]


def test_a_word_that_ends_two_loops_and_the_stream():
    """loop 2 { a; loop 2 { b } }"""
    a = Word(opcode=1, depth=1, trips=loops(2), start=(0,) * 10)
    b = Word(opcode=2, depth=2, ends=2, trips=loops(2, 2), start=(0, 1, *(0,) * 8), last=1)
    assert [x.word.opcode for x in commands([a, b])] == [1, 2, 2, 1, 2, 2]


def test_a_ring_wraps_and_an_accumulate_runs():
    """Slots of 8 bytes, 3 of them, from the second on; accumulate = 2 - turn."""
    x = OperandField(space=2, address=100, ring=8, ring_bytes=24, ring_step=(8, *(0,) * 9), step=(1, *(0,) * 9))
    word = Word(
        depth=1, ends=1, last=1, trips=loops(5), operands=(x, OperandField(), OperandField()),
        accumulate=2, accumulate_step=(-1, *(0,) * 9),
    )  # fmt: skip
    issued = list(commands([word]))
    assert [c.addresses[0] for c in issued] == [108, 101 + 16, 102, 103 + 8, 104 + 16]
    assert [c.accumulate for c in issued] == [2, 1, 0, -1, -2]
