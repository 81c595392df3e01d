"""Is a task refused where a kernel passes that does none of the work, and admitted elsewhere?"""

import numpy as np
import pytest

from presil.kernels.operators import PATTERNS, TensorSpec, Work, operator, parse_workload
from presil.kernels.operators.admission import admit, wrong_elements
from presil.simulators.errors import BadInput

SOUND = (
    "matmul:m=512,n=512,k=512,dtype=int8",
    "matmul:m=1,n=64,k=4096,dtype=int8,out=int8,bias=yes",
    "matmul:m=1,n=1,k=1,dtype=int8,out=int8",
    "matmul:m=16,n=64,k=4096,dtype=bf16,out=bf16,activation=relu",
    "matmul:m=16,n=64,k=4096,dtype=fp8",
    "matmul:m=16,n=64,k=512,dtype=fp32",
    "grouped_matmul:groups=8,m=256,n=100,k=64,align=32,dtype=bf16",
    "attention:batch=3,heads=4,kv_heads=2,q=1,kv=100,head=32,page=16,dtype=bf16",
    "conv2d:n=8,h=7,w=7,c=64,f=32,r=3,s=3,padding=1,dtype=int8,out=int8,bias=yes,activation=relu",
    "conv2d:n=1,h=9,w=8,c=6,f=6,r=3,s=3,groups=6,dtype=bf16",
    "elementwise:kind=add,rows=3,columns=5,dtype=int8",
    "elementwise:kind=multiply,rows=100,columns=1000,dtype=bf16",
    "elementwise:kind=relu,rows=3,columns=50,dtype=fp32",
    "reduction:kind=sum,rows=30,columns=1000,dtype=bf16",
    "reduction:kind=max,rows=30,columns=1000,dtype=fp32",
    "softmax:rows=1,columns=100000,dtype=fp32",  # entries of 1e-5, where zeros pass an absolute tolerance
    "softmax:rows=30,columns=100,dtype=bf16",
    "layernorm:rows=30,columns=4096,dtype=bf16",
    "rmsnorm:rows=1,columns=4096,dtype=fp32",
)


@pytest.mark.parametrize("text", SOUND)
def test_sound_tasks_are_admitted(text):
    workload = parse_workload(text)
    for seed in range(3):
        admit(operator(workload.operator), workload, seed)


@pytest.mark.parametrize(
    "text",
    [
        "elementwise:kind=relu,rows=1,columns=1,dtype=fp32",
        "elementwise:kind=relu,rows=3,columns=1,dtype=int8",
        "matmul:m=1,n=1,k=7,dtype=int8,activation=relu",
        "matmul:m=2,n=1,k=3,dtype=bf16,activation=relu",
        "conv2d:n=1,h=3,w=1,c=1,f=1,r=3,dtype=int8,out=int8,activation=relu",
    ],
)
def test_a_task_of_few_outputs_is_not_refused_for_what_is_right_by_chance(text):
    workload = parse_workload(text)
    for seed in range(20):
        admit(operator(workload.operator), workload, seed)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", SOUND)
def test_zeros_fail_on_every_pattern(text, pattern):
    workload = parse_workload(text)
    op = operator(workload.operator)
    inputs = op.inputs(workload, 1, pattern)
    reference, bound = op.reference(workload, inputs)["y"], op.error_bound(workload, inputs)["y"]
    if text != "matmul:m=1,n=1,k=1,dtype=int8,out=int8":  # one small product may round to 0
        assert wrong_elements(np.zeros(reference.shape), reference, bound).any()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("softmax:rows=30,columns=1,dtype=fp32", "a constant"),  # a row of one is 1
        ("layernorm:rows=30,columns=1,dtype=fp32", "its first row everywhere"),  # a row of one is beta
        ("reduction:kind=sum,rows=30,columns=1,dtype=fp32", "its input"),
        ("reduction:kind=max,rows=30,columns=1,dtype=bf16", "its input"),
    ],
)
def test_tasks_without_work_are_refused(text, says):
    workload = parse_workload(text)
    with pytest.raises(BadInput, match=f"task {text} is refused: a kernel that returns {says} passes its check"):
        admit(operator(workload.operator), workload)


class Loose:
    """A matmul with one fault: a constant answer, or a tolerance someone chose."""

    def __init__(self, fault):
        self.fault, self.sound = fault, operator("matmul")
        self.parameters = self.sound.parameters

    def tensors(self, workload):
        return self.sound.tensors(workload)

    def inputs(self, workload, seed, pattern):
        inputs = self.sound.inputs(workload, seed, pattern)
        return {**inputs, "w": inputs["w"] * 0} if self.fault == "zero weights" else inputs

    def reference(self, workload, inputs):
        return self.sound.reference(workload, inputs)

    def error_bound(self, workload, inputs):
        bound = self.sound.error_bound(workload, inputs)["y"]
        return {"y": np.full_like(bound, 1e9) if self.fault == "chosen tolerance" else bound}


@pytest.mark.parametrize("fault", ["zero weights", "chosen tolerance"])
def test_a_faulty_task_is_refused(fault):
    workload = parse_workload("matmul:m=4,n=5,k=6,dtype=int8")
    with pytest.raises(BadInput, match="a kernel that returns zeros passes its check"):
        admit(Loose(fault), workload)
    admit(Loose(None), workload)


def test_more_of_what_is_alike_costs_nothing():
    """2048 x 14336 x 4096 is cut to 64 x 64 x 4096: no tensor of the whole is made."""
    made = []

    class Counting(Loose):
        def inputs(self, workload, seed, pattern):
            made.extend(self.tensors(workload))
            return super().inputs(workload, seed, pattern)

    admit(Counting(None), parse_workload("matmul:m=2048,n=14336,k=4096,dtype=int8"))
    assert TensorSpec("x", "int8", (1, 64, 4096), "in") in made
    assert max(spec.elements for spec in made) == 64 * 4096


def test_work_counts_two_flops_a_multiply_add():
    work = Work(multiply_adds=10, vector_operations=3, tensor_bytes={}, padding_multiply_adds=4)
    assert (work.flops, work.least_multiply_adds) == (23, 6)
