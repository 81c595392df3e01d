"""Workloads of real models: the layers of ResNet-50, and the matmuls of a Llama-3-8B block."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from presil.simulators.errors import BadInput, ModelError, Unsupported, nearest

from .operators import Workload, parse_workload

_RESNET50 = "backend/test/data/light/light_resnet50.onnx"  # inside the onnx package; real shapes, no trained weights
_RESNET50_CONVOLUTIONS = 53

# Llama 3 8B (Grattafiori et al., The Llama 3 Herd of Models, 2024, table 3).
_HIDDEN, _FFN, _HEADS, _KV_HEADS, _HEAD = 4096, 14336, 32, 8, 128
_PHASES = ("prefill", "decode")


class Layer(NamedTuple):
    """A workload that a model has `times` times; `name` is that of the first, or of all."""

    name: str
    workload: Workload
    times: int


@dataclass(frozen=True, slots=True)
class _Graph:
    """What is asked of an ONNX graph: nodes in order, shapes of values, and who reads a value."""

    nodes: tuple[Any, ...]
    shapes: Mapping[str, tuple[int, ...]]
    readers: Mapping[str, tuple[Any, ...]]


def resnet50_layers(batch: int) -> list[Layer]:
    """The 53 convolutions and the classifier of ResNet-50 for `batch` images of 224x224, equal ones counted together.

    int8 throughout. Batch normalisation is folded into weights and bias, as inference does. An activation is fused
    where a Relu reads the convolution's own output, through batch normalisation alone. The last convolution of a block
    and its shortcut have none: their Relu comes after the addition that joins them, and max(a + b, 0) is not
    max(a, 0) + b. Raises BadInput for a bad batch, Unsupported where the file is not there or not as expected.
    """
    graph = _resnet50_graph()
    return _counted((name, parse_workload(text.format(batch=_whole("batch", batch)))) for name, text in _layers(graph))


def llama_block_matmuls(phase: str, batch: int, tokens: int = 2048, context: int = 2048) -> list[Layer]:
    """Every matmul of one Llama-3-8B block, int8 in and out.

    `prefill` takes `tokens` new tokens of each of `batch` sequences, `decode` takes one. They attend to `context`
    tokens, the new ones included; the half that a causal mask hides is not left out. Four query heads share a key/value
    head: their rows are one matmul, of which there are batch * 8. Raises BadInput for an unknown phase or a bad number.
    """
    if phase not in _PHASES:
        raise BadInput(f"unknown phase '{phase}'{nearest(phase, _PHASES)}; one of: {', '.join(_PHASES)}")
    new = _whole("tokens", tokens) if phase == "prefill" else 1
    rows, queries, pairs = _whole("batch", batch) * new, _HEADS // _KV_HEADS * new, batch * _KV_HEADS
    _whole("context", context)
    if context < new:
        raise BadInput(f"'context' is {context}; the {new} new tokens are part of it")

    # Name, times, batch, m, n, k.
    shapes = (
        ("q+o", 2, 1, rows, _HIDDEN, _HIDDEN),
        ("k+v", 2, 1, rows, _KV_HEADS * _HEAD, _HIDDEN),
        ("scores", 1, pairs, queries, context, _HEAD),
        ("values", 1, pairs, queries, _HEAD, context),
        ("gate+up", 2, 1, rows, _FFN, _HIDDEN),
        ("down", 1, 1, rows, _HIDDEN, _FFN),
    )
    return [
        Layer(name, parse_workload(f"matmul:batch={b},m={m},n={n},k={k},dtype=int8,out=int8"), times)
        for name, times, b, m, n, k in shapes
    ]


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadInput(f"'{name}' is {value!r}; a whole number from 1 is needed")
    return value


def _counted(layers: Iterable[tuple[str, Workload]]) -> list[Layer]:
    """Equal workloads as one layer, under the name of the first."""
    found: dict[Workload, Layer] = {}
    for name, workload in layers:
        first = found.get(workload, Layer(name, workload, 0))
        found[workload] = first._replace(times=first.times + 1)
    return list(found.values())


@functools.cache
def _resnet50_graph() -> _Graph:
    spec = importlib.util.find_spec("onnx")
    if spec is None or spec.origin is None:
        raise Unsupported("ResNet-50 is read from the onnx package, which is not installed")
    path = Path(spec.origin).parent / _RESNET50
    if not path.is_file():
        raise Unsupported(f"ResNet-50 is read from the onnx package, which has no '{_RESNET50}'")
    graph = _read(path)
    convolutions = sum(node.op_type == "Conv" for node in graph.nodes)
    if convolutions != _RESNET50_CONVOLUTIONS:
        raise Unsupported(f"{path}: {convolutions} convolutions; ResNet-50 has {_RESNET50_CONVOLUTIONS}")
    return graph


def _read(path: Path) -> _Graph:
    """A checked graph with all shapes inferred."""
    import onnx

    try:
        onnx.checker.check_model(path)
        model = onnx.load(path)
        graph = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True).graph
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
        raise Unsupported(f"{path}: {error}") from error
    shapes = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    readers: dict[str, tuple[Any, ...]] = {}
    for node in graph.node:
        for name in node.input:
            readers[name] = (*readers.get(name, ()), node)
    return _Graph(tuple(graph.node), shapes, readers)


def _layers(graph: _Graph) -> Iterator[tuple[str, str]]:
    """Name and workload text, `{batch}` open, of each convolution and fully connected layer."""
    for node in graph.nodes:
        if node.op_type == "Conv":
            yield _name(node), _convolution(graph, node)
        elif node.op_type == "Gemm":
            yield _name(node), _fully_connected(graph, node)


def _name(node: Any) -> str:
    """That of its weights, without what all have in common: `gpu_0/res2_0_branch2a_w_0` is `res2_0_branch2a`."""
    return str(node.input[1]).rpartition("/")[2].removesuffix("_w_0")


def _attributes(node: Any) -> dict[str, Any]:
    import onnx

    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def _convolution(graph: _Graph, node: Any) -> str:
    (_, c, h, w), (f, _, r, s) = graph.shapes[node.input[0]], graph.shapes[node.input[1]]
    given = _attributes(node)
    if given.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise Unsupported(f"convolution '{_name(node)}': auto_pad")
    stride = _same(node, "strides", given.get("strides", [1, 1]))
    padding = _same(node, "pads", given.get("pads", [0, 0, 0, 0]))
    dilation = _same(node, "dilations", given.get("dilations", [1, 1]))
    text = (
        f"conv2d:n={{batch}},h={h},w={w},c={c},f={f},r={r},s={s},stride={stride},padding={padding},dilation={dilation},"
        f"groups={given.get('group', 1)},dtype=int8,out=int8,bias=yes,activation={_activation(graph, node)}"
    )
    # The workload must come to the output that ONNX infers.
    outputs = [(size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1 for size, taps in ((h, r), (w, s))]
    if graph.shapes[node.output[0]][1:] != (f, *outputs):
        raise ModelError(f"convolution '{_name(node)}' has the output {graph.shapes[node.output[0]]} in ONNX")
    return text


def _fully_connected(graph: _Graph, node: Any) -> str:
    given = _attributes(node)
    if given.get("transA", 0) or given.get("alpha", 1) != 1 or given.get("beta", 1) != 1:
        raise Unsupported(f"fully connected layer '{_name(node)}': transA, alpha or beta")
    shape = graph.shapes[node.input[1]]
    n, k = shape if given.get("transB", 0) else reversed(shape)
    bias = "yes" if len(node.input) > 2 else "no"
    return f"matmul:m={{batch}},n={n},k={k},dtype=int8,out=int8,bias={bias},activation={_activation(graph, node)}"


def _same(node: Any, name: str, values: list[int]) -> int:
    if len(set(values)) != 1:
        raise Unsupported(f"convolution '{_name(node)}': {name} of {values} are not all the same")
    return values[0]


def _activation(graph: _Graph, node: Any) -> str:
    """`relu` where one reads the output of `node`, through batch normalisation, and nothing else does."""
    readers = graph.readers.get(node.output[0], ())
    if len(readers) != 1:
        return "none"
    if readers[0].op_type == "BatchNormalization":
        return _activation(graph, readers[0])
    return "relu" if readers[0].op_type == "Relu" else "none"
