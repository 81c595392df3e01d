"""Whole language models on GPUs, beside published rates (rows GPU-DEC, GPU-TRT, GPU-MLP).

A step of a decoder is a list of kernels; its time is the sum of the kernels' times in the event model, each the best of
a small search, with what it takes from one kernel to the next of a stream (`follow` of the machine). What a row leaves
open is assumed, and the note of each row says so:

* Kernels of a layer: norm, QKV, attention, output, norm, gate and up, their product, down. Rotary embedding, residual
  sums and sampling are taken as fused into them, so they cost nothing.
* With n GPUs each has 1/n of the heads, the hidden units and the vocabulary; two sums of a layer's outputs over all
  GPUs take their bytes over the wire, 2 (n - 1) / n of them (a ring), and the time to follow a kernel, no more: what
  the library's waits take is not known here.
* A server at its highest rate holds as many requests as 90% of the memory has room for (weights in the format of the
  row, keys and values in bf16; at most 2,048), all half way through their answers; prompts are taken 8,192 tokens at a
  time, apart from the steps.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from presil.kernels.operators import parse_workload
from presil.simulators.gpu.spec import gpu
from presil.simulators.machine import Machine, load_machine

from .gpu import Task, fastest
from .published import PublishedRow, ValidationRow, compared

MEMORY_SHARE, MOST_REQUESTS, CHUNK_TOKENS = 0.9, 2048, 8192
# Bytes a second and direction of one GPU: NVIDIA A100 and H100 data sheets, 600 and 900 GB/s in both directions.
WIRE = {"a100": 300e9, "h100": 450e9, "h200": 450e9}
MACHINES = {"A100-80 SXM": "a100", "H100 SXM": "h100", "H200 SXM": "h200"}
BUDGET = 8  # schedules of each kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """A language model: sizes from the `config.json` that its publisher gives. `gated`: three matrices, not two."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    units: int
    vocabulary: int
    gated: bool = True

    @property
    def parameters(self) -> int:
        """Of all matrices: embedding and head apart, as none of these ties them."""
        attention = self.hidden * self.head * (2 * self.heads + 2 * self.kv_heads)
        units = self.hidden * self.units * (3 if self.gated else 2)
        return self.layers * (attention + units) + 2 * self.hidden * self.vocabulary

    def cache_bytes(self, size: int) -> int:
        """Keys and values of one token, with elements of `size` bytes."""
        return 2 * self.layers * self.kv_heads * self.head * size


def _llama(layers: int, hidden: int, heads: int, kv_heads: int, units: int, vocabulary: int) -> Decoder:  # noqa: PLR0917
    return Decoder(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head=128,
        units=units,
        vocabulary=vocabulary,
    )


DECODERS = {
    "Llama-2-7B": _llama(32, 4096, 32, 32, 11008, 32000),
    "llama2-70b": _llama(80, 8192, 64, 8, 28672, 32000),
    "Llama-3.1-8B": _llama(32, 4096, 32, 8, 14336, 128256),
    "Llama-3.3-70B": _llama(80, 8192, 64, 8, 28672, 128256),
    "Llama-3.1-405B": _llama(126, 16384, 128, 8, 53248, 128256),
    "llama3.1-405b": _llama(126, 16384, 128, 8, 53248, 128256),
    "gptj": Decoder(
        layers=28, hidden=4096, heads=16, kv_heads=16, head=256, units=16384, vocabulary=50400, gated=False
    ),
}  # fmt: skip
# Mean lengths of prompts and answers of MLPerf's data sets: of llama2-70b as the rows say; of gptj (CNN/DailyMail) and
# llama3.1-405b no source was read, so those rows are left out.
MLPERF_LENGTHS = {"llama2-70b": (294, 290)}


