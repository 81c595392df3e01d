"""Runs tasks in parallel, one process per task, so that one that dies takes nothing with it.

Each task runs in a process group of its own under limits, forked from a server that has loaded its module once. It
counts as done only when it returned an answer with the nonce it was given. A worker whose parent is gone ends itself.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import secrets
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import Any

from presil.kernels.undisturbed import undisturbed
from presil.simulators.errors import PresilError

Task = Any
Result = dict[str, Any]
Work = Callable[[Any], Result]
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
CAUSES = {signal.SIGXCPU: "used up its CPU time", signal.SIGXFSZ: "wrote too much", signal.SIGKILL: "was killed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one task may use."""

    memory_bytes: int = 16 << 30
    cpu_seconds: int = 900
    wall_seconds: float = 1800.0
    file_bytes: int = 256 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of task number `index`: its result, or why there is none."""

    index: int
    result: Result | None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class _Running:
    index: int
    nonce: str
    process: BaseProcess
    deadline: float


def parallel(work: Work, tasks: Sequence[Task], *, jobs: int, limits: Limits | None = None) -> Iterator[Answer]:
    """The answers of `work(task)` for all tasks, as they come; at most `jobs` at once.

    `work` is a function at the top of a module, a task any plain data, a result a JSON object. When the caller stops
    listening (an exception, Ctrl-C), all that still runs is killed.
    """
    limits = limits or Limits()
    for name in ONE_THREAD:  # with two, float sums come out with other bits; and `jobs` says how many cores to use
        os.environ.setdefault(name, "1")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__])
    todo = iter(enumerate(tasks))
    running: dict[connection.Connection, _Running] = {}
    try:
        while True:
            while len(running) < jobs and (following := next(todo, None)) is not None:
                ours, theirs = context.Pipe(duplex=False)
                nonce = secrets.token_hex(8)
                process = context.Process(target=_work, args=(work, following[1], nonce, theirs, limits))
                with undisturbed():
                    process.start()
                    running[ours] = _Running(following[0], nonce, process, time.monotonic() + limits.wall_seconds)
                theirs.close()
            if not running:
                return
            patience = max(0.0, min(r.deadline for r in running.values()) - time.monotonic())
            for ready in connection.wait(list(running), patience):
                assert isinstance(ready, connection.Connection)
                yield _collect(ready, running.pop(ready))
            for late in [c for c, r in running.items() if r.deadline <= time.monotonic()]:
                slow = running.pop(late)
                _kill(slow.process)
                late.close()
                yield Answer(slow.index, None, f"took more than {limits.wall_seconds:g} s")
    finally:
        for left in running.values():
            _kill(left.process)


def _collect(ours: connection.Connection, done: _Running) -> Answer:
    """The answer of a worker that has answered or died."""
    try:
        answer = json.loads(ours.recv_bytes())
    except EOFError:
        answer = {}
    finally:
        ours.close()
    done.process.join(10.0)
    if answer.get("nonce") == done.nonce:
        return Answer(done.index, answer.get("result"), answer.get("failure"))
    code = done.process.exitcode or 0
    cause = CAUSES.get(signal.Signals(-code), f"died of signal {-code}") if code < 0 else f"ended with code {code}"
    return Answer(done.index, None, f"the worker {cause} before it answered")


def _kill(process: BaseProcess) -> None:
    """Ends a worker and all it started."""
    assert process.pid is not None
    if process.is_alive():
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:  # it has not made its group yet, or has just ended
            process.kill()
    process.join(10.0)


def _work(work: Work, task: Task, nonce: str, theirs: connection.Connection, limits: Limits) -> None:
    """The life of a worker."""
    os.setsid()
    _end_with_parent()
    _limit(limits)
    quiet = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(quiet, descriptor)
    answer: Result = {"nonce": nonce}
    try:
        answer["result"] = work(task)
    except PresilError as error:
        answer["failure"] = f"{type(error).__name__}: {error}"
    except BaseException as error:  # noqa: BLE001 - whatever it is, the run goes on and says it
        last = traceback.extract_tb(error.__traceback__)[-1]
        answer["failure"] = f"{type(error).__name__}: {error} ({os.path.basename(last.filename)}:{last.lineno})"  # noqa: PTH119
    theirs.send_bytes(json.dumps(answer).encode())


def _end_with_parent() -> None:
    """Ends this process group when the process that started the run is gone, even by kill -9."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _limit(limits: Limits) -> None:
    """Sets the limits of this process and of all it starts."""
    for what, most in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, ceiling = resource.getrlimit(what)
        allowed = most if ceiling == resource.RLIM_INFINITY else min(most, ceiling)
        resource.setrlimit(what, (allowed, ceiling))  # a soft limit: its signal says which one was met
