"""Emitters are found by listing; what is not built is refused by name."""

from __future__ import annotations

import pytest

from presil.kernels.emitters import emitter, emitter_names
from presil.simulators.errors import Unsupported


def test_each_is_found_under_its_operator():
    names = emitter_names("systolic")
    assert "matmul" in names
    assert [emitter(name, "systolic").operator for name in names] == list(names)


def test_an_operator_that_is_not_built_is_refused_by_name():
    with pytest.raises(Unsupported, match=r"'matmull' is not built for the family 'systolic' \(did you mean 'matmul'"):
        emitter("matmull", "systolic")


def test_a_family_without_emitters_is_refused_by_name():
    with pytest.raises(Unsupported, match="no operator is built for the family 'abacus'"):
        emitter("matmul", "abacus")
