"""Do the words of a program issue what the program executes, and is what the RTL cannot hold refused in words?"""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presil.kernels.operators import parse_workload
from presil.simulators.assembly import parse
from presil.simulators.encoding import encode
from presil.simulators.errors import Unsupported
from presil.simulators.family import family
from presil.simulators.formats import size_bytes
from presil.simulators.machine import load_machine
from presil.simulators.program import (
    Affine,
    Buffer,
    Count,
    Dim,
    Instruction,
    Loop,
    Program,
    Region,
    Semaphore,
    Stream,
    Tensor,
    executed,
)
from presil.simulators.words import DIMS, MAX_LOOPS, SPACES, CountField, Word, commands, pack, unpack

from .drawn import legal_schedules, lowered
from .pipelines import MATMUL
from .strategies import affines
from .tiny import tiny

MACHINE = tiny(dma={"load_channels": 1})
X = Tensor("x", "int8", (9, 20), "in", "dram")
Y = Tensor("y", "int32", (7, 11), "out", "dram")
XB = Buffer("xb", "int8", (3, 6), 3, "scratchpad", 5)
ACC = Buffer("acc", "int32", (3, 5), 2, "accumulator", 40)
YB = Buffer("yb", "int32", (3, 5), 2, "scratchpad", 100)
RESULTS = Buffer("sums", "int32", (3, 5), 2, "results", 0)
DATA = (X, Y, XB, ACC, YB, RESULTS)
SEMAPHORES = (Semaphore("s", 3), Semaphore("t"))
STORE = "store y[0 +: 1, 32*m +: 32, 16*n +: 16], "
# The matmul, whose sums go to memory by way of the scratchpad: the chip's DMA reads no accumulator.
RTL_MATMUL = MATMUL.replace(
    f"{STORE}acc{{4*m + n}} wait(a_full, 1) signal(a_free, 1)",
    f"bias yb{{0}}, acc{{4*m + n}} wait(a_full, 1) signal(a_free, 1) signal(y_full, 1)\n{STORE}yb{{0}} wait(y_full, 1)",
).replace("semaphore x_full", "buffer yb: int32[32, 16] x1 @scratchpad+2048\nsemaphore y_full = 0\nsemaphore x_full")


def first_byte(region, owner, values, bases):
    """Where the first element of a region lies: tensors at their base, buffers at their offset and slot."""
    strides = [math.prod(owner.shape[i + 1 :]) for i in range(len(owner.shape))]
    at = sum(d.start.at(values) * n for d, n in zip(region.dims, strides, strict=False)) * size_bytes(owner.dtype)
    if isinstance(owner, Tensor):
        return bases[owner.name] + at
    slot = region.slot.at(values) % owner.slots
    if owner.space in {"planes", "results"}:
        return slot
    return owner.offset + slot * math.prod(owner.shape) * size_bytes(owner.dtype) + at


def assert_issues_what_is_executed(program, machine):
    image = encode(program, machine)
    names = {s.name: i for i, s in enumerate(program.semaphores)}
    engines = family(machine.family).engines(machine)
    for stream, words in zip(program.streams, image.streams, strict=True):
        kept = [unpack(Word, pack(word)) for word in words]
        assert kept == list(words)
        for command, (node, values) in zip(commands(kept), executed(stream.body, {}), strict=True):
            word = command.word
            assert word.opcode == family(machine.family).opcodes[node.op]
            price = family(machine.family).cost(node, stream.unit, program, machine)
            assert engines[word.engine] == price.engine
            for region, address, operand in zip(node.operands, command.addresses, word.operands, strict=False):
                owner = program.buffer(region.name) or program.tensor(region.name)
                assert address == first_byte(region, owner, values, image.bases), (node, values)
                assert SPACES[operand.space] == ("memory" if isinstance(owner, Tensor) else owner.space)
                assert operand.element_bytes == size_bytes(owner.dtype)
            assert [o.space for o in word.operands[len(node.operands) :]] == [0] * (3 - len(node.operands))
            accumulate = node.attribute("accumulate", 0)
            wanted = accumulate.at(values) if isinstance(accumulate, Affine) else accumulate
            assert command.accumulate == wanted
            for counts, fields in ((node.waits, word.waits), (node.signals, word.signals)):
                taken = [(f.semaphore, f.amount) for f in fields if f.valid]
                assert taken == [(names[c.semaphore], c.n) for c in counts]


