"""The linters find what they are there for, and nothing in our own modules."""

import pytest

from presil.simulators.rtl.build import sources
from presil.simulators.rtl.lint import slang_clean, verilator_findings

FAULTS = {
    "a width that does not fit": "assign y_o = {4'd0, a_i, a_i};",
    "an undeclared name": "assign y_o = b_i;",
    "a latch": "always_comb if (a_i[0]) y_o = a_i;",
}


@pytest.mark.parametrize("body", FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found(body, tmp_path):
    module = tmp_path / "faulty.sv"
    module.write_text(f"module faulty (input logic [3:0] a_i, output logic [3:0] y_o);\n  {body}\nendmodule\n")
    assert verilator_findings("faulty", [module]) or not slang_clean("faulty", [module])


def test_our_modules_are_clean():
    files = sources("systolic")
    assert verilator_findings("systolic_bench", files) == ""
    assert slang_clean("systolic_bench", files)
