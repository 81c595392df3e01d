"""Is every mistake in a machine file named with its line, column, field, what was found and what is allowed?"""

import os

import pytest

from presil.simulators.errors import BadInput
from presil.simulators.machine import MACHINES, load_machine, parse_machine

V1 = (MACHINES / "tpu-v1.yaml").read_text(encoding="utf-8")


def refused(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        parse_machine(text, "chip.yaml")
    return str(caught.value)


def changed(old: str, new: str) -> tuple[str, int]:
    """tpu-v1 with one text replaced, and the line where that is."""
    assert old in V1
    return V1.replace(old, new, 1), V1[: V1.index(old)].count("\n") + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "chip.yaml: empty: expected `key: value` lines"),
        ("# nothing but a comment\n", "chip.yaml: empty: expected `key: value` lines"),
        ("- name: x\n", "chip.yaml:1:1: expected `key: value` lines at the top, found a list"),
        ("tpu-v1", "chip.yaml:1:1: expected `key: value` lines at the top, found a single value"),
        ("name: [x\n", "chip.yaml:2:1: not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("name: x\n\tfamily: y\n", "chip.yaml:2:1: not valid YAML: found character '\\t' that cannot start any token"),
        ("name: x: y\n", "chip.yaml:1:8: not valid YAML: mapping values are not allowed here"),
        ("name: x\n--- \nname: y\n", "chip.yaml:2:1: not valid YAML: but found another document"),
        ("name: \x00", "chip.yaml: not valid YAML: unacceptable character #x0000"),
        ("a: &a [1]\nb: *a\n", "chip.yaml:1:4: anchors and aliases (& and *) are not allowed: write the value out"),
        ("a: !!python/object/apply:os.system [ls]\n", "chip.yaml:1:4: tags are not allowed (found tag:yaml.org,2002:python/object/apply:os.system)"),
        ("a: !!int 3\n", "chip.yaml:1:4: tags are not allowed (found tag:yaml.org,2002:int)"),
        ("[" * 10_000, "chip.yaml:1:17: nested too deeply (allowed: 16 levels)"),
        ("a: [" + "1," * 30_000 + "]", "too many values (allowed: 20000)"),
        ("a: " + "9" * 5_000, "chip.yaml:1:4: a: not a usable number or text (found " + "9" * 40 + ")"),
        ("? [a]\n: 1\n", "chip.yaml:1:3: a key must be a word"),
    ],
)  # fmt: skip
def test_not_a_description(text, message):
    assert message in refused(text)


def test_anchor_bomb():
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "chip.yaml:1:5: anchors and aliases" in refused("\n".join(rows))


@pytest.mark.parametrize(
    ("old", "new", "column", "message"),
    [
        ("  accumulator: {", "  acumulator: {", 3, "systolic.acumulator: unknown field (allowed: array, scratchpad, accumulator, weight_buffer, weight_tile, vector, dma, issue, semaphore, activation_memory, weight_memory) (did you mean 'accumulator'?)"),
        ("    rows: {value: 256,", "    rows: {value: 0,", 19, "systolic.array.rows: should be greater than or equal to 1 (found 0)"),
        ("    rows: {value: 256,", "    rows: {value: -256,", 19, "systolic.array.rows: should be greater than or equal to 1 (found -256)"),
        ("    rows: {value: 256,", "    rows: {value: 1000000000000,", 19, "systolic.array.rows: should be less than or equal to 4096 (found 1000000000000)"),
        ("    rows: {value: 256,", "    rows: {value: 2.5,", 19, "systolic.array.rows: should be a whole number (found 2.5)"),
        ("    rows: {value: 256,", "    rows: {value: '256',", 19, 'systolic.array.rows: should be a whole number (found "256")'),
        ("    rows: {value: 256,", "    rows: {value: true,", 19, "systolic.array.rows: should be a whole number (found true)"),
        ("    rows: {value: 256,", "    rows: {value: 2026-01-01,", 19, "systolic.array.rows: not a usable number or text (found 2026-01-01)"),
        ("dataflows: [ws]", "dataflows: [ww]", 17, "systolic.array.dataflows[0]: unknown word (found \"ww\", allowed: 'ws' or 'os') (did you mean 'ws'?)"),
        ("dataflows: [ws]", "dataflows: []", 16, "systolic.array.dataflows: empty (allowed: 1 or more)"),
        ("input: int8", "input: int9", 17, "systolic.array.types[0].input: unknown word (found \"int9\", allowed: 'int8' or 'bf16') (did you mean 'int8'?)"),
        ("34 GB/s", "34 GBs", 24, "memories.ddr3.bandwidth: unknown unit 'GBs' (found '34 GBs'; allowed: a number with one of B/s, kB/s, MB/s, GB/s, TB/s, PB/s, KiB/s, MiB/s, GiB/s, TiB/s) (did you mean 'GB/s'?)"),
        ("value: 34 GB/s", "value: 34", 24, "memories.ddr3.bandwidth: no unit (found '34'; allowed: a number with one of B/s, kB/s,"),
        ("value: 34 GB/s", "value: .inf", 24, "memories.ddr3.bandwidth: not a usable number or text (found .inf)"),
        ('{value: 34 GB/s, source: "Jouppi 2017, Table 2"}', "34 GB/s", 16, "memories.ddr3.bandwidth: figure without source (found 34 GB/s; write {value: 34 GB/s, source: where it is from})"),
        ("{value: 1, source: Jouppi 2017}", "1", 8, "cores: figure without source (found 1; write {value: 1, source: where it is from})"),
        (", source: Jouppi 2017}", "}", 16, "cores: figure without source (a figure needs both `value` and `source`, a text)"),
        ("{value: 1, source: Jouppi 2017}", "{source: Jouppi 2017}", 8, "cores: source without value (a figure needs both `value` and `source`)"),
        ("{value: 1, source: Jouppi 2017}", "{value: 1, sourse: Jouppi 2017}", 19, "cores.sourse: unknown field (allowed: value, source) (did you mean 'source'?)"),
        ("weight_memory: ddr3", "weight_memory: ddr4", 18, "systolic.weight_memory: unknown memory (found 'ddr4', allowed: ddr3, host) (did you mean 'ddr3'?)"),
        ("family: systolic", "family: sistolic", 9, "family: unknown family (found 'sistolic', allowed: gpu, systolic) (did you mean 'systolic'?)"),
        ("name: tpu-v1", "name: ../tpu", 7, 'name: not a name (found "../tpu", allowed: ^[a-z0-9]'),
        ("cores:", "clock_hz:", 1, "clock_hz: given twice (first in line 6)"),
        ('value: 1.0, source: "chosen: the paper', 'value: 1.5, source: "chosen: the paper', 25, "memories.ddr3.efficiency: should be less than or equal to 1 (found 1.5)"),
        ("value: 100 ns", "value: 100 hours", 22, "memories.ddr3.latency: unknown unit 'hours' (found '100 hours'; allowed: a number with one of s, ms, us, ns, ps)"),
    ],
)  # fmt: skip
def test_one_mistake(old, new, column, message):
    text, line = changed(old, new)
    found = refused(text).splitlines()
    assert [row for row in found if row.startswith(f"chip.yaml:{line}:{column}: {message}")], found


