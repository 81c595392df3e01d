"""Ctrl-C while a worker starts: it waits for the end of the start, and is not lost."""

from __future__ import annotations

import signal
import threading

import pytest

from presil.kernels.undisturbed import undisturbed


def test_ctrl_c_waits_for_the_end():
    done, handler = [], signal.getsignal(signal.SIGINT)

    def start() -> None:
        with undisturbed():
            signal.raise_signal(signal.SIGINT)
            done.append("started whole")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert done == ["started whole"]
    assert signal.getsignal(signal.SIGINT) is handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_nothing_changes_without_a_signal_or_in_another_thread():
    found, handler = [], signal.getsignal(signal.SIGINT)

    def start() -> None:
        with undisturbed():
            found.append(signal.getsignal(signal.SIGINT))

    with undisturbed():
        assert signal.getsignal(signal.SIGINT) is not handler
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert found == [handler]
