"""Holds Ctrl-C back while a worker process starts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def undisturbed() -> Iterator[None]:
    """What starts inside is started whole: a Ctrl-C that comes meanwhile is handled at the end.

    A worker whose start is broken off finds half a message and prints a traceback; and one that has not yet been told
    to leave Ctrl-C to its parent would print another, so it is born with the signal blocked.
    Signals reach the main thread alone: in any other, nothing is held back.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)
