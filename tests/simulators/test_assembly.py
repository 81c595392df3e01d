"""Does the text say exactly what the program says, and does an error say what to mend?"""

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from presil.simulators import assembly, body, lexer
from presil.simulators.assembly import load_program, parse, render
from presil.simulators.errors import BadInput
from presil.simulators.program import Affine, Count, Dim, Instruction, Loop, Program, Region, Stream
from presil.simulators.rendering import render_affine, render_instruction

from .strategies import affines, programs

EXAMPLE = """\
program "matmul" on "tpu-v1"
workload "matmul:m=512,n=512,k=512,dtype=int8"
grid core=2 static
tensor x: int8[512, 512] in @host
tensor w: int8[512, 256] const @ddr3
buffer xb: int8[128, 256] x2 @scratchpad+0
buffer acc: int32[128, 256] x1 @accumulator+4096
buffer wp: int8[256, 256] x2 @planes+0
semaphore x_full = 0
semaphore x_free = 2
stream loadx unit 0 {
    loop m 4 {
        load xb{m}, x[128*m +: 128, 256*core +: 256] wait(x_free, 2) signal(x_full, 2)
    }
}
stream mm unit 1 {
    loop m 4 {
        loop n 2 {
            matmul acc{0}, xb{m + 1}[0 +: 64 : 2, 0 +: 256], wp{2*m - n + 3} accumulate=m wait(x_full, 1)
        }
        requantize xb{0}, acc{0} activation=relu factor=-0.5 shift=3 signal(x_free, 1, core=core + 1)
    }
}
"""
WHOLE_LINE = "        load xb{m}, x[128*m +: 128, 256*core +: 256] wait(x_free, 2) signal(x_full, 2)\n"


def test_example_reads_as_written() -> None:
    program = parse(EXAMPLE)
    assert (program.name, program.machine, program.grid, program.place) == (
        "matmul",
        "tpu-v1",
        (("core", 2),),
        "static",
    )
    assert [t.role for t in program.tensors] == ["in", "const"]
    assert [(b.slots, b.space, b.offset) for b in program.buffers] == [
        (2, "scratchpad", 0),
        (1, "accumulator", 4096),
        (2, "planes", 0),
    ]
    load, matmul = program.streams
    assert load.body == (
        Loop(
            "m",
            4,
            (
                Instruction(
                    "load",
                    (
                        Region("xb", Affine.var("m")),
                        Region("x", None, (Dim(Affine.var("m", 128), 128), Dim(Affine.var("core", 256), 256))),
                    ),
                    (),
                    (Count("x_free", 2),),
                    (Count("x_full", 2),),
                ),
            ),
        ),
    )
    assert matmul.unit == 1
    outer = matmul.body[0]
    assert isinstance(outer, Loop)
    requantize = outer.body[1]
    assert isinstance(requantize, Instruction)
    assert requantize.attributes == (("activation", "relu"), ("factor", -0.5), ("shift", 3))
    assert requantize.signals == (Count("x_free", 1, Affine(1, (("core", 1),))),)


def test_example_is_canonical() -> None:
    assert render(parse(EXAMPLE)) == EXAMPLE


def test_loose_layout_reads_the_same() -> None:
    loose = (
        EXAMPLE.replace("    ", "\t")
        .replace("\n", "   # why\r\n\n")
        .replace("2*m - n + 3", "3 - n + m + m*1 + 0*n")
        .replace(" x1 ", " ")
        .replace("wait(x_full, 1)", "wait(x_full)")
        .replace("accumulate=m wait(x_full)", "wait(x_full) accumulate = m")
    )
    assert parse(loose) == parse(EXAMPLE)
    assert parse("\n\n" + EXAMPLE.rstrip()) == parse(EXAMPLE)
    one_line = EXAMPLE.replace("{\n" + WHOLE_LINE + "    }\n}", "{" + WHOLE_LINE.strip() + "}}")
    assert one_line.count("\n") == EXAMPLE.count("\n") - 3
    assert parse(one_line) == parse(EXAMPLE)


@given(programs())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_text_and_program_round_trip(program: Program) -> None:
    text = render(program)
    again = parse(text)
    assert again == program
    assert render(again) == text
    kinds = [[type(v) for _, v in i.attributes] for s in program.streams for i in s.body if isinstance(i, Instruction)]
    assert kinds == [
        [type(v) for _, v in i.attributes] for s in again.streams for i in s.body if isinstance(i, Instruction)
    ]


