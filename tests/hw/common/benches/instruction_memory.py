"""Bench of `instruction_memory`: words written in random order and read in the same cycles, against a dict."""

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from tests.hw.bins import Bins
from tests.hw.signals import begin, noise, parameters, rounds

from presil.simulators.words import Word, width

INSTRUCTIONS = parameters()["Instructions"]


@cocotb.test()
async def words_are_read_where_they_were_written(dut):
    await begin(dut)
    rng, words = noise(), {}
    bins = Bins(
        written=range(INSTRUCTIONS), read=range(INSTRUCTIONS), again=(0, 1), meanwhile=(0, 1), kept=(0, 1)
    )  # fmt: skip
    for _ in range(10 * rounds()):
        write, pc = int(rng.integers(2)), int(rng.integers(INSTRUCTIONS))
        word = int.from_bytes(rng.bytes(width(Word) // 8 + 1)) % (1 << width(Word))
        dut.write_i.value, dut.write_pc_i.value, dut.write_word_i.value = write, pc, word
        read = pc if rng.integers(4) == 0 else int(rng.integers(INSTRUCTIONS))
        dut.pc_i.value = read
        await ReadOnly()
        if read in words:  # a word that is written is read in the next cycle
            assert dut.word_o.value.to_unsigned() == words[read]
            bins.hit(read=read, meanwhile=int(write and read == pc), kept=int(not write))
        if write:
            bins.hit(written=pc, again=int(pc in words))
            words[pc] = word
        await FallingEdge(dut.clk_i)
    bins.check()
