"""Are the workloads of real models the layers of those models?"""

import pytest

from presil.kernels import workloads
from presil.kernels.operators import operator, parse_workload
from presil.kernels.workloads import Layer, llama_block_matmuls, resnet50_layers
from presil.simulators.errors import BadInput, Unsupported


def multiply_adds(layers):
    return sum(operator(w.operator).work(w).multiply_adds * times for _, w, times in layers)


@pytest.mark.parametrize("batch", [1, 8])
def test_resnet50_has_53_convolutions_and_a_classifier(batch):
    layers = resnet50_layers(batch)
    convolutions = [layer for layer in layers if layer.workload.operator == "conv2d"]
    assert sum(layer.times for layer in convolutions) == 53
    assert [layer for layer in layers if layer not in convolutions] == [
        Layer("pred", parse_workload(f"matmul:m={batch},n=1000,k=2048,dtype=int8,out=int8,bias=yes"), 1)
    ]
    assert len({layer.workload for layer in layers}) == len(layers)


def test_resnet50_takes_4089_million_multiply_adds_an_image():
    """With the stride of a stage in its first 3x3, not in the 1x1 before it; the classifier is included."""
    assert multiply_adds(resnet50_layers(1)) == 4_089_184_256
    assert multiply_adds(resnet50_layers(8)) == 8 * 4_089_184_256


def test_layers_of_resnet50_by_hand():
    """From the paper's table 1 (He et al., 2016): the stem, and the first layers of the third stage."""
    layers = {name: (str(workload), times) for name, workload, times in resnet50_layers(1)}
    head, tail = "conv2d:n=1,", "dtype=int8,out=int8,bias=yes"
    assert layers["conv1"] == (f"{head}h=224,w=224,c=3,f=64,r=7,s=7,stride=2,padding=3,{tail},activation=relu", 1)
    assert layers["res2_0_branch2b"] == (f"{head}h=56,w=56,c=64,f=64,r=3,s=3,padding=1,{tail},activation=relu", 3)
    assert layers["res3_0_branch2b"] == (
        f"{head}h=56,w=56,c=128,f=128,r=3,s=3,stride=2,padding=1,{tail},activation=relu", 1,
    )  # fmt: skip
    # The shortcut of the stage, whose Relu comes after the addition.
    assert layers["res3_0_branch1"] == (f"{head}h=56,w=56,c=256,f=512,stride=2,{tail}", 1)
    # The last one of each of the three blocks of stage 2, and that stage's shortcut, which is the same workload.
    assert layers["res2_0_branch2c"] == (f"{head}h=56,w=56,c=64,f=256,{tail}", 4)


def test_only_what_a_relu_reads_directly_is_activated():
    """49 Relus in the graph; 16 of them come after the additions."""
    fused = sum(layer.times for layer in resnet50_layers(1) if layer.workload["activation"] == "relu")
    assert fused == 49 - 16


@pytest.mark.parametrize("batch", [0, -1, True, 1.5])
def test_resnet50_refuses_a_bad_batch(batch):
    with pytest.raises(BadInput, match=r"'batch' is .*; a whole number from 1 is needed"):
        resnet50_layers(batch)


def test_without_the_file_it_says_so(monkeypatch, tmp_path):
    (tmp_path / "empty.onnx").write_bytes(b"not a model")
    with pytest.raises(Unsupported, match=r"empty\.onnx: "):
        workloads._read(tmp_path / "empty.onnx")
    monkeypatch.setattr(workloads, "_RESNET50", "nowhere.onnx")
    workloads._resnet50_graph.cache_clear()
    with pytest.raises(Unsupported, match=r"the onnx package, which has no 'nowhere\.onnx'"):
        resnet50_layers(1)
    workloads._resnet50_graph.cache_clear()


def test_llama_prefill():
    """Multiply-adds by hand; each of 32 query heads meets 2048 keys and 2048 values of length 128."""
    layers = llama_block_matmuls("prefill", 1, 2048)
    assert {name: str(workload) for name, workload, _ in layers}["scores"] == (
        "matmul:batch=8,m=8192,n=2048,k=128,dtype=int8,out=int8"
    )
    projections = 2 * 2048 * (4096 * 4096 + 4096 * 1024)
    ffn, attention = 3 * 2048 * 4096 * 14336, 2 * 32 * 2048 * 2048 * 128
    assert multiply_adds(layers) == projections + ffn + attention
    assert [(layer.name, layer.times) for layer in layers] == [
        ("q+o", 2), ("k+v", 2), ("scores", 1), ("values", 1), ("gate+up", 2), ("down", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("batch", [1, 16])
def test_llama_decode(batch):
    texts = {name: str(workload) for name, workload, _ in llama_block_matmuls("decode", batch, context=2048)}
    tail = "dtype=int8,out=int8"
    several = f"batch={batch * 8},"
    assert texts == {
        "q+o": f"matmul:m={batch},n=4096,k=4096,{tail}",
        "k+v": f"matmul:m={batch},n=1024,k=4096,{tail}",
        "scores": f"matmul:{several}m=4,n=2048,k=128,{tail}",
        "values": f"matmul:{several}m=4,n=128,k=2048,{tail}",
        "gate+up": f"matmul:m={batch},n=14336,k=4096,{tail}",
        "down": f"matmul:m={batch},n=4096,k=14336,{tail}",
    }


def test_llama_refuses_bad_numbers():
    with pytest.raises(
        BadInput, match=r"unknown phase 'decoding' \(did you mean 'decode'\?\); one of: prefill, decode"
    ):
        llama_block_matmuls("decoding", 1)
    with pytest.raises(BadInput, match="'batch' is 0"):
        llama_block_matmuls("decode", 0)
    with pytest.raises(BadInput, match="'context' is 100; the 2048 new tokens are part of it"):
        llama_block_matmuls("prefill", 1, 2048, 100)
    with pytest.raises(BadInput, match="'n' is 2000000; a whole number"):
        llama_block_matmuls("decode", 1, context=2_000_000)