@given(affines((("m", 4), ("n", 3))))
def test_affine_text_has_the_same_value(expression: Affine) -> None:
    values = {"m": 3, "n": 2}
    assert eval(render_affine(expression), {}, values) == expression.at(values)  # noqa: S307 - Python reads it alike


@given(st.integers(0, len(EXAMPLE) - 1), st.sampled_from(list('"{}[](),=:@+-*#x0 \n\0é')), st.booleans())
@settings(max_examples=300, deadline=None)
def test_damaged_text_is_read_or_refused_with_its_place(position: int, character: str, insert: bool) -> None:
    damaged = EXAMPLE[:position] + character + EXAMPLE[position + (0 if insert else 1) :]
    outcome = _read(damaged)
    if isinstance(outcome, Program):
        assert parse(render(outcome)) == outcome
    else:
        assert outcome.file == "d.pasm"
        assert outcome.line is not None
        assert outcome.column is not None
        assert 1 <= outcome.line <= damaged.count("\n") + 1
        assert 1 <= outcome.column <= len(damaged.split("\n")[outcome.line - 1]) + 1


def _read(text: str) -> Program | BadInput:
    try:
        return parse(text, "d.pasm")
    except BadInput as error:
        return error


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
            r"4:11: unknown dtype 'int9' \(did you mean 'int8'\?\); allowed: int8, int32, bf16, fp32",
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
        ("unit 0 {", "unit 0", r"11:20: found the end of the line; allowed: unit NUMBER or '\{'"),
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


def _with_body(text: str) -> str:
    return f'program "p" on "m"\nworkload ""\nbuffer b: int8[4] @s\nstream s {{\n{text}\n}}\n'


def _nest(depth: int) -> str:
    return "".join(f"loop v{i} 2 {{" for i in range(depth)) + "nop" + "}" * depth


def test_limits_are_tight() -> None:
    assert parse(_with_body(_nest(assembly.MAX_LOOP_DEPTH)))
    with pytest.raises(BadInput, match="found a loop 17 deep; allowed: up to 16"):
        parse(_with_body(_nest(assembly.MAX_LOOP_DEPTH + 1)))
    assert parse(_with_body(f"loop i {assembly.MAX_TRIPS} {{ nop }}"))
    with pytest.raises(BadInput, match="trips: found 1000000001"):
        parse(_with_body(f"loop i {assembly.MAX_TRIPS + 1} {{ nop }}"))
    assert parse(_with_body(f"nop a={lexer.MAX_INTEGER} b=-{lexer.MAX_INTEGER}"))
    with pytest.raises(BadInput, match="integers below"):
        parse(_with_body(f"nop a={lexer.MAX_INTEGER + 1}"))
    numbers = body.MAX_LITERAL_BYTES // body.LITERAL_NUMBER_BYTES
    assert parse(_with_body("\n".join(["fill b{0} value=1"] * numbers)))
    with pytest.raises(BadInput, match="attribute values exceed 65536 bytes"):
        parse(_with_body("\n".join(["fill b{0} value=1"] * (numbers + 1))))
    assert parse(_with_body("n" * lexer.MAX_NAME_CHARACTERS))
    with pytest.raises(BadInput, match="a name of 129 characters; allowed: up to 128"):
        parse(_with_body("n" * (lexer.MAX_NAME_CHARACTERS + 1)))
    assert parse(_with_body(" " * lexer.MAX_LINE_CHARACTERS))
    with pytest.raises(BadInput, match="the line has 16385 characters"):
        parse(_with_body(" " * (lexer.MAX_LINE_CHARACTERS + 1)))
    with pytest.raises(BadInput, match="one declaration more than 4096"):
        parse('program "p" on "m"\nworkload ""\n' + "".join(f"semaphore s{i}\n" for i in range(4097)))


@pytest.mark.slow
def test_number_of_nodes_is_limited() -> None:
    assert len(parse(_with_body("nop\n" * assembly.MAX_NODES)).streams[0].body) == assembly.MAX_NODES
    with pytest.raises(BadInput, match="more than 200000 loops and instructions"):
        parse(_with_body("nop\n" * (assembly.MAX_NODES + 1)))


