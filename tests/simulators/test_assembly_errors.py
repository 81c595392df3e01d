"""Does an error in the text say where it is, what was found and what to write instead?"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from presil.simulators.assembly import parse, render
from presil.simulators.errors import BadInput
from presil.simulators.program import Program

from .test_assembly import EXAMPLE, WHOLE_LINE, read


@given(st.integers(0, len(EXAMPLE) - 1), st.sampled_from(list('"{}[](),=:@+-*#x0 \n\0é')), st.booleans())
@settings(max_examples=300, deadline=None)
def test_damaged_text_is_read_or_refused_with_its_place(position: int, character: str, insert: bool) -> None:
    damaged = EXAMPLE[:position] + character + EXAMPLE[position + (0 if insert else 1) :]
    outcome = read(damaged)
    if isinstance(outcome, Program):
        assert parse(render(outcome)) == outcome
    else:
        assert outcome.file == "d.pasm"
        assert outcome.line is not None
        assert outcome.column is not None
        assert 1 <= outcome.line <= damaged.count("\n") + 1
        assert 1 <= outcome.column <= len(damaged.split("\n")[outcome.line - 1]) + 1


def test_file_cut_off_anywhere_is_refused() -> None:
    # Only between two streams does a whole, shorter program remain.
    between = EXAMPLE.index("}\nstream mm") + 1
    for end in range(len(EXAMPLE) - 1):
        cut = EXAMPLE[:end]
        if end in (between, between + 1):
            assert len(parse(cut).streams) == 1
        else:
            with pytest.raises(BadInput) as caught:
                parse(cut)
            assert caught.value.line in (cut.count("\n"), cut.count("\n") + 1)


def test_file_cut_off_in_a_loop_names_what_is_open() -> None:
    cut = EXAMPLE[: EXAMPLE.index("    }\n}\nstream mm")]
    with pytest.raises(BadInput, match=r"^f:14:1: the file ends inside loop 'm' of line 12: its '\}' is missing$"):
        parse(cut, "f")
    middle = EXAMPLE[: EXAMPLE.index("wait(x_free") + 5]
    with pytest.raises(BadInput, match=r"^f:13:65: found the end of the file \(is it cut off\?\); allowed: '\)'$"):
        parse(middle + "x_free", "f")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("program", "progam", r"1:1: found 'progam' \(did you mean 'program'\?\); allowed: program"),
        ('on "tpu', 'at "tpu', r"1:18: found 'at'; allowed: on \"MACHINE\""),
        ('"tpu-v1"', "tpu", r"1:21: found 'tpu'; allowed: the name of a machine"),
        ('"tpu-v1"', '"tpu-v1', r"1:21: found a text that is not closed"),
        ("workload", "wrkload", r"2:1: found 'wrkload' \(did you mean 'workload'\?\)"),
        ("static", "statc", r"3:13: unknown place 'statc' \(did you mean 'static'\?\); allowed: static, dispatch"),
        ("core=2", "core=0", r"3:11: grid size: found 0; allowed: 1 to 1048576"),
        ("core=2", "core=2, core=2", r"3:14: the name 'core' of this grid variable is taken"),
        ("core=2", "a=1048576, core=2", r"3:17: the grid is too large; allowed: .*1048576 instances"),
        ("tensor x", "tensr x", r"4:1: unknown declaration 'tensr' \(did you mean 'tensor'\?\)"),
        (
            "x: int8",
            "x: int9",
            r"4:11: unknown dtype 'int9' \(did you mean 'int8'\?\); allowed: int8, uint8, int16, int32, fp8, bf16, ",
        ),
        ("512, 512]", "512, 0]", r"4:21: size: found 0; allowed: 1 to 9223372036854775807"),
        ("512, 512]", "512, -4]", r"4:21: size: found -4; allowed: 1 to"),
        ("512, 512]", "512, 9223372036854775807]", r"4:11: the shape \[512, 9223372036854775807\] .* too large"),
        (
            "512, 512]",
            "1, 1, 1, 1, 1, 1, 1, 1, 1]",
            r"4:11: the shape .* of 9 dimensions is too large; allowed: up to 8",
        ),
        ("in @host", "inn @host", r"4:26: unknown role 'inn' \(did you mean 'in'\?\); allowed: in, out, const"),
        ("buffer xb", "buffer x", r"6:8: the name 'x' of this buffer is taken"),
        (" x2 ", " x0 ", r"6:27: slots: found 0; allowed: 1 or more"),
        (" x2 ", " 2 ", r"6:27: found '2'; allowed: xSLOTS"),
        (" x2 ", " x9223372036854775807 ", r"6:8: buffer 'xb' is too large; allowed: below 2\*\*63 bytes"),
        ("semaphore x_free", "semaphore x_full", r"10:11: the name 'x_full' of this semaphore is taken"),
        ("= 2", "= 9223372036854775808", r"10:20: initial count: found 9223372036854775808; allowed: integers below"),
        ("unit 0", "unti 0", r"11:14: found 'unti' \(did you mean 'unit'\?\); allowed: unit NUMBER"),
        ("unit 0 {", "unit 0", r"11:20: found the end of the line; allowed: unit NUMBER, when"),
        ("stream mm", "stream loadx", r"16:8: the name 'loadx' of this stream is taken"),
        (
            "}\nstream mm",
            "}\nsemaphore s\nstream mm",
            r"16:1: found 'semaphore' behind a stream; allowed: all semaphores",
        ),
        ("}\nstream mm", "}\n}\nstream mm", r"16:1: found '\}' where no block is open"),
        ("}\nstream mm", "stream mm", r"15:1: found 'stream' inside stream 'loadx' of line 11: its '\}' is missing"),
        ("loop m 4", "loop core 4", r"12:10: 'core' is a grid variable already"),
        ("loop n 2", "loop m 2", r"18:14: 'm' is a loop variable already"),
        ("loop m 4", "loop m 1000000000000", r"12:12: trips: found 1000000000000; allowed: 1 to 1000000000"),
        ("loop m 4", "loop m 0", r"12:12: trips: found 0"),
        ("loop m 4", "loop m", r"12:12: found '\{'; allowed: trips: an integer"),
        (WHOLE_LINE, "", r"12:10: loop 'm' is empty; allowed: one instruction or more"),
        ("xb{m}", "xc{m}", r"13:14: unknown buffer 'xc' \(did you mean '..?'\?\); allowed: x, w, xb, acc, wp"),
        ("xb{m}", "xb", r"13:16: found ','; allowed: '\{' and the slot of buffer 'xb', such as xb\{0\}"),
        ("x[128*m", "x{0}[128*m", r"13:22: found a slot; allowed: none, since 'x' is a tensor"),
        ("x[128*m", "xx[128*m", r"13:21: unknown tensor or buffer 'xx' \(did you mean 'x.?'\?\)"),
        ("128*m +:", "128*mm +:", r"13:27: unknown variable 'mm' \(did you mean 'm'\?\); allowed: core, m"),
        ("accumulate=m ", "accumulate=q+1 ", r"19:\d+: unknown variable 'q'; allowed: core, m, n"),
        ("+: 128, 256*core +: 256", "+: 128", r"13:21: found 1 dimensions of 'x'; allowed: 2, or none"),
        ("+: 128,", ": 128,", r"13:29: found ':'; allowed: '\+:' and a size"),
        ("+: 128,", "+: 0,", r"13:32: size: found 0"),
        (": 2,", ": -2,", r"19:\d+: step: found -2; allowed: 1 to"),
        ("wait(x_free", "wait(xfree", r"13:59: unknown semaphore 'xfree' \(did you mean 'x_free'\?\)"),
        ("wait(x_free", "wiat(x_free", r"13:54: unknown word 'wiat' \(did you mean 'wait'\?\); allowed: wait, signal"),
        ("x_free, 2", "x_free, 0", r"13:67: count: found 0"),
        ("signal(x_full, 2)", "signal(x_full, 2", r"13:86: found the end of the line; allowed: '\)'"),
        ("core=core + 1", "cor=core + 1", r"21:\d+: unknown word 'cor' \(did you mean 'core'\?\)"),
        ("shift=3", "shift=3 shift=4", r"21:\d+: attribute 'shift' is given twice"),
        ("shift=3", "shift", r"21:\d+: found 'shift'; allowed: ',' and an operand, key=value"),
        ("shift=3", "shift=1e999", r"21:\d+: shift: found 1e999; allowed: numbers that a float64 can hold"),
        ("shift=3", "shift=12ab", r"21:\d+: found '12a'; allowed: a number"),
        ("shift=3", "shift=99999999999999999999", r"21:\d+: integer: found 9+; allowed: integers below 2\*\*63"),
        ("shift=3", "shift=9223372036854775807*m + m", r"21:\d+: the expression is too large"),
        ("shift=3", "shift=$", r"21:\d+: found '\$', which begins nothing"),
        ("shift=3", 'shift="a\x85b"', r"21:\d+: found a character in the text that cannot be printed"),
    ],
)
def test_mistake_is_named_with_its_place(old: str, new: str, message: str) -> None:
    assert old in EXAMPLE
    with pytest.raises(BadInput, match=f"^f.pasm:{message}"):
        parse(EXAMPLE.replace(old, new, 1), "f.pasm")


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "\0", "{}", "- a\n- b\n"])
def test_what_is_no_program_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r'program "NAME" on "MACHINE"|begins nothing'):
        parse(text)


def test_instruction_names_are_checked_where_they_are_known() -> None:
    ops = ("load", "matmul", "requantize")
    assert parse(EXAMPLE, ops=ops) == parse(EXAMPLE)
    with pytest.raises(BadInput, match=r"19:13: unknown instruction 'matmull' \(did you mean 'matmul'\?\)"):
        parse(EXAMPLE.replace("matmul acc", "matmull acc"), ops=ops)
