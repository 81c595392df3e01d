"""Is every mistake in a suite named with its place, and every right suite read as it was meant?"""

from pathlib import Path

import pytest

from presil.simulators.errors import BadInput
from presil.suites.suite import Block, Cnn, Single, load_suite, parse_suite

RIGHT = """\
name: small
machines: [tpu-v1, gemmini-16]
budget: 12
workloads:
  - matmul:m=8,n=8,k=8
  - {operator: matmul, m: 8, n: 8, k: 9, bias: no}
  - {model: resnet50, batch: [1, 8]}
  - {model: llama-3-8b-block, phase: decode, tokens: 512, batch: 16}
"""


def refusal(text: str) -> str:
    with pytest.raises(BadInput) as caught:
        parse_suite(text, "s.yaml")
    return str(caught.value)


def test_a_right_suite():
    suite = parse_suite(RIGHT)
    assert (suite.name, suite.title, suite.budget, suite.seed) == ("small", "small", 12, 1)
    assert [machine.name for machine in suite.machines] == ["tpu-v1", "gemmini-16"]
    assert suite.entries == (
        Single(workload="matmul:m=8,n=8,k=8,dtype=int8"),
        Single(workload="matmul:m=8,n=8,k=9,dtype=int8"),  # bias=no is the default: left out
        Cnn(model="resnet50", batch=(1, 8)),
        Block(model="llama-3-8b-block", phase="decode", tokens=512, batch=(16,)),
    )
    assert suite.text == RIGHT


def test_the_quick_suite_is_right():
    suite = load_suite(Path(__file__).parents[2] / "suites" / "quick.yaml")
    assert [machine.name for machine in suite.machines] == ["tpu-v1", "tpu-v4", "gemmini-16"]


@pytest.mark.parametrize(
    ("found", "put", "message"),
    [
        ("name: small", "name: Small one", "s.yaml:1:7: name: "),
        ("name: small\n", "", "s.yaml:1:1: name: missing"),
        (
            "budget",
            "budgte",
            "s.yaml:3:1: budgte: unknown field (allowed: name, title, machines, workloads, budget, seed, check",
        ),
        ("12", "0", "s.yaml:3:9: budget: should be greater than or equal to 1 (found 0)"),
        ("12", "1e3", "s.yaml:3:9: budget: should be a whole number (found 1000.0)"),
        ("12", '"12"', 's.yaml:3:9: budget: should be a whole number (found "12")'),
        ("tpu-v1", "tpu-1", "s.yaml:2:12: machines[0]: unknown machine 'tpu-1' (did you mean 'tpu-v1'?); there are: "),
        ("gemmini-16", "tpu-v1", "s.yaml:2:20: machines[1]: 'tpu-v1' is given twice"),
        ("gemmini-16", "./none.yaml", "s.yaml:2:20: machines[1]: none.yaml: cannot be read: No such file"),
        ("[tpu-v1, gemmini-16]", "[]", "s.yaml:2:11: machines: "),
        (
            "m=8,n",
            "m=0,n",
            "s.yaml:5:5: workloads[0]: workload 'matmul:m=0,n=8,k=8': 'm' is 0; a whole number from 1 to",
        ),
        ("matmul:", "matmlu:", "unknown operator 'matmlu' (did you mean 'matmul'?); there are: "),
        ("k: 9", "q: 9", "s.yaml:6:5: workloads[1]: "),
        (
            "resnet50",
            "resnet",
            "s.yaml:7:5: workloads[2]: unknown model 'resnet' (did you mean 'resnet50'?); there are: ",
        ),
        ("[1, 8]", "[1, 0]", "s.yaml:7:34: workloads[2].batch[1]: should be greater than or equal to 1 (found 0)"),
        ("batch: [", "batches: [", "workloads[2].batches: unknown field (allowed: model, batch, score)"),
        (
            "decode",
            "decoding",
            "s.yaml:8:38: workloads[3].phase: unknown word (found \"decoding\", allowed: 'prefill' or 'd",
        ),
        ("model: l", "operator: matmul, model: l", "s.yaml:8:5: workloads[3]: a workload is a text such as"),
        ("- matmul:m=8,n=8,k=8", "- 7", "s.yaml:5:5: workloads[0]: a workload is a text such as"),
    ],
)
def test_a_mistake_is_named_with_its_place(found, put, message):
    assert found in RIGHT
    assert message in refusal(RIGHT.replace(found, put, 1))


def test_all_mistakes_are_reported_at_once_in_order():
    wrong = RIGHT.replace("12", "0").replace("tpu-v1", "tpu-1").replace("resnet50", "resnet")
    assert [line.split(": ")[0] for line in refusal(wrong).splitlines()] == ["s.yaml:2:12", "s.yaml:3:9", "s.yaml:7:5"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.yaml: empty"),
        ("- a\n- b\n", "found a list"),
        ("just words", "found a single value"),
        ("name: a\nname: b\n", "given twice"),
        ("a: &a [x, x]\nb: [*a, *a]\n", "anchors and aliases"),
        ("a: !!python/object:os.system {}\n", "tags are not allowed"),
        ("a: [" * 40, "nested too deeply"),
        ("name: [a\n", "not valid YAML"),
    ],
)
def test_what_is_no_suite_at_all_is_refused(text, message):
    assert message in refusal(text)


def test_a_huge_file_is_refused_unread(tmp_path):
    path = tmp_path / "huge.yaml"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(BadInput, match="too large"):
        load_suite(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadInput, match=r"none\.yaml: cannot be read: No such file"):
        load_suite(tmp_path / "none.yaml")


def test_a_machine_may_be_a_file_beside_the_suite(tmp_path):
    machines = Path(__file__).parents[2] / "simulators" / "machines"
    (tmp_path / "mine.yaml").write_text(
        (machines / "gemmini-16.yaml").read_text().replace("name: gemmini-16", "name: mine")
    )
    (tmp_path / "suite.yaml").write_text(RIGHT.replace("gemmini-16", "mine.yaml"))
    assert [machine.name for machine in load_suite(tmp_path / "suite.yaml").machines] == ["tpu-v1", "mine"]


def test_a_machine_whose_name_no_path_can_hold_is_refused_in_words():
    text = 'name: x\nmachines: ["a\\0b.yaml"]\nworkloads: ["matmul:m=8,n=8,k=8"]\n'
    with pytest.raises(BadInput, match=r"2:12: machines\[0\]: not the name of a machine"):
        parse_suite(text)
