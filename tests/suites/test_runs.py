"""Is a run stored whole, the same for any number of workers, and does it go on after whatever stops it?"""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import forkserver
from pathlib import Path

import pytest

from presil.simulators.errors import BadInput
from presil.suites import pipeline
from presil.suites.pipeline import Options, run_suite
from presil.suites.runs import NothingRan, Run, open_run, to_json
from presil.suites.store import CorruptRecord, Store
from presil.suites.suite import Suite, parse_suite

HERE = Path(__file__).parent
CLI = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs are born deaf to it
sys.path.insert(0, sys.argv.pop(1))
import fake_line
from presil.suites import cli, pipeline
pipeline.run_item = fake_line.run_item
cli.main()
"""


@pytest.fixture(scope="module", autouse=True)
def warm_server():
    """The server that workers are forked from, with the line loaded once, as in a run without the stand-in."""
    forkserver.set_forkserver_preload(["presil.suites.pipeline"])
    forkserver.ensure_running()


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    import fake_line

    monkeypatch.setattr(pipeline, "run_item", fake_line.run_item)


def suite_text(*ks: int, seed: int = 0) -> str:
    lines = "".join(f"  - matmul:m=8,n=8,k={k}\n" for k in ks)
    return f"name: small\nmachines: [tpu-v1, gemmini-16]\nbudget: 5\nseed: {seed}\nworkloads:\n{lines}"


def suite(*ks: int, seed: int = 0) -> Suite:
    return parse_suite(suite_text(*ks, seed=seed))


def run(chosen: Suite, folder: Path, **options: object) -> Run:
    return run_suite(chosen, Options(**{"jobs": 2, **options}), folder)


def items_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("records/*/item-*.json"))


ITEMS = 24  # on two machines: enough that a signal always comes in the middle


def cli_process(folder: Path, *more: str, seed: int) -> subprocess.Popen[str]:
    file = folder.with_suffix(".yaml")
    file.write_text(suite_text(*range(1, ITEMS // 2 + 1), seed=seed))
    words = [sys.executable, "-c", CLI, str(HERE), "run", str(file), "-o", str(folder), "--jobs", "2", *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(holds) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_run_is_stored_with_all_its_inputs(tmp_path):
    done = run(suite(1, 2), tmp_path)
    assert len(done.items) == 4
    assert open_run(tmp_path) == open_run(tmp_path / done.run_id) == done
    facts = done.facts
    assert facts["suite_text"] == suite_text(1, 2)
    assert {
        "suite": "small",
        "seed": 0,
        "budget": 5,
        "jobs": 2,
        "planned": 4,
        "finished": 4,
        "failed": 0,
    }.items() <= facts.items()
    assert {"python", "presil", "numpy", "revision", "code"} <= facts["versions"].keys()
    assert facts["started_utc"] <= facts["finished_utc"]
    assert not facts["interrupted"]
    tpu = done.machines["tpu-v1"]
    # Jouppi 2017: 65,536 multiply-adds per cycle at 700 MHz.
    assert tpu["peak_multiply_adds_per_second"]["int8"] == 65536 * 700e6
    assert {"path": "clock_hz", "value": "700 MHz", "source": "Jouppi 2017, Table 2"} in tpu["figures"]
    json.dumps(to_json(done), allow_nan=False)


def test_scores_are_those_of_the_items(tmp_path):
    done = run(suite(1, 2), tmp_path)
    (tpu, gemmini) = done.scores
    rates = [700e6 / (1024 * k + 5) for k in (1, 2)]
    assert tpu.value == pytest.approx((rates[0] * rates[1]) ** 0.5)
    assert tpu.value == pytest.approx(0.7 * gemmini.value)  # 700 MHz and 1 GHz, equal cycles
    assert [place.machine for place in done.ranks] == ["gemmini-16", "tpu-v1"]


def test_results_are_the_same_for_any_number_of_jobs(tmp_path):
    one, three = run(suite(1, 2, 3), tmp_path / "1", jobs=1), run(suite(1, 2, 3), tmp_path / "3", jobs=3)
    assert one.items == three.items
    assert one.scores == three.scores
    assert [p.name for p in items_in(tmp_path / "1")] == [p.name for p in items_in(tmp_path / "3")]


def test_layers_of_equal_shape_are_one_item(tmp_path):
    done = run(parse_suite(suite_text(1) + "  - {operator: matmul, m: 8, n: 8, k: 1}\n"), tmp_path)
    assert len(done.items) == 2


def test_a_second_start_takes_what_is_finished(tmp_path):
    first = run(suite(1, 2), tmp_path)
    second = run(suite(1, 2, 3), tmp_path)
    assert (first.facts["reused"], second.facts["reused"]) == (0, 4)
    assert second.run_id != first.run_id
    assert run(suite(1, 2), tmp_path, resume=False).facts["reused"] == 0
    assert open_run(tmp_path / first.run_id) == first


@pytest.mark.parametrize("change", [{"budget": 6}, {"seed": 1}])
def test_other_inputs_are_other_work(tmp_path, change):
    run(suite(1), tmp_path)
    assert run(suite(1), tmp_path, **change).facts["reused"] == 0


def test_other_code_is_other_work(tmp_path, monkeypatch):
    run(suite(1), tmp_path)
    monkeypatch.setattr(pipeline, "versions", lambda: {"presil": "1", "numpy": "2", "code": "other"})
    assert run(suite(1), tmp_path).facts["reused"] == 0


def test_what_cannot_run_is_a_result_and_what_died_is_tried_again(tmp_path):
    for _ in range(2):
        done = run(suite(1, 13, 17, 19), tmp_path)
        states = {workload.split(",")[2]: item["status"] for (workload, _), item in done.items.items()}
        assert states == {"k=1": "done", "k=13": "unsupported", "k=17": "failed", "k=19": "no right kernel"}
        died = done.items["matmul:m=8,n=8,k=17,dtype=int8", "tpu-v1"]
        assert died["reason"] == "the worker ended with code 0 before it answered"
        assert [score.value for score in done.scores] == [None, None]
        assert (done.facts["planned"], done.facts["finished"], done.facts["failed"]) == (8, 6, 6)
    assert done.facts["reused"] == 6


def test_nothing_measured_is_no_success(tmp_path):
    with pytest.raises(NothingRan, match=r"nothing of the run .*small.* was measured: 13 is not built"):
        run(suite(13), tmp_path)


def test_runs_that_are_not_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NothingRan, match="there is no run here"):
        open_run()
    done = run(suite(1), tmp_path / "runs")
    with pytest.raises(NothingRan, match="the run '1999' is unknown; there are: 2"):
        open_run("1999")
    assert open_run(done.run_id[:20]) == open_run(f"runs/{done.run_id}") == open_run()
    run(suite(1), tmp_path / "runs")
    with pytest.raises(NothingRan, match="the run '2' is not unique"):
        open_run("2")


def test_a_damaged_item_is_named(tmp_path):
    run(suite(1), tmp_path)
    path = items_in(tmp_path)[0]
    path.write_text(path.read_text().replace("right", "wrong"))
    for use in (lambda: open_run(tmp_path), lambda: run(suite(1), tmp_path)):
        with pytest.raises(CorruptRecord, match=path.name):
            use()
    path.unlink()
    assert run(suite(1), tmp_path).facts["reused"] == 1


def test_kill_9_in_mid_run_loses_nothing_finished(tmp_path):
    folder = tmp_path / "runs"
    with cli_process(folder, seed=300) as process:
        until(lambda: len(items_in(folder)) >= 3)
        process.kill()
    kept = len(items_in(folder))
    assert 3 <= kept < ITEMS
    killed = open_run(folder)
    assert killed.facts["interrupted"]
    assert len(killed.items) == kept
    assert killed.scores[0].value is None
    with cli_process(folder, "--resume", "--json", seed=300) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    told = json.loads(out)
    assert (told["planned"], told["finished"], told["reused"]) == (ITEMS, ITEMS, kept)
    assert open_run(folder).run_id == told["run"]


def test_ctrl_c_keeps_what_is_finished_and_says_so(tmp_path):
    folder = tmp_path / "runs"
    with cli_process(folder, seed=300) as process:
        until(lambda: len(items_in(folder)) >= 2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    kept = len(items_in(folder))
    assert err == f"presil: interrupted: {kept} of {ITEMS} are finished and kept; the same command goes on from there\n"
    stopped = open_run(folder)
    assert stopped.facts["interrupted"]
    assert stopped.facts["finished"] == kept


def test_two_runs_at_once_in_one_folder(tmp_path):
    found: list[Run] = []
    threads = [threading.Thread(target=lambda: found.append(run(suite(1, 2, 3, seed=20), tmp_path))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({done.run_id for done in found}) == 2
    assert found[0].items == found[1].items == open_run(tmp_path).items


def test_a_disk_that_fills_up_in_mid_run(tmp_path, monkeypatch):
    whole, calls = os.fsync, iter(range(1000))

    def full(descriptor: int) -> None:
        if next(calls) >= 6:  # the run's own record and two items, two calls each
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(descriptor)

    message = r"the disk is full\. What was finished before is kept; .* start again with --resume"
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(BadInput, match=message):
            run(suite(1, 2, 3), tmp_path)
    assert len(open_run(tmp_path).items) == 2
    assert run(suite(1, 2, 3), tmp_path).facts["reused"] == 2


def test_validations_are_part_of_every_run_of_the_store(tmp_path):
    Store(tmp_path).put("validation", "SYS-GEM-1", {"row": "SYS-GEM-1", "ours": 1.0})
    assert run(suite(1), tmp_path).validations == ({"row": "SYS-GEM-1", "ours": 1.0},)
