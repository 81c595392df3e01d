"""Does every verb say what was promised, in its shape, with the right exit code, and never a traceback?"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from presil.suites.cli import app

VERBS = (
    "machines", "operators", "run", "search", "simulate", "check",
    "report", "replicate", "calibrate", "validate", "area",
)  # fmt: skip
WORKLOAD = "matmul:m=96,n=80,k=112,dtype=int8"
NUMBER = (int, float)
SUITE = f"name: small\nmachines: [gemmini-16, tpu-v1]\nbudget: 3\nworkloads:\n  - {WORKLOAD}\n"


def presil(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def ran(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "presil.suites.cli", *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=120, **options)


def told(*words: object, code: int = 0) -> dict[str, object]:
    """The one JSON object that a verb prints, through the command line of a process of its own."""
    done = ran(*words, "--json")
    assert (done.returncode, done.stderr) == (code, "")
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def pasm(tmp_path_factory) -> Path:
    """A right kernel for WORKLOAD on gemmini-16."""
    path = tmp_path_factory.mktemp("cli") / "best.pasm"
    done = presil("search", WORKLOAD, "--machine", "gemmini-16", "--budget", 3, "--save", path)
    assert done.exit_code == 0, done.output
    return path


def test_help_shows_all_verbs_and_each_has_examples():
    text = presil("--help").output
    for verb in VERBS:
        assert f"  {verb} " in text
        page = presil(verb, "--help").output
        assert f"Examples:\n    presil {verb}" in page
        assert "--json" in page


def test_help_is_quick():
    """0.2 s on a quiet machine; the best of five, since a busy one only adds to it."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        assert ran("--help").returncode == 0
        times.append(time.perf_counter() - began)
    assert min(times) < 0.3


