"""A signal while Spark starts: Spark is stopped when it is there, and nothing is left behind."""

from __future__ import annotations

import signal
import threading

import pytest

from moldau.streams.commands.spark_action import started_whole
from moldau.streams.problems import StreamsError


def test_what_has_started_is_kept_before_the_signal_counts() -> None:
    came = threading.Event()

    def on_signal(number: int, frame: object) -> None:
        came.set()
        raise KeyboardInterrupt

    def interrupted() -> str:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert came.wait(30)
        threading.Event().wait(0.2)  # the other thread would go on now, if it did not wait
        return "session"

    kept: list[str] = []
    before = signal.signal(signal.SIGINT, on_signal)
    try:
        with pytest.raises(KeyboardInterrupt):
            started_whole(interrupted, kept.append)
        assert kept == ["session"]
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("error", [StreamsError("Spark does not start"), ValueError("a bug")])
def test_without_a_signal_it_is_returned_and_an_error_is_raised_as_it_is(error: Exception) -> None:
    def failing() -> str:
        raise error

    kept: list[str] = []
    assert started_whole(lambda: "session", kept.append) == "session"
    with pytest.raises(type(error)) as raised:
        started_whole(failing, kept.append)
    assert raised.value is error
    assert kept == ["session"]
