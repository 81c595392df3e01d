"""Does the text say exactly what the program says, and does an error say what to mend?"""

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

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


def read(text: str) -> Program | BadInput:
    try:
        return parse(text, "d.pasm")
    except BadInput as error:
        return error


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
    assert requantize.signals == (Count("x_free", 1, Dim(Affine(1, (("core", 1),)), 1)),)


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


@pytest.mark.parametrize(
    ("written", "loop"),
    [
        ("1 + 2*b", (1, (("b", 2),))),
        ("2*b + 1", (1, (("b", 2),))),
        ("b", (0, (("b", 1),))),
        ("7 - a - b", (7, (("a", -1), ("b", -1)))),
        ("-b + 3", (3, (("b", -1),))),
        ("b + b*2 + a - a", (0, (("b", 3),))),
        ("2 + b - b", (2, ())),
        ("4", (4, ())),
    ],
)
@pytest.mark.parametrize("place", ["static", "dispatch", "persistent"])
def test_trips_may_depend_on_the_grid(written: str, loop: tuple[int, tuple[tuple[str, int], ...]], place: str) -> None:
    text = f"""program "p" on "h100"
workload "w"
grid a=2, b=4 {place}
stream s {{ loop k {written} {{ sync }} }}
"""
    found = parse(text)
    assert found.place == place
    (node,) = found.streams[0].body
    assert node == Loop("k", loop[0], (Instruction("sync"),), loop[1])
    assert parse(render(found)) == found


@pytest.mark.parametrize(
    ("trips", "message"),
    [
        ("0", "trips: found 0; allowed: 1 to 1000000000"),
        ("b - b", "trips: found 0; allowed: 1 to 1000000000"),
        ("-3", "trips: found -3; allowed: 1 to 1000000000"),
        ("c", "unknown variable 'c'"),
        ("m", "unknown variable 'm'"),  # a loop around is no grid variable
        ("2*", "a loop variable"),
        ("1.5", "trips"),
    ],
)
def test_trips_that_cannot_be_are_named(trips: str, message: str) -> None:
    head = 'program "p" on "h100"\nworkload "w"\ngrid a=2, b=4 dispatch\n'
    text = f"{head}stream s {{ loop m 2 {{ loop k {trips} {{ sync }} }} }}"
    with pytest.raises(BadInput) as found:
        parse(text)
    assert message in str(found.value)


def test_without_a_grid_trips_are_a_number() -> None:
    with pytest.raises(BadInput, match="trips"):
        parse('program "p" on "h100"\nworkload "w"\nstream s { loop k b { sync } }')


@given(affines((("m", 4), ("n", 3))))
def test_affine_text_has_the_same_value(expression: Affine) -> None:
    values = {"m": 3, "n": 2}
    assert eval(render_affine(expression), {}, values) == expression.at(values)  # noqa: S307 - Python reads it alike


def _with_body(text: str) -> str:
    return f'program "p" on "m"\nworkload ""\nbuffer b: int8[4] @s\nstream s {{\n{text}\n}}\n'


def _nest(depth: int) -> str:
    return "".join(f"loop v{i} 2 {{" for i in range(depth)) + "nop" + "}" * depth


def test_limits_are_tight() -> None:
    parse(_with_body(_nest(assembly.MAX_LOOP_DEPTH)))
    with pytest.raises(BadInput, match="found a loop 17 deep; allowed: up to 16"):
        parse(_with_body(_nest(assembly.MAX_LOOP_DEPTH + 1)))
    parse(_with_body(f"loop i {assembly.MAX_TRIPS} {{ nop }}"))
    with pytest.raises(BadInput, match="trips: found 1000000001"):
        parse(_with_body(f"loop i {assembly.MAX_TRIPS + 1} {{ nop }}"))
    parse(_with_body(f"nop a={lexer.MAX_INTEGER} b=-{lexer.MAX_INTEGER}"))
    with pytest.raises(BadInput, match="integers below"):
        parse(_with_body(f"nop a={lexer.MAX_INTEGER + 1}"))
    numbers = body.MAX_LITERAL_BYTES // body.LITERAL_NUMBER_BYTES
    parse(_with_body("\n".join(["fill b{0} value=1"] * numbers)))
    with pytest.raises(BadInput, match="attribute values exceed 65536 bytes"):
        parse(_with_body("\n".join(["fill b{0} value=1"] * (numbers + 1))))
    parse(_with_body("n" * lexer.MAX_NAME_CHARACTERS))
    with pytest.raises(BadInput, match="a name of 129 characters; allowed: up to 128"):
        parse(_with_body("n" * (lexer.MAX_NAME_CHARACTERS + 1)))
    parse(_with_body(" " * lexer.MAX_LINE_CHARACTERS))
    with pytest.raises(BadInput, match="the line has 16385 characters"):
        parse(_with_body(" " * (lexer.MAX_LINE_CHARACTERS + 1)))
    with pytest.raises(BadInput, match="one declaration more than 512"):
        parse('program "p" on "m"\nworkload ""\n' + "".join(f"semaphore s{i}\n" for i in range(513)))
    streams = [f"stream s{i} {{ nop }}\n" for i in range(257)]
    assert len(parse('program "p" on "m"\nworkload ""\n' + "".join(streams[1:])).streams) == 256
    with pytest.raises(BadInput, match=r":259:1: found one stream more than 256, the most allowed"):
        parse('program "p" on "m"\nworkload ""\n' + "".join(streams))


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
    outcome = read(text)
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
