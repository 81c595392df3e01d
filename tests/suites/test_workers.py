"""Does one task that dies, hangs or lies leave the others alone, and does nothing outlive the run?"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from presil.simulators.errors import Unsupported
from presil.suites.workers import Answer, Limits, parallel


def work(task):
    match task["do"]:
        case "square":
            time.sleep(task.get("seconds", 0))
            return {"square": task["n"] ** 2, "group": os.getpgrp(), "pid": os.getpid()}
        case "refuse":
            raise Unsupported("no bf16 here")
        case "break":
            raise ValueError("a defect")
        case "exit":
            os._exit(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "print":
            os.write(1, b"noise")
            return {}
        case "spin":
            while True:
                pass
        case "eat":
            return {"length": len(bytearray(8 << 30))}
    raise AssertionError(task)


def answers(tasks, **options):
    return sorted(parallel(work, tasks, **{"jobs": 2, **options}), key=lambda answer: answer.index)


def test_results_are_those_of_their_tasks_for_any_number_of_jobs():
    tasks = [{"do": "square", "n": n} for n in range(7)]
    for jobs in (1, 3):
        found = answers(tasks, jobs=jobs)
        assert [a.result["square"] for a in found] == [n * n for n in range(7)]
        assert all(a.result["group"] == a.result["pid"] != os.getpgrp() for a in found)


def test_no_tasks_give_no_answers():
    assert answers([]) == []


@pytest.mark.parametrize(
    ("do", "failure"),
    [
        ("refuse", "Unsupported: no bf16 here"),
        ("exit", "the worker ended with code 0 before it answered"),  # exit code 0 alone is not success
        ("kill", "the worker was killed before it answered"),
        ("eat", "MemoryError"),
    ],
)
def test_a_task_that_fails_says_why_and_takes_no_other_with_it(do, failure):
    tasks = [{"do": "square", "n": 1}, {"do": do}, {"do": "square", "n": 2}]
    found = answers(tasks, limits=Limits(memory_bytes=4 << 30))
    assert [a.result and a.result["square"] for a in found] == [1, None, 4]
    assert found[1].failure.startswith(failure)


def test_a_defect_is_named_with_its_place():
    (found,) = answers([{"do": "break"}])
    assert found.failure.startswith("ValueError: a defect (test_workers.py:")


def test_time_is_limited():
    assert answers([{"do": "spin"}], limits=Limits(cpu_seconds=1)) == [
        Answer(0, None, "the worker used up its CPU time before it answered")
    ]
    assert answers([{"do": "square", "n": 1, "seconds": 60}], limits=Limits(wall_seconds=0.3)) == [
        Answer(0, None, "took more than 0.3 s")
    ]


def test_what_a_task_prints_does_not_reach_us(capfd):
    assert answers([{"do": "print"}])[0].result == {}
    assert capfd.readouterr().out == ""


def test_workers_are_killed_when_the_caller_stops_listening():
    stream = parallel(work, [{"do": "square", "n": 1}, {"do": "square", "n": 2, "seconds": 600}], jobs=2)
    assert next(stream).index == 0
    began = time.monotonic()
    stream.close()
    assert time.monotonic() - began < 5


HANG = """
import importlib.util, sys
from presil.suites.workers import parallel
sys.path.insert(0, sys.argv[1])
import test_workers
tasks = [{"do": "square", "n": 1, "seconds": 0}, {"do": "square", "n": 2, "seconds": 600}]
for answer in parallel(test_workers.work, tasks, jobs=2):
    print(answer.result["pid"], flush=True)
"""


def test_workers_end_when_the_run_is_killed():
    """After kill -9 of the parent, no process of its session is left but the test's own."""
    words = [sys.executable, "-c", HANG, str(Path(__file__).parent)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert int(parent.stdout.readline()) > 0
        assert until(lambda: offspring_of("test_workers"))
        before = offspring_of("test_workers")
        parent.kill()
    assert until(lambda: not alive(before))


def until(holds) -> bool:
    deadline = time.monotonic() + 10
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(holds())


def offspring_of(marker: str) -> list[int]:
    """Pids of the fork server's workers: their group is their own, and the server's command line is theirs."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if b"forkserver" in words and os.getpgid(int(entry.name)) == int(entry.name) and marker.encode() in words:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]