@pytest.mark.parametrize(
    "text",
    [
        "{" * 4_000_000,
        "[" * 16_000 + "\n" * 4_000_000,
        'program "' + "a" * 4_000_000,
        ("a" * 16_000 + "\n") * 250,
        'program "p" on "m"\nworkload ""\ngrid a=' + "9" * 16_000,
        _with_body("nop a=" + "1." + "0" * 16_000),
        _with_body("nop a=" + "-" * 16_000),
        _with_body("nop a=" + "0 + " * 4_000 + "0"),
        _with_body("\n".join(["loop i 2 {"] * 300_000)),
        _with_body(("nop " + "a=1 " * 4_000 + "\n") * 100),
        "#" * 4_000_000,
        " " * 4_200_000,
        "é" * 2_200_000,
    ],
    ids=range(13),
)
def test_parser_bomb_is_soon_over(text: str) -> None:
    start = time.process_time()
    outcome = _read(text)
    assert isinstance(outcome, Program) or len(str(outcome)) < 1000
    assert time.process_time() - start < 2.0


def test_text_over_four_mebibytes_is_refused() -> None:
    padding = "#" * 1000 + "\n"
    allowed = EXAMPLE + padding * ((assembly.MAX_TEXT_BYTES - len(EXAMPLE)) // len(padding))
    assert parse(allowed) == parse(EXAMPLE)
    with pytest.raises(BadInput, match="the text is too long; allowed: up to 4194304 bytes"):
        parse(allowed + padding)


def test_word_that_is_a_variable_around_it_is_quoted() -> None:
    instruction = Instruction("op", (), (("a", "m"), ("b", "relu"), ("c", "")))
    assert render_instruction(instruction) == 'op a=m b=relu c=""'
    assert render_instruction(instruction, ("m",)) == 'op a="m" b=relu c=""'


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Affine(), "0"),
        (Affine(-3), "-3"),
        (Affine.var("m", -1), "-m"),
        (Affine(3, (("m", 2), ("n", 1))), "2*m + n + 3"),
        (Affine(-3, (("m", -2), ("n", -1))), "-2*m - n - 3"),
    ],
)
def test_affine_text(expression: Affine, text: str) -> None:
    assert render_affine(expression) == text


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Instruction("two words"), "the name 'two words' cannot be written"),
        (Instruction("op\n}"), r"the name 'op\\n\}' cannot be written"),
        (Instruction("op", (), (("a", float("inf")),)), "the attribute value inf cannot be written"),
        (Instruction("op", (), (("a", float("nan")),)), "the attribute value nan cannot be written"),
        (Instruction("op", (), (("a", 'say "no"'),)), "the text .* cannot be written"),
    ],
)
def test_what_has_no_text_is_not_rendered(instruction: Instruction, message: str) -> None:
    program = Program("p", "m", "", (), (), (), (Stream("s", (instruction,)),))
    with pytest.raises(BadInput, match=message):
        render(program)


def test_program_is_loaded_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pasm"
    path.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.replace("\n", "\r\n").encode())
    assert load_program(path) == parse(EXAMPLE)
    with pytest.raises(BadInput, match=r"a\.pasm:13:9: unknown instruction 'load'"):
        load_program(path, ops=("nop",))


def test_file_that_cannot_be_a_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.pasm: cannot be read: No such file"):
        load_program(tmp_path / "none.pasm")
    with pytest.raises(BadInput, match="this is a folder; allowed: a text file"):
        load_program(tmp_path)
    with pytest.raises(BadInput, match=r"a\\x00b: cannot be read: .*null"):
        load_program("a\0b")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="this is no plain file"):
        load_program(tmp_path / "pipe")
    with pytest.raises(BadInput, match="this is no plain file"):
        load_program("/dev/zero")
    latin = tmp_path / "latin.pasm"
    latin.write_bytes(b"# one\n# caf\xe9\n")
    with pytest.raises(BadInput, match=r"latin\.pasm:2: byte 0xe9 is not UTF-8"):
        load_program(latin)
    large = tmp_path / "large.pasm"
    with large.open("wb") as stream:
        stream.truncate(100 << 20)
    with pytest.raises(BadInput, match="the file is too long; allowed: up to 4194304 bytes"):
        load_program(large)
