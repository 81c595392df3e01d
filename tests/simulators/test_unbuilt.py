"""Is what is legal on a systolic machine, but not built in its RTL, refused by the encoder, and nothing else?"""

from dataclasses import replace

import pytest

from presil.simulators.assembly import parse
from presil.simulators.encoding import encode
from presil.simulators.errors import Unsupported
from presil.simulators.legality import check_legality
from presil.simulators.program import Buffer

from .tiny import tiny

MACHINE = tiny(dma={"load_channels": 1})
ACC = Buffer("acc", "int32", (3, 5), 2, "accumulator", 40)
YB = Buffer("yb", "int32", (3, 5), 2, "scratchpad", 100)
RESULTS = Buffer("sums", "int32", (3, 5), 2, "results", 0)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("store y[0 +: 3, 0 +: 5], acc{0}", "store: acc lies in the accumulator; the RTL has a way to the scratchpad"),
        ("load acc{0}, y[0 +: 3, 0 +: 5]", "load: acc lies in the accumulator"),
        ("fill acc{0} value=1", "fill: acc lies in the accumulator"),
        ("bias acc{0}, acc{1}", "bias: acc lies in the accumulator"),
        ("add yb{0}, yb{0}, acc{1}", "add: acc lies in the accumulator"),
        ("cast yb{0}, odd{0}", "cast: odd holds int8; the RTL's accumulator holds words of 4 bytes"),
        ("drain acc{0}[0 +: 3, 0 +: 2 : 2], sums{0}[0 +: 3, 0 +: 2]", "drain: acc has gaps in its rows"),
        ("subtract yb{0}, yb{0}, yb{0}[0 +: 1, 0 +: 5]", "subtract: yb may lie where results are written before"),
        ("relu yb{0}[1 +: 2, 0 +: 5], yb{0}[0 +: 2, 0 +: 5]", "relu: yb may lie where"),
        ("cast near{0}, yb{0}", "cast: yb may lie where"),
        ("drain acc{0}[0 +: 2, 0 +: 5], sums{0}[1 +: 2, 0 +: 5]", "drain: sums does not begin in the corner"),
    ],
)
def test_what_is_legal_but_not_built_is_refused(node, message):
    """Else the chip would compute something else without a word."""
    odd = Buffer("odd", "int8", (3, 5), 1, "accumulator", 302)
    near = Buffer("near", "int32", (3, 5), 1, "scratchpad", 100 + 2 * 60 - 4)  # one word of yb's last slot
    heads = "".join(
        f"buffer {b.name}: {b.dtype}[3, 5] x{b.slots} @{b.space}+{b.offset}\n" for b in (ACC, YB, RESULTS, odd, near)
    )
    tensor = "tensor y: int32[7, 11] in @dram\n"
    text = f'program "p" on "tiny"\nworkload ""\n{tensor}{heads}stream s {{\n    {node} accumulate=0\n}}\n'
    text = text if node.startswith("drain") else text.replace(" accumulate=0", "")
    program = parse(text)
    if "store" in node:
        program = replace(program, tensors=(replace(program.tensors[0], role="out"),))
    check_legality(program, MACHINE)
    with pytest.raises(Unsupported, match=message):
        encode(program, MACHINE)


@pytest.mark.parametrize(
    "operands",
    [
        "yb{0}, yb{0}",  # in place
        "yb{0}, yb{0}[0 +: 3, 0 +: 5]",  # the same box in other words
        "yb{0}, yb{2}",  # the same slot of two
        "yb{0}, yb{1}",
        "yb{i}, yb{i + 1}",
        "yb{i}[0 +: 1, 0 +: 5], yb{i}[1 +: 1, 0 +: 5]",
        "yb{i}[0 +: 2, 0 +: 2], yb{i}[0 +: 2, 2 +: 2]",
        "yb{i}[0 +: 2, 0 +: 2 : 2], yb{i}[0 +: 2, 3 +: 2]",
        "beside{0}, yb{0}",
    ],
)
def test_operands_that_cannot_be_overwritten_are_not_refused(operands):
    buffers = "".join(
        f"buffer {name}: int32[3, 5] x{slots} @scratchpad+{offset}\n"
        for name, slots, offset in (("yb", 2, 100), ("beside", 1, 220))
    )
    text = f'program "p" on "tiny"\nworkload ""\n{buffers}stream s {{\nloop i 2 {{\nrelu {operands}\n}}\n}}\n'
    encode(parse(text), MACHINE)
