"""Turns the entries of a suite into groups of layers, each layer a workload."""

from __future__ import annotations

from collections.abc import Iterator

from presil.kernels import workloads

from .scoring import Group, Layer
from .suite import Block, Cnn, Single, Suite


def groups_of(suite: Suite) -> tuple[Group, ...]:
    """A group per model, phase and batch size, and one for all workloads that belong to no model."""
    singles = [entry.workload for entry in suite.entries if isinstance(entry, Single)]
    groups = [group for entry in suite.entries for group in _of_model(entry)]
    if singles:
        layers = tuple(Layer(workload, workload) for workload in dict.fromkeys(singles))
        groups.append(Group("workloads", "Single workloads", "workloads/s", 1.0, layers))
    return tuple({group.name: group for group in groups}.values())  # an entry given twice is one


def _of_model(entry: Single | Cnn | Block) -> Iterator[Group]:
    if isinstance(entry, Cnn):
        for batch in entry.batch:
            layers = _stored(workloads.resnet50_layers(batch))
            yield Group(f"resnet50-b{batch}", f"ResNet-50, batch {batch}", entry.score, float(batch), layers)
    elif isinstance(entry, Block):
        for batch in entry.batch:
            yield _block(entry, batch)


def _block(entry: Block, batch: int) -> Group:
    """One pass over a block: it takes all new tokens of the batch one block further."""
    prefill = entry.phase == "prefill"
    found = workloads.llama_block_matmuls(entry.phase, batch, tokens=entry.tokens, context=entry.tokens)
    length = f"{entry.tokens} tokens" if prefill else f"context {entry.tokens}"
    return Group(
        f"llama-3-8b-block-{entry.phase}-{entry.tokens}-b{batch}",
        f"Llama-3-8B block, {entry.phase}, {length}, batch {batch}",
        entry.score,
        float(batch * entry.tokens if prefill else batch),
        _stored(found),
    )


def _stored(layers: list[workloads.Layer]) -> tuple[Layer, ...]:
    return tuple(Layer(layer.name, str(layer.workload), layer.times) for layer in layers)
