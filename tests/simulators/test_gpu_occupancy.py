"""How many blocks an SM holds: each limit by hand. H100: 65,536 registers, 2048 threads, 228 KiB of shared memory."""

from __future__ import annotations

import pytest

from presil.simulators.errors import BadInput, Undefined, Unsupported
from presil.simulators.family import family
from presil.simulators.gpu.occupancy import slots, threads

from .gpu_parts import A100, H100, changed, program

COPIES = """
tensor x: bf16[64, 64] in @hbm
buffer xs: bf16[64, 64] x1 @shared+0
stream c { copy xs{0}, x }
"""
SUMS = """
buffer acc: fp32[64, 64] x1 @registers+0
stream m { fill acc{0} value=0.0 }
"""


def shared(kib: int) -> str:
    return f"buffer s: int8[{kib}, 1024] x1 @shared+0\n"


def test_a_stream_that_only_copies_is_a_warp_and_any_other_a_warpgroup():
    found = program(COPIES + SUMS)
    assert [threads(stream) for stream in found.streams] == [32, 128]
    waits = program(COPIES.replace("stream c {", "semaphore f = 1\nstream c {\nsync wait(f)\n"))
    assert threads(waits.streams[0]) == 128


@pytest.mark.parametrize(
    ("text", "machine", "wanted"),
    [
        # 16,384 bytes are 32 registers of each of 128 threads; 32 more for addresses: 64 * 128 = 8192 of 65,536.
        (SUMS, H100, 8),
        # And a warp of 24 registers: 8192 + 768 = 8960; 7.3 fit.
        (SUMS + COPIES, H100, 7),
        # The same on an A100, whose copying warp has 40: 8192 + 1280 = 9472; 6.9 fit.
        (SUMS + COPIES, A100, 6),
        # One register of each thread: 33, given out by eights: 40 * 128 = 5120; 12.8 fit.
        ("buffer a: fp32[1, 128] x1 @registers+0\nstream m { fill a{0} value=0.0 }", H100, 12),
        # 65 KiB with the kilobyte of the system: 3 in 228 KiB, 2 in 164.
        (SUMS + shared(64), H100, 3),
        (SUMS + shared(64), A100, 2),
        # 113 + 1 fit twice, one KiB more does not.
        (SUMS + shared(113), H100, 2),
        (SUMS + shared(114), H100, 1),
        (SUMS + shared(227), H100, 1),
        # A buffer further back takes what is before it too.
        (SUMS + "buffer s: int8[1024] x1 @shared+115712\n", H100, 1),  # 114 KiB and 1 and 1
        # Copies alone: 32 blocks are the most. Three warps of them: 2048 / 96 = 21.3.
        (COPIES.replace("bf16[64, 64]", "bf16[8, 8]"), H100, 32),
        (
            "tensor x: bf16[8] in @hbm\nbuffer xs: bf16[8] x3 @shared+0\n"
            + "".join(f"stream c{i} {{ copy xs{{{i}}}, x }}\n" for i in range(3)),
            H100,
            21,
        ),
    ],
)
def test_blocks_of_one_sm(text, machine, wanted):
    assert slots(program(text, machine), machine) == wanted
    # One that is persistent is alone.
    assert slots(program(text, machine, "grid b=1 persistent"), machine) == 1


def test_buffers_on_the_same_bytes_share_their_registers():
    # bf16 [64, 64] in the first half of the sums: still 64 registers. Behind them: 16 more, 80 * 128 = 10240, 6.4 fit.
    text = SUMS.replace("value=0.0", "value=0.0\ncast h{0}, acc{0}\n")
    assert slots(program("buffer h: bf16[64, 64] x1 @registers+0\n" + text), H100) == 8
    assert slots(program("buffer h: bf16[64, 64] x1 @registers+8192\n" + text), H100) == 8
    assert slots(program("buffer h: bf16[64, 64] x1 @registers+16384\n" + text), H100) == 6
    # Half in, half out: 24,576 - 4096 bytes are 40 registers; 72 * 128 = 9216, 7.1 fit.
    assert slots(program("buffer h: bf16[64, 64] x1 @registers+12288\n" + text), H100) == 7


def test_registers_are_private():
    two = SUMS + "stream n { fill acc{0} value=1.0 }\n"
    with pytest.raises(Unsupported, match="registers are private: acc is named by streams m and n"):
        program(two)
    # Shared memory is not.
    text = """
    tensor x: bf16[64, 64] in @hbm
    buffer xs: bf16[64, 64] x2 @shared+0
    semaphore full = 0
    stream c { copy xs{0}, x signal(full) }
    stream d { copy xs{1}, x wait(full) }
    """
    program(text)


def test_a_thread_has_255_registers():
    # 111 KiB are 222 registers a thread and 32 for the rest: 254, given out as 256. 110 KiB: 252, 256 too; 108: 248.
    def held(kib: int) -> str:
        return f"buffer a: int8[{kib}, 1024] x1 @registers+0\nstream m {{ fill a{{0}} value=0 }}\n"

    assert slots(program(held(108)), H100) == 2  # 248 * 128 = 31,744 of 65,536
    for kib in (110, 111, 200):
        with pytest.raises(Unsupported, match=r"stream m takes \d+ registers per thread; h100 has 255"):
            program(held(kib))


def test_what_does_not_fit_is_refused_by_name():
    four = "".join(
        f"buffer a{i}: fp32[64, 256] x1 @registers+{65536 * i}\nstream m{i} {{ fill a{i}{{0}} value=0.0 }}\n"
        for i in range(4)
    )
    # Each holds 128 registers a thread and 32 more: 4 * 160 * 128 = 81,920 of 65,536.
    with pytest.raises(Unsupported, match="not one block fits on an SM of h100: registers"):
        program(four)
    # The limit of shared memory of one block says it sooner, in bytes: 227 KiB.
    with pytest.raises(Undefined, match="ends at byte 233,472, but shared of h100 has 232,448"):
        program(SUMS + shared(228))
    few = changed(H100, "occupancy", threads=128)
    with pytest.raises(Unsupported, match="not one block fits on an SM of h100: threads"):
        program(SUMS + COPIES, few)


def test_blocks_are_dispatched_or_persistent():
    with pytest.raises(Unsupported, match="place must be dispatch or persistent"):
        program(SUMS, grid="grid b=1 static")


def test_spaces_of_a_block():
    assert family("gpu").spaces(H100) == {"shared": 227 * 1024, "registers": 256 * 1024}
    assert family("gpu").spaces(A100) == {"shared": 163 * 1024, "registers": 256 * 1024}
    with pytest.raises(BadInput, match="h100 has no space 'l2'; it has: shared, registers"):
        program("buffer s: int8[8] x1 @l2+0\nstream m { sync }")
