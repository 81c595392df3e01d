"""Where candidates are evaluated: in this process, or in several. The results are the same, in the same order."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ..undisturbed import undisturbed

if TYPE_CHECKING:
    from .candidates import Evaluator, Outcome


class Pool:
    """`jobs` processes, started when first needed. With one job, or after a worker was killed, this process works."""

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = max(1, jobs)
        self._executor: ProcessPoolExecutor | None = None
        self._evaluator: Evaluator | None = None  # what the processes were started with

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None

    def evaluate(self, evaluator: Evaluator, ranks: Sequence[int], ceiling: int | None) -> Iterator[Outcome]:
        """Outcomes in the order of `ranks`, each as soon as it is known."""
        if self.jobs > 1 and len(ranks) > 1:
            try:
                yield from self._evaluate_aside(evaluator, ranks, ceiling)
            except BrokenProcessPool:
                self.jobs, self._executor = 1, None  # a worker was killed (memory, a person): all is done here now
            else:
                return
        for rank in ranks:
            yield evaluator.evaluate(rank, ceiling)

    def _evaluate_aside(self, evaluator: Evaluator, ranks: Sequence[int], ceiling: int | None) -> list[Outcome]:
        if self._executor is None or self._evaluator is not evaluator:
            self.close()
            self._executor, self._evaluator = _start(self.jobs, evaluator), evaluator
        # One message per worker: a candidate takes milliseconds, as much as a few messages.
        shares = [tuple(ranks[i :: self.jobs]) for i in range(self.jobs)]
        with undisturbed():
            futures = [self._executor.submit(_evaluate_in_worker, share, ceiling) for share in shares if share]
        found = {outcome.rank: outcome for future in futures for outcome in future.result()}
        return [found[rank] for rank in ranks]


def _start(jobs: int, evaluator: Evaluator) -> ProcessPoolExecutor:
    # A fork server starts clean like `spawn`, and later pools take milliseconds instead of a second of imports.
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(["presil.kernels.ignition.measure"])
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=_set_up_worker, initargs=(evaluator,))


_worker: list[Evaluator] = []  # of a worker process: what it evaluates with


def _set_up_worker(evaluator: Evaluator) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    _worker.append(evaluator)


def _evaluate_in_worker(ranks: tuple[int, ...], ceiling: int | None) -> list[Outcome]:
    return [_worker[0].evaluate(rank, ceiling) for rank in ranks]
