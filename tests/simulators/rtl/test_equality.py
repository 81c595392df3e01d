"""Do programs give the same bits in numpy, in the event model and on the chip?"""

from pathlib import Path

import pytest

from presil.kernels.operators import Workload, parse_workload
from presil.kernels.operators.operator import resized
from presil.suites.groups import groups_of
from presil.suites.suite import load_suite

from ..drawn import lowered
from .kernels import difference, drawn, library, machine

ROOT = Path(__file__).resolve().parents[3]
# Sizes that are no multiple of any array; every option of an operator that int8 has.
WORKLOADS = (
    "matmul:m=9,n=7,k=10,dtype=int8",
    "matmul:batch=3,m=4,n=5,k=3,dtype=int8,out=int8",
    "matmul:m=13,n=18,k=21,dtype=int8,out=int8,bias=yes,activation=relu",
    "matmul:m=1,n=1,k=1,dtype=int8,bias=yes",
    "conv2d:n=1,h=6,w=5,c=5,f=6,r=3,s=3,padding=1,dtype=int8",
    "conv2d:n=2,h=9,w=8,c=6,f=9,r=3,s=2,padding=1,stride=2,dtype=int8,out=int8,bias=yes,activation=relu",
    "conv2d:n=1,h=7,w=7,c=6,f=6,r=3,s=3,groups=2,dilation=2,dtype=int8",
    "conv2d:n=1,h=5,w=5,c=8,f=8,r=3,s=3,groups=8,padding=1,dtype=int8,out=int8",
    "elementwise:kind=add,rows=5,columns=9,dtype=int8",
    "elementwise:kind=multiply,rows=5,columns=9,dtype=int8",
    "elementwise:kind=relu,rows=5,columns=9,dtype=int8",
)
MOST = {
    "conv2d": {"n": 2, "h": 9, "w": 9, "c": 21, "f": 19},
    "matmul": {"batch": 2, "m": 21, "n": 19, "k": 37},
}


def wrong(workload: str, size: int, count: int) -> list[str]:
    task, target, chip, found = parse_workload(workload), machine(size), library(size), []
    schedules = drawn(workload, size, count)
    assert schedules
    for schedule in schedules:
        told = difference(task, target, lowered(task, target, schedule), chip)
        if told:
            found.append(f"{schedule}: {told}")
    return found


@pytest.mark.parametrize("workload", WORKLOADS)
def test_three_models_agree(workload):
    assert wrong(workload, 4, 4) == []


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 8, 16])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_three_models_agree_at_every_size(workload, size):
    assert wrong(workload, size, 16) == []


def cut_down() -> list[str]:
    """The kernels of the quick suite, in int8, no larger than MOST."""
    found = set()
    for group in groups_of(load_suite(ROOT / "suites" / "quick.yaml")):
        for layer in group.layers:
            task = parse_workload(layer.workload)
            sizes = dict(task.parameters)
            small = resized(task, **{n: min(sizes[n], most) for n, most in MOST[task.operator].items()})
            found.add(str(int8(small)))
    return sorted(found)


def int8(workload: Workload) -> Workload:
    floats = {"dtype": "int8", "out": "int32"} if workload["dtype"] != "int8" else {}
    return Workload(workload.operator, tuple((name, floats.get(name, value)) for name, value in workload.parameters))


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 8, 16])
def test_the_quick_suite_cut_down(size):
    kernels = cut_down()
    assert len(kernels) > 8
    assert {f"{kernel}: {told}" for kernel in kernels for told in wrong(kernel, size, 4)} == set()