def test_version():
    assert presil("--version").output.startswith("presil ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(shell):
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = ran("--show-completion", shell, env=environment)
    assert shown.returncode == 0
    assert "_COMPLETE" in shown.stdout


def test_machines():
    found = told("machines")
    names = [machine["name"] for machine in found["machines"]]
    assert {"tpu-v1", "tpu-v4", "gemmini-16"} <= set(names)
    assert "tpu-v1" in presil("machines").output


def test_one_machine_with_every_source():
    found = told("machines", "tpu-v1")
    assert found["clock_hz"] == 700e6  # Jouppi 2017, Table 2
    assert found["sources"]["clock_hz"] == "Jouppi 2017, Table 2"
    assert found["memories"]["ddr3"]["bandwidth"] == 34e9
    assert "Jouppi 2017" in presil("machines", "tpu-v1").output


def test_operators():
    found = told("operators")
    assert {"matmul", "conv2d", "softmax"} <= {each["name"] for each in found["operators"]}
    assert "conv2d" in presil("operators").output


def test_one_operator():
    found = told("operators", "matmul")
    by_name = {parameter["name"]: parameter for parameter in found["parameters"]}
    assert by_name["dtype"]["words"] == ["int8", "fp8", "bf16", "fp16", "fp32"]
    assert by_name["m"]["default"] is None
    assert "for example: matmul:m=64,n=64,k=64" in presil("operators", "matmul").output


def test_search_has_the_promised_shape(tmp_path):
    found = told("search", WORKLOAD, "--machine", "gemmini-16", "--budget", 3, "--seed", 7)
    assert (found["workload"], found["machine"], found["seed"]) == (WORKLOAD, "gemmini-16", 7)
    assert 1 <= found["evaluated"] <= 3
    best = found["best"]
    assert {"cycles", "seconds", "utilization", "bound_ratio", "schedule", "verdict"} <= best.keys()
    assert best["verdict"] == "right"
    assert best["seconds"] == best["cycles"] / 1e9  # 1 GHz
    assert best["utilization"] == pytest.approx(96 * 80 * 112 / (best["cycles"] * 256))  # a 16x16 array
    assert [entry["cycles"] for entry in found["leaderboard"]] == sorted(e["cycles"] for e in found["leaderboard"])


def test_search_saves_the_winner_whose_cycles_both_modes_give(pasm):
    found = told("search", WORKLOAD, "--machine", "gemmini-16", "--budget", 3)
    for mode in ("skip", "full"):
        timing = told("simulate", pasm, "--mode", mode)
        assert timing["cycles"] == found["best"]["cycles"]
        assert (timing["fidelity"], timing["mode"]) == ("event", mode)


def test_search_for_people(pasm):
    text = presil("search", WORKLOAD, "-m", "gemmini-16", "--budget", 3).output
    assert f"{WORKLOAD} on gemmini-16: 3 evaluated, seed 0" in text
    assert "right" in text


def test_simulate_has_the_promised_shape(pasm):
    found = told("simulate", pasm)
    assert list(found) == [
        "cycles",
        "seconds",
        "fidelity",
        "mode",
        "engines",
        "traffic_bytes",
        "executed_instructions",
    ]
    for engine in found["engines"].values():
        assert list(engine) == ["busy", "stall"]
        total = engine["busy"] + sum(engine["stall"].values())
        assert total == found["cycles"]
    # Each input is read, and the int32 output written, at least once.
    assert found["traffic_bytes"]["dram"] >= 96 * 112 + 112 * 80 + 4 * 96 * 80
    assert isinstance(found["executed_instructions"], int)


def test_simulate_for_people_says_where_the_time_went(pasm):
    text = presil("simulate", pasm).output
    assert "on gemmini-16:" in text
    assert "waiting for" in text


def test_the_bound_is_below_the_event_simulation(pasm):
    bound, event = told("simulate", pasm, "--fidelity", "bound"), told("simulate", pasm)
    assert (bound["fidelity"], bound["mode"], bound["engines"]) == ("bound", None, {})
    assert 0 < bound["cycles"] <= event["cycles"]
    assert bound["traffic_bytes"] == event["traffic_bytes"]


def test_another_machine_than_the_one_in_the_file(pasm):
    done = presil("simulate", pasm, "--machine", "tpu-v1")
    assert done.exit_code == 2
    assert "tpu-v1 has no" in done.output


def test_a_timeline(pasm, tmp_path):
    path = tmp_path / "t.json"
    assert presil("simulate", pasm, "--timeline", path).exit_code == 0
    assert {"ph", "name", "pid"} <= json.loads(path.read_text())["traceEvents"][0].keys()
    assert presil("simulate", pasm, "--timeline", tmp_path / "t.txt").exit_code == 2


def test_check_of_a_right_kernel(pasm):
    assert told("check", pasm, "--workload", WORKLOAD) == {"verdict": "right", "reasons": []}
    assert presil("check", pasm, "--workload", WORKLOAD).output == f"{pasm}: right\n"


def test_check_of_a_wrong_kernel_ends_with_1_and_says_why(pasm, tmp_path):
    wrong = tmp_path / "wrong.pasm"
    text = pasm.read_text()
    wait = text[text.index(" wait(") : text.index(")", text.index(" wait(")) + 1]
    wrong.write_text(text.replace(wait, "", 1))
    found = told("check", wrong, "--workload", WORKLOAD, code=1)
    assert found["verdict"] == "wrong"
    assert all(reason.keys() == {"kind", "where", "detail"} for reason in found["reasons"])
    assert presil("check", wrong, "--workload", WORKLOAD).exit_code == 1


def test_a_program_that_has_no_meaning_is_wrong_for_check_and_for_simulate(pasm, tmp_path):
    stuck = tmp_path / "stuck.pasm"
    text = pasm.read_text()
    stuck.write_text(text[: text.index(" signal(")] + text[text.index(")", text.index(" signal(")) + 1 :])
    assert told("check", stuck, "--workload", WORKLOAD, code=1)["verdict"] == "wrong"
    done = ran("simulate", stuck)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("presil: error: deadlock at ")


def test_run_and_report(tmp_path):
    suite, folder, pdf = tmp_path / "small.yaml", tmp_path / "runs", tmp_path / "out.pdf"
    suite.write_text(SUITE)
    found = told("run", suite, "-o", folder, "--jobs", 2)
    assert (found["planned"], found["finished"], found["failed"], found["interrupted"]) == (2, 2, 0, False)
    assert {item["verdict"] for item in found["items"]} == {"right"}
    assert {score["machine"] for score in found["scores"]} == {"gemmini-16", "tpu-v1"}
    text = presil("run", suite, "-o", folder).output
    assert "2 of 2 finished, 2 of them taken from earlier runs, 0 without a right kernel" in text
    assert told("report", folder, "-o", pdf)["file"] == str(pdf)
    assert pdf.read_bytes().startswith(b"%PDF-")
    one = told("run", suite, "-o", folder, "--machine", "gemmini-16", "--seed", 5, "--budget", 2)
    assert (one["planned"], one["reused"], one["machines"]) == (1, 0, ["gemmini-16"])


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["machines", "tpu-1"], 2, "unknown machine 'tpu-1' (did you mean 'tpu-v1'?)"),
        (["operators", "matmlu"], 2, "unknown operator 'matmlu' (did you mean 'matmul'?)"),
        (["search", "matmul:m=1", "-m", "tpu-v1"], 2, "'n' is missing"),
        (["search", "matmul:m=0,n=1,k=1", "-m", "tpu-v1"], 2, "'m' is 0"),
        (["search", "matmul:m=8,n=8,k=8,dtype=int3", "-m", "tpu-v1"], 2, "'dtype' is 'int3'"),
        (["search", "matmul:m=8,n=8,k=8,dtype=bf16", "-m", "tpu-v1"], 2, "bf16"),
        (["search", "matmul:m=99999999999999999999,n=8,k=8", "-m", "tpu-v1"], 2, "'m' is 9999"),
        (
            ["search", WORKLOAD, "-m", "gemmini-16", "--budget", "1", "--save", "/proc/none.pasm"],
            2,
            "cannot be written",
        ),
        (["search", WORKLOAD], 2, "Missing option '--machine'"),
        (["search", WORKLOAD, "-m", "tpu-v1", "--budget", "0"], 2, "--budget"),
        (["simulate", "none.pasm"], 2, "none.pasm"),
        (["check", "none.pasm", "--workload", WORKLOAD], 2, "none.pasm"),
        (["run", "none.yaml"], 2, "none.yaml: cannot be read"),
        (["report", "none", "-o", "x.pdf"], 3, "there is no run here"),
        (["report", "-o", "x.pdf"], 3, "there is no run here"),
        (["simulte", "x"], 2, "No such command 'simulte'"),
    ],
)
def test_mistakes_end_with_their_code_and_one_message_on_stderr(words, code, message, tmp_path):
    done = ran(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_measured_ends_with_3(tmp_path):
    suite = tmp_path / "s.yaml"
    suite.write_text("name: s\nmachines: [tpu-v1]\nworkloads: ['matmul:m=8,n=8,k=8,dtype=bf16']\n")
    done = ran("run", suite, "-o", tmp_path / "runs")
    assert (done.returncode, done.stdout) == (3, "")
    assert "was measured" in done.stderr


def test_a_folder_that_cannot_be_written(tmp_path):
    suite = tmp_path / "s.yaml"
    suite.write_text(SUITE)
    done = ran("run", suite, "-o", "/proc/presil")
    assert (done.returncode, done.stdout) == (2, "")
    assert "presil: error: /proc/presil: cannot write to the folder of the run: " in done.stderr


def test_a_reader_that_is_gone_is_no_error():
    line = [sys.executable, "-m", "presil.suites.cli", "machines", "tpu-v1", "--json"]
    read, write = os.pipe()
    os.close(read)
    with subprocess.Popen(line, stdout=write, stderr=subprocess.PIPE) as process:
        os.close(write)
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_no_colour_in_a_pipe_nor_with_no_color(pasm):
    assert "\x1b" not in ran("machines").stdout
    script = ["script", "-qec", f"{sys.executable} -m presil.suites.cli machines", "/dev/null"]
    try:
        done = subprocess.run(script, capture_output=True, text=True, check=True, env={**os.environ, "NO_COLOR": "1"})
    except FileNotFoundError:
        pytest.skip("no `script` to make a terminal with")
    colours = [code for code in done.stdout.split("\x1b[")[1:] if code[:2] in {"31", "32", "33", "34", "35", "36"}]
    assert "tpu-v1" in done.stdout
    assert colours == []


def test_a_full_disk_under_stdout_is_one_message():
    line = [sys.executable, "-m", "presil.suites.cli", "machines"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "presil: error: No space left on device\n")