@dataclass(frozen=True, slots=True)
class _Server:
    """A decoder on `gpus` of a machine, in one format for its products."""

    decoder: Decoder
    machine: Machine
    gpus: int
    dtype: str

    def step_seconds(self, requests: int, context: int) -> float:
        """One token for each request, after `context` tokens."""
        return self._seconds(requests, f"batch={requests}", 1, context, logits=requests)

    def prefill_seconds(self, tokens: int) -> float:
        """One prompt, where others of its length fill up the chunk."""
        prompts = max(1, CHUNK_TOKENS // tokens)
        whole = self._seconds(prompts * tokens, f"batch={prompts}", tokens, tokens, logits=prompts)
        return whole / prompts

    def _seconds(self, rows: int, batch: str, queries: int, keys: int, *, logits: int) -> float:
        layer = sum(_seconds(text, self.machine.name) for text in self._layer(rows, batch, queries, keys))
        wire = 0.0
        if self.gpus > 1:
            moved = 2 * (self.gpus - 1) / self.gpus * rows * self.decoder.hidden * 2
            wire = 2 * (moved / WIRE[self.machine.name] + gpu(self.machine).follow)
        head = _seconds(
            self._matmul(logits, self.decoder.vocabulary // self.gpus, self.decoder.hidden), self.machine.name
        )
        return self.decoder.layers * (layer + wire) + head

    def _layer(self, rows: int, batch: str, queries: int, keys: int) -> Iterator[str]:
        """The kernels of one layer on one GPU."""
        d, n = self.decoder, self.gpus
        heads, kv_heads = d.heads // n, max(1, d.kv_heads // n)
        units = d.units // n
        causal = "true" if queries > 1 else "false"
        yield f"rmsnorm:rows={rows},columns={d.hidden},dtype=bf16"
        yield self._matmul(rows, (heads + 2 * kv_heads) * d.head, d.hidden)
        yield (
            f"attention:{batch},heads={heads},kv_heads={kv_heads},q={queries},kv={keys},head={d.head},"
            f"dtype=bf16,causal={causal}"
        )
        yield self._matmul(rows, d.hidden, heads * d.head)
        yield f"rmsnorm:rows={rows},columns={d.hidden},dtype=bf16"
        yield self._matmul(rows, (2 if d.gated else 1) * units, d.hidden)
        kind = "multiply" if d.gated else "relu"
        yield f"elementwise:kind={kind},rows={rows},columns={units},dtype=bf16"
        yield self._matmul(rows, d.hidden, units)

    def _matmul(self, rows: int, n: int, k: int) -> str:
        return f"matmul:m={rows},n={n},k={k},dtype={self.dtype},out=bf16"

    def rate(self, prompt: int, answer: int) -> tuple[float, int]:
        """(tokens of answers a second, requests at once) of a server that is never idle."""
        size = 1 if self.dtype == "fp8" else 2
        room = MEMORY_SHARE * self.machine.memories[gpu(self.machine).global_memory].capacity * self.gpus
        room -= self.decoder.parameters * size
        requests = int(room // (self.decoder.cache_bytes(2) * (prompt + answer)))
        requests = max(1, min(requests, MOST_REQUESTS))
        step = self.step_seconds(requests, prompt + answer // 2)
        return requests * answer / (answer * step + requests * self.prefill_seconds(prompt)), requests


@functools.cache
def _seconds(workload: str, machine: str) -> float:
    """A kernel that follows another."""
    described = load_machine(machine)
    return (
        fastest(parse_workload(workload), described, Task(workload, kernel_only=True), BUDGET) + gpu(described).follow
    )


def compare(row: PublishedRow) -> ValidationRow | None:
    """Ours beside the rate of a whole model; None for those that are not modelled."""
    found = re.match(r"([\w-]+ SXM) x(\d+)", row.chip)
    if not row.row.startswith(("GPU-DEC", "GPU-TRT", "GPU-MLP")) or found is None or found[1] not in MACHINES:
        return None
    name = next((name for name in DECODERS if name in row.workload), None)
    if name is None:
        return None
    machine, gpus = MACHINES[found[1]], int(found[2])
    if row.row.startswith("GPU-DEC"):
        return _decode(row, DECODERS[name], machine, gpus)
    lengths = re.search(r"ISL/OSL (\d+)/(\d+)", row.workload)
    prompt, answer = (int(lengths[1]), int(lengths[2])) if lengths else MLPERF_LENGTHS.get(name, (0, 0))
    if not answer or "Server" in row.workload or row.dtype != "fp8":
        return None
    group = _group(row, DECODERS[name], gpus)
    ours, requests = _Server(DECODERS[name], load_machine(machine), group, row.dtype).rate(prompt, answer)
    note = f"{gpus // group} x {group} GPUs, {requests} requests at once, keys in bf16"
    return compared(row, ours * (gpus // group), machine=machine, workload=row.workload, note=note)


def _group(row: PublishedRow, decoder: Decoder, gpus: int) -> int:
    """GPUs that share one copy of the model: as the row says, or the fewest that hold it in half of their memory."""
    stated = re.search(r"TP(\d+)", row.conditions)
    return int(stated[1]) if stated else min(gpus, 2 if decoder.parameters > 40e9 else 1)


def _decode(row: PublishedRow, decoder: Decoder, machine: str, gpus: int) -> ValidationRow | None:
    """gpt-fast: one request, 200 tokens behind a prompt of five."""
    if row.dtype != "bf16":
        return None
    server = _Server(decoder, load_machine(machine), gpus, "bf16")
    note = "one request, 100 tokens back; the clock of the row's power cap is not modelled"
    return compared(row, 1 / server.step_seconds(1, 105), machine=machine, workload=row.workload, note=note)
