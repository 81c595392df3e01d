"""Bench of the whole chip with its memory: runs one image, and notes when each engine accepts and finishes.

The image comes in the file $PRESIL_IMAGE: {"words": of each stream the words in hexadecimal, "semaphores": initial
counts, "memory": bytes in hexadecimal}. $PRESIL_RESULT takes {"cycles", "error": [code, stream, pc], "memory",
"accepted" and "done": of each engine the cycles, counted from the start}.
"""

import json
import os
from pathlib import Path

import cocotb
from cocotb.triggers import FallingEdge, ReadOnly
from tests.hw.signals import begin

MOST_CYCLES = 20_000


@cocotb.test()
async def runs_an_image(dut):
    image = json.loads(Path(os.environ["PRESIL_IMAGE"]).read_text())  # noqa: ASYNC240 - nothing else runs
    await begin(dut)
    cells, memory = dut.i_dram.cells, bytes.fromhex(image["memory"])
    for address, byte in enumerate(memory):
        cells[address].value = byte
    for stream, words in enumerate(image["words"]):
        for pc, word in enumerate(words):
            dut.word_write_i.value, dut.word_stream_i.value, dut.word_pc_i.value = 1, stream, pc
            dut.word_i.value = int(word, 16)
            await FallingEdge(dut.clk_i)
    dut.word_write_i.value = 0
    for semaphore, amount in enumerate(image["semaphores"]):
        dut.semaphore_write_i.value, dut.semaphore_i.value, dut.semaphore_amount_i.value = 1, semaphore, amount
        await FallingEdge(dut.clk_i)
    dut.semaphore_write_i.value = 0
    dut.enable_i.value = (1 << len(image["words"])) - 1
    dut.start_i.value = 1
    await FallingEdge(dut.clk_i)
    dut.start_i.value = 0
    result = await observed(dut)
    result["memory"] = bytes(int(cells[address].value) for address in range(len(memory))).hex()
    Path(os.environ["PRESIL_RESULT"]).write_text(json.dumps(result))  # noqa: ASYNC240 - as above


async def observed(dut) -> dict:
    """Watch the engines until the chip is done or stops."""
    chip, engines = dut.i_chip, len(dut.i_chip.command_valid)
    accepted, done = [[] for _ in range(engines)], [[] for _ in range(engines)]
    for cycle in range(MOST_CYCLES):
        await ReadOnly()
        if int(dut.done_o.value) or int(dut.error_o.value):
            break
        starts = chip.command_valid.value.to_unsigned() & chip.command_ready.value.to_unsigned()
        ends = chip.done_valid.value.to_unsigned()
        for engine in range(engines):
            if starts >> engine & 1:
                accepted[engine].append(cycle)
            if ends >> engine & 1:
                done[engine].append(cycle)
        await FallingEdge(dut.clk_i)
    error = [int(port.value) for port in (dut.error_o, dut.error_stream_o, dut.error_pc_o)]
    cycles = dut.cycles_o.value.to_unsigned()
    await FallingEdge(dut.clk_i)
    return {"cycles": cycles, "error": error, "accepted": accepted, "done": done}