def test_a_missing_field_is_named_where_it_belongs():
    text, line = changed("    burst_bytes: {value: 64,", "    burst_size: {value: 64,")
    assert refused(text).splitlines() == [
        "chip.yaml:10:3: memories.ddr3.burst_bytes: missing",
        f"chip.yaml:{line}:5: memories.ddr3.burst_size: unknown field (allowed: bandwidth, latency, burst_bytes, capacity, efficiency) (did you mean 'burst_bytes'?)",
    ]


def test_a_missing_family_part():
    text = V1[: V1.index("systolic:\n")]
    assert refused(text) == "chip.yaml:1:1: systolic: missing (the part that only this family has)"


def test_every_mistake_is_reported_at_once_in_the_order_of_the_file():
    text = V1.replace("700 MHz", "700 Mhz").replace("value: 1, source: Jouppi 2017}", "value: 0, source: x}", 1)
    text = text.replace("64 KiB", "64 kiB").replace("weight_memory: ddr3", "weight_memory: hbm")
    fields = [row.split(": ")[1] for row in refused(text).splitlines()]
    assert fields == ["clock_hz", "cores", "systolic.weight_tile", "systolic.weight_memory"]


def test_the_error_holds_the_place_of_the_first_mistake():
    text, line = changed("700 MHz", "700 Mhz")
    with pytest.raises(BadInput) as caught:
        parse_machine(text, "chip.yaml")
    assert (caught.value.file, caught.value.line, caught.value.column) == ("chip.yaml", line, 19)


def test_extending_what_is_not_there():
    message = "chip.yaml:1:10: extends: not a machine that can be extended (found 'tpu-v9', allowed: a100, gemmini-16, "
    assert refused("extends: tpu-v9\nname: x\n").startswith(message)


def test_a_mistake_in_what_extends_is_placed_in_its_own_file():
    text = "extends: tpu-v1\nname: mine\nsystolic:\n  scratchpad: {value: 3 MB/s, source: x}\n"
    assert refused(text).startswith("chip.yaml:4:23: systolic.scratchpad: unknown unit 'MB/s' (found '3 MB/s'; ")


def test_100_megabytes_are_refused_unread(tmp_path):
    path = tmp_path / "huge.yaml"
    with path.open("wb") as stream:
        stream.truncate(100 * 1024 * 1024)
    with pytest.raises(BadInput, match=r"huge\.yaml: too large for a description \(allowed: 1048576 bytes\)"):
        load_machine(path)


def test_an_endless_file_is_refused():
    with pytest.raises(BadInput, match="/dev/zero: too large"):
        load_machine("/dev/zero")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: None, "cannot be read: No such file or directory"),
        (lambda path: path.mkdir(), "cannot be read: Is a directory"),
        (os.mkfifo, "this is no plain file; allowed: a text file"),
        (lambda path: path.write_bytes(b"name: \xff\n"), r"not UTF-8 text \(byte 6\)"),
    ],
)
def test_unreadable(tmp_path, make, message):
    path = tmp_path / "chip.yaml"
    make(path)
    with pytest.raises(BadInput, match=message):
        load_machine(path)