@st.composite
def dims(draw, extent, scope):
    """A dimension inside `extent` for all values of the loops, that goes up or down with each."""
    size = draw(st.integers(1, extent))
    room, start = extent - size, Affine()
    for name, trips in scope:
        factor = draw(st.integers(0, room // max(1, trips - 1)))
        room -= factor * (trips - 1)
        down = draw(st.booleans())
        start += Affine.var(name, -factor if down else factor) + (factor * (trips - 1) if down else 0)
    return Dim(start + draw(st.integers(0, room)), size)


@st.composite
def regions(draw, owner, scope):
    slot = draw(affines(scope, 9)) if isinstance(owner, Buffer) else None
    if isinstance(owner, Buffer) and owner.space == "results":
        return Region(owner.name, slot)
    return Region(owner.name, slot, tuple(draw(dims(n, scope)) for n in owner.shape))


@st.composite
def instructions(draw, scope):
    op, owners = draw(st.sampled_from([("load", (XB, X)), ("store", (Y, YB)), ("drain", (ACC, RESULTS))]))
    attributes = ()
    if op == "drain":
        accumulate = draw(affines(scope, 5))
        attributes = (("accumulate", accumulate if accumulate.terms else accumulate.base),)
    counts = st.lists(st.builds(Count, st.sampled_from(["s", "t"]), st.integers(1, 9)), max_size=2).map(tuple)
    operands = tuple(draw(regions(owner, scope)) for owner in owners)
    return Instruction(op, operands, attributes, draw(counts), draw(counts))


@st.composite
def nodes(draw, scope):
    """An instruction or a loop; a loop may begin or end with one, so words begin and end several."""
    if len(scope) < 4 and draw(st.booleans()):
        name, trips = f"i{len(scope)}", draw(st.integers(1, 3))
        inner = nodes((*scope, (name, trips)))
        return Loop(name, trips, tuple(draw(st.lists(inner, min_size=1, max_size=2))))
    return draw(instructions(scope))


@st.composite
def programs(draw):
    streams = [
        Stream(f"s{i}", tuple(draw(st.lists(nodes(()), min_size=1, max_size=2))))
        for i in range(draw(st.integers(1, 2)))
    ]
    tensors = tuple(t for t in DATA if isinstance(t, Tensor))
    buffers = tuple(b for b in DATA if isinstance(b, Buffer))
    return Program("drawn", "tiny", "", tensors, buffers, SEMAPHORES, tuple(streams))


@given(programs())
def test_words_issue_what_the_program_executes(program):
    assert_issues_what_is_executed(program, MACHINE)


@pytest.mark.parametrize("machine", ["gemmini-16", "systolic-4"])
@pytest.mark.parametrize(
    "workload",
    [
        "matmul:m=40,n=24,k=32,dtype=int8",
        "matmul:m=5,n=9,k=7,dtype=int8,out=int8,bias=yes,activation=relu",
        "conv2d:n=2,h=9,w=7,c=20,f=18,r=3,s=3,padding=1,stride=2,dtype=int8",
    ],
)
def test_words_issue_what_emitted_programs_execute(machine, workload):
    task, target = parse_workload(workload), load_machine(machine)
    schedules = list(itertools.islice(legal_schedules(task, target, seed=1), 8))
    assert len(schedules) == 8
    for schedule in schedules:
        assert_issues_what_is_executed(lowered(task, target, schedule), target)


def test_tensors_lie_one_behind_the_other_on_lines_of_64_bytes():
    image = encode(parse(RTL_MATMUL), load_machine("gemmini-16"))
    assert image.bases == {"x": 0, "w": 64 * 96, "y": 2 * 64 * 96}
    assert image.memory_bytes == 2 * 64 * 96 + 64 * 64 * 4
    odd = Program("p", "tiny", "", (X, Y), (XB,), (), (Stream("s", (Instruction("load", (WHOLE_XB, PART_X)),)),))
    assert encode(odd, MACHINE).bases == {"x": 0, "y": 192}  # 180 bytes of x
    assert encode(odd, MACHINE).memory_bytes == 192 + 320  # 308 bytes of y


WHOLE_XB = Region("xb", Affine())
PART_X = Region("x", None, (Dim(Affine(), 3), Dim(Affine(), 6)))


def test_semaphores_start_as_the_program_says():
    image = encode(parse(RTL_MATMUL), load_machine("gemmini-16"))
    assert image.initial == (0, 0, 2, 0, 2, 0, 2, 0, 2)


def test_a_word_by_hand():
    """The load of x in the matmul: loops m, n, k; a tile of 32 by 16 bytes out of rows of 96; slots of 512 bytes."""
    word = encode(parse(RTL_MATMUL), load_machine("gemmini-16")).streams[0][0]
    to, source = word.operands[:2]
    assert (word.depth, word.ends, word.last, word.trips[:4], word.start[:3]) == (3, 3, 1, (2, 4, 6, 1), (0, 0, 0))
    assert (to.address, to.ring, to.ring_bytes, to.size, to.stride) == (0, 0, 1024, (1, 1, 1, 512), (0, 0, 0, 1))
    assert to.ring_step[:3] == (512, 512, 512)  # the slot goes on by one at each turn
    assert (source.size, source.stride) == ((1, 1, 32, 16), (0, 0, 96, 1))
    # m turns: 32 rows down, back by 5 tiles of k; n: back to the first tile of k; k: a tile on.
    assert source.step[:4] == (32 * 96 - 80, -80, 16, 0)
    assert word.waits[0] == CountField(1, 2, 1)
    assert word.signals[0] == CountField(1, 1, 1)


def with_stream(*body, semaphores=SEMAPHORES, **changes):
    tensors, buffers = (X, Y), (XB, ACC, YB, RESULTS)
    return Program("p", "tiny", "", tensors, buffers, semaphores, (Stream("s", body),), **changes)


LOAD = Instruction("load", (WHOLE_XB, PART_X))


def deep(levels):
    node = LOAD
    for i in range(levels):
        node = Loop(f"i{i}", 2, (node,))
    return node


def test_as_many_loops_as_the_rtl_has():
    assert encode(with_stream(deep(MAX_LOOPS)), MACHINE).streams[0][0].ends == MAX_LOOPS
    with pytest.raises(Unsupported, match=f"load: 11 open loops; the RTL has {MAX_LOOPS}"):
        encode(with_stream(deep(MAX_LOOPS + 1)), MACHINE)


def test_as_many_counts_as_the_rtl_has():
    four = replace(LOAD, waits=(Count("s"),) * 4, signals=(Count("t", 2),) * 4)
    assert [w.valid for w in encode(with_stream(four), MACHINE).streams[0][0].waits] == [1] * 4
    for five in (replace(LOAD, waits=(Count("s"),) * 5), replace(LOAD, signals=(Count("s"),) * 5)):
        with pytest.raises(Unsupported, match="load: 5 waits or signals; the RTL has 4"):
            encode(with_stream(five), MACHINE)


def test_as_many_semaphores_as_the_rtl_has():
    def many(n):
        return with_stream(LOAD, semaphores=tuple(Semaphore(f"s{i}") for i in range(n)))

    assert len(encode(many(64), MACHINE).initial) == 64
    with pytest.raises(Unsupported, match="p: 65 semaphores; the RTL has 64"):
        encode(many(65), MACHINE)


def test_boxes_of_too_many_dimensions_are_refused_and_those_that_merge_are_not():
    shape = (3,) * (DIMS + 1)
    tensor = Tensor("x", "int8", shape, "in", "dram")
    tile = Buffer("xb", "int8", (2,) * (DIMS + 1), 1, "scratchpad", 0)
    corner = Region("x", None, tuple(Dim(Affine(), 2) for _ in shape))
    load = Instruction("load", (Region("xb", Affine()), corner))
    program = Program("p", "tiny", "", (tensor,), (tile,), (), (Stream("s", (load,)),))
    with pytest.raises(Unsupported, match="x: a box of 5 dimensions; the RTL walks 4"):
        encode(program, MACHINE)
    whole_rows = replace(tile, shape=(2, 2, 2, 2, 3))
    rows = Region("x", None, (*(Dim(Affine(), 2) for _ in range(DIMS)), Dim(Affine(), 3)))
    fits = replace(
        program, buffers=(whole_rows,), streams=(Stream("s", (replace(load, operands=(load.operands[0], rows)),)),)
    )
    assert encode(fits, MACHINE).streams[0][0].operands[1].size == (2, 2, 2, 6)


def test_other_refusals():
    with pytest.raises(Unsupported, match="p runs on 4 cores; the RTL has one"):
        encode(with_stream(LOAD, grid=(("c", 4),)), MACHINE)
    with pytest.raises(Unsupported, match="stream s: 0 instructions; the RTL holds 1 to"):
        encode(with_stream(), MACHINE)
    half = replace(with_stream(LOAD), tensors=(replace(X, dtype="bf16"), Y), buffers=(replace(XB, dtype="bf16"),))
    with pytest.raises(Unsupported, match="load: bf16; the RTL computes int8 and int32"):
        encode(half, MACHINE)
    wide = replace(LOAD, op="exp")
    with pytest.raises(Unsupported, match="the RTL has no exp; it has: load, store"):
        encode(with_stream(wide), MACHINE)
