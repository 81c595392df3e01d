"""Does `presil simulate --fidelity rtl` give what the event model gives, and refuse in words what it cannot?"""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from presil.suites.cli import app

WORKLOAD = "matmul:m=13,n=10,k=9,dtype=int8"


def presil(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def pasm(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("rtl") / "best.pasm"
    assert presil("search", WORKLOAD, "--machine", "systolic-4", "--budget", 2, "--save", path).exit_code == 0
    return path


def told(*words: object) -> dict:
    done = presil(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_same_bits_and_bytes_and_nearly_the_same_cycles(pasm):
    rtl, event = told("simulate", pasm, "--fidelity", "rtl"), told("simulate", pasm, "--mode", "full")
    assert list(rtl) == list(event)
    assert rtl["outputs"] == event["outputs"] != {}
    assert (rtl["fidelity"], rtl["mode"]) == ("rtl", None)
    for same in ("traffic_bytes", "executed_instructions"):
        assert rtl[same] == event[same]
    assert rtl["engines"].keys() == event["engines"].keys()
    assert rtl["cycles"] == pytest.approx(event["cycles"], rel=0.03)
    for engine in rtl["engines"].values():
        assert engine["busy"] + sum(engine["stall"].values()) == rtl["cycles"]


def test_for_people(pasm):
    text = presil("simulate", pasm, "--fidelity", "rtl").output
    assert "matmul on systolic-4:" in text
    assert "(rtl)" in text
    assert "idle; the RTL counts no reasons" in text


def test_a_timing_without_data_has_no_outputs(pasm):
    assert "outputs" not in told("simulate", pasm)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--waves", "x.vcd"), "--waves is for --fidelity rtl"),
        (("--verilator", "v", "--fidelity", "bound"), "--verilator is for --fidelity rtl"),
        (("--timeline", "t.json", "--fidelity", "rtl"), "--timeline is for --fidelity event"),
        (("--fidelity", "rtl", "--waves", "x.txt"), "waves go to a .vcd or .fst file, not x.txt"),
        (("--fidelity", "rtl", "--waves", "/none/x.vcd"), "/none/x.vcd: No such file"),
        (("--fidelity", "rtl", "--verilator", "/none/v"), "/none/v is no Verilator that can be run"),
    ],
)
def test_refused_in_words(pasm, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = presil("simulate", pasm, *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert not list(tmp_path.glob("x.*"))  # what is refused leaves nothing


def test_a_machine_that_the_rtl_does_not_build(tmp_path):
    path = tmp_path / "tpu.pasm"
    assert presil("search", WORKLOAD, "--machine", "tpu-v1", "--budget", 2, "--save", path).exit_code == 0
    done = presil("simulate", path, "--fidelity", "rtl")
    assert done.exit_code == 2
    assert "tpu-v1 has 2 load and 1 store channels: the RTL does not build that" in done.stderr
