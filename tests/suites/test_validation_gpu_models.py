"""Whole language models on GPUs: what a decoder is made of, and what its published rows are compared with."""

from __future__ import annotations

import pytest

from presil.suites.validation import published_rows
from presil.suites.validation.gpu_models import DECODERS, compare

# Parameters as the publishers count them (model cards): norms and biases, which `parameters` leaves out, are below 1%.
PUBLISHED_PARAMETERS = {
    "Llama-2-7B": 6.74e9,
    "llama2-70b": 68.98e9,
    "Llama-3.1-8B": 8.03e9,
    "Llama-3.3-70B": 70.55e9,
    "Llama-3.1-405B": 405.85e9,
    "gptj": 6.05e9,
}


@pytest.mark.parametrize("name", PUBLISHED_PARAMETERS)
def test_parameters_are_those_that_the_publisher_counts(name):
    assert DECODERS[name].parameters == pytest.approx(PUBLISHED_PARAMETERS[name], rel=0.01)


def test_keys_and_values_of_a_token():
    # Llama-3.1-8B in bf16: 2 (keys, values) x 32 layers x 8 heads x 128 elements x 2 bytes.
    assert DECODERS["Llama-3.1-8B"].cache_bytes(2) == 131_072
    # Llama-2-70B: 2 x 80 x 8 x 128 x 2.
    assert DECODERS["llama2-70b"].cache_bytes(2) == 327_680


@pytest.mark.slow
def test_one_request_is_never_faster_than_its_weights_are_read():
    row = published_rows("gpu")["GPU-DEC-001"]
    found = compare(row)
    assert found is not None
    read_bytes = 2 * (DECODERS["Llama-2-7B"].parameters - 32000 * 4096)  # of the embedding a step reads one row
    assert found.ours < 2.039e12 / read_bytes  # A100 of 80 GB: 2,039 GB/s (data sheet)


@pytest.mark.parametrize("row", ["GPU-DEC-002", "GPU-DEC-018", "GPU-MLP-002", "GPU-MLP-003", "GPU-MLP-042"])
def test_what_is_not_modelled_is_left_out(row):
    assert compare(published_rows("gpu")[row]) is None
