"""Faults to seed in the SystemVerilog: each is one change of its text, applied before a chip is built."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from presil.simulators.rtl.build import sources


@dataclass(frozen=True, slots=True)
class Mutation:
    """`old` stands exactly once in `file`; `new` takes its place."""

    name: str
    file: str
    old: str
    new: str


MUTATIONS = (
    Mutation(
        "an off-by-one in the address generator",
        "sequencer.sv",
        "running_q.address[i] + word_q.operands[i].step[turning[LoopBits-1:0]];",
        "running_q.address[i] + word_q.operands[i].step[turning[LoopBits-1:0]] + 32'd1;",
    ),
    Mutation(
        "a lost signal",
        "semaphore_file.sv",
        "if (given_valid_i[e] && given_i[e][g].valid) begin",
        "if (given_valid_i[e] && given_i[e][g].valid && g != 1) begin",
    ),
    Mutation(
        "a semaphore that saturates",
        "semaphore_file.sv",
        "count_d[given_i[e][g].semaphore[IndexBits-1:0]] += given_i[e][g].amount;",
        "count_d[given_i[e][g].semaphore[IndexBits-1:0]] = 21'd1;",
    ),
    Mutation(
        "a swapped weight column",
        "weight_loader.sv",
        "c < 32'(columns) ? read_data_i[c] : 8'd0;",
        "c < 32'(columns) ? read_data_i[c ^ 1] : 8'd0;",
    ),
    Mutation(
        "an accumulator that is not cleared",
        "matrix_engine.sv",
        "(leaves.accumulate ? sum_old_i[c] : 32'd0)",
        "sum_old_i[c]",
    ),
    Mutation(
        "a result that is not cleared",
        "pe.sv",
        "(clear_i ? 32'sd0 : result_q[plane_i[ResultBits-1:0]])",
        "result_q[plane_i[ResultBits-1:0]]",
    ),
    Mutation(
        "a DMA that ignores its stride",
        "dma.sv",
        "run_box.size[DIMS-1] = 24'd1;",
        "run_box.stride[DIMS-2] = 32'(command_i.operands[Remote].size[DIMS-1]); run_box.size[DIMS-1] = 24'd1;",
    ),
)


def mutated(mutation: Mutation, folder: Path) -> list[Path]:
    """The modules of the systolic chip, one of them changed and written to `folder`."""
    files = sources("systolic")
    (changed,) = [path for path in files if path.name == mutation.file]
    text = changed.read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, f"{mutation.name}: the text is not (once) in {mutation.file}"
    copy = folder / mutation.file
    copy.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    return [copy if path is changed else path for path in files]
