"""Is the reference of a crop the crop of the reference?"""

from __future__ import annotations

import numpy as np
import pytest

from presil.kernels.operators import operator, parse_workload


@pytest.mark.parametrize("dtype", ["dtype=int8,out=int8,bias=yes,activation=relu", "dtype=bf16,out=bf16,bias=yes"])
@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("matmul:batch=3,m=7,n=5,k=33", (1, 2, 1), (2, 5, 3)),
        ("matmul:m=1,n=9,k=4", (0, 0, 4), (0, 0, 4)),
        ("conv2d:n=3,h=6,w=5,c=4,f=7,r=3,s=2,padding=1", (1, 0, 2, 3), (2, 3, 2, 5)),
        ("conv2d:n=2,h=4,w=5,c=4,f=6,groups=2", (1, 0, 0, 4), (1, 3, 4, 5)),
    ],
)
def test_reference_of_a_crop(text, first, last, dtype):
    workload = parse_workload(f"{text},{dtype}")
    of = operator(workload.operator)
    inputs = of.inputs(workload, 5, "random")
    reference, bound = of.reference(workload, inputs)["y"], of.error_bound(workload, inputs)["y"]
    stored = np.zeros(reference.shape, bool)
    stored[first] = stored[last] = True
    crop = of.crop(workload, inputs, stored)
    assert stored[crop.box].sum() == stored.sum()
    assert of.tensors(crop.workload)[0].shape == crop.inputs["x"].shape
    part = of.reference(crop.workload, crop.inputs)["y"]
    if "int8" in dtype:
        assert np.array_equal(part, reference[crop.box])
    else:  # float64 sums in another order: far inside the bound of fp32
        assert (np.abs(part - reference[crop.box]) <= bound[crop.box]).all()
    assert of.error_bound(crop.workload, crop.inputs)["y"].shape == part.shape


def test_a_crop_is_smaller():
    workload = parse_workload("matmul:batch=2,m=64,n=64,k=8,dtype=int8")
    stored = np.zeros((2, 64, 64), bool)
    stored[0, 8:16, 32:48] = True
    of = operator("matmul")
    crop = of.crop(workload, of.inputs(workload, 1, "random"), stored)
    assert str(crop.workload) == "matmul:m=8,n=16,k=8,dtype=int8"


def test_what_cannot_be_cropped_stays_whole():
    workload = parse_workload("softmax:rows=4,columns=8,dtype=fp32")
    of = operator("softmax")
    inputs = of.inputs(workload, 1, "random")
    crop = of.crop(workload, inputs, np.eye(4, 8, dtype=bool))
    assert (crop.workload, crop.box) == (workload, (slice(None), slice(None)))
