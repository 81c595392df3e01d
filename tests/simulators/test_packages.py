"""Are the SystemVerilog packages what `words.py` says, and does SystemVerilog read them so?"""

import re

import pytest

from presil.simulators import words
from presil.simulators.family import family
from presil.simulators.packages import HARDWARE, packages

STRUCTS = {"count_t": words.CountField, "operand_field_t": words.OperandField, "word_t": words.Word}


@pytest.mark.parametrize("name", packages())
def test_the_committed_text_is_the_generated_one(name):
    """Else: `python -m presil.simulators.packages`."""
    assert (HARDWARE / name).read_text(encoding="utf-8") == packages()[name]


def test_every_package_that_claims_to_be_generated_is():
    found = {
        str(path.relative_to(HARDWARE))
        for path in HARDWARE.rglob("*.sv")
        if path.read_text(encoding="utf-8").startswith("// Generated")
    }
    assert found == set(packages())


def struct_bits(text: str, name: str) -> int:
    """Bits of a packed struct, read from SystemVerilog text."""
    body = re.search(rf"typedef struct packed {{([^}}]*)}} {name};", text)
    total = 0
    for kind, ranges in re.findall(r"^\s*(\w+)(?: signed)? ?((?:\[\d+:0\])*) \w+;", body.group(1), re.MULTILINE):
        each = 1 if kind == "logic" else struct_bits(text, kind)
        for top in re.findall(r"\[(\d+):0\]", ranges):
            each *= int(top) + 1
        total += each
    return total


@pytest.mark.parametrize("name", STRUCTS)
def test_structs_have_the_bits_of_their_groups(name):
    assert struct_bits(packages()["common/presil_pkg.sv"], name) == words.width(STRUCTS[name])


def test_opcodes_are_distinct_and_a_familys_are_not_those_of_all():
    for name, path in (("systolic", "systolic/systolic_pkg.sv"),):
        opcodes = family(name).opcodes
        assert len(set(opcodes.values())) == len(opcodes)
        assert 0 not in opcodes.values()
        own = dict(re.findall(r"OP_(\w+) = 8'd(\d+);", packages()[path]))
        shared = dict(re.findall(r"OP_(\w+) = 8'd(\d+);", packages()["common/presil_pkg.sv"]))
        assert {op.upper(): str(n) for op, n in opcodes.items()} == {**own, **shared}
        assert all(int(n) >= words.FIRST_FAMILY_OPCODE for n in own.values())
        assert own.keys() & shared.keys() == set()


def test_a_family_has_opcodes_for_its_own_instructions_only():
    assert set(family("systolic").opcodes) <= set(family("systolic").ops)
