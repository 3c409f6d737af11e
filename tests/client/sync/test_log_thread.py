"""What the loop of the blocking clients logs, and handlers that wait for the loop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from moldau.runtime.log_thread import LOGGERS, LogThread
from tests.client.sync.loop_guest import entered, ident

PATIENCE_S = 20.0


class Kept(logging.Handler):
    """Keeps what comes, and who brought it; waits before that where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.threads: set[int] = set()
        self.comes = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def emit(self, record: logging.LogRecord) -> None:
        self.comes.set()
        assert self.may_go_on.wait(PATIENCE_S)
        self.told.append(record.getMessage())
        self.threads.add(threading.get_ident())


@pytest.fixture(params=LOGGERS)
def logger(request: pytest.FixtureRequest) -> logging.Logger:
    return logging.getLogger(request.param)


@pytest.fixture
def kept() -> Iterator[Kept]:
    handler = Kept()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@contextmanager
def filtered(
    logger: logging.Logger, lets_through: Callable[[logging.LogRecord], bool]
) -> Iterator[None]:
    logger.addFilter(lets_through)
    try:
        yield
    finally:
        logger.removeFilter(lets_through)


async def log(logger: logging.Logger, *words: str) -> None:
    for word in words:
        logger.warning("the loop says %s", word)


def test_a_handler_that_waits_for_the_loop_does_not_hold_it_up(
    kept: Kept, logger: logging.Logger
) -> None:
    kept.may_go_on.clear()
    with entered() as loop:
        try:
            loop.spawn(log(logger, "this")).result(PATIENCE_S)
            assert kept.comes.wait(PATIENCE_S)
            assert loop.spawn(ident()).result(PATIENCE_S) not in kept.threads
            assert kept.told == []
        finally:
            kept.may_go_on.set()


def test_who_leaves_finds_all_that_was_logged_in_its_order(
    kept: Kept, logger: logging.Logger
) -> None:
    words = [str(number) for number in range(100)]
    with entered(), entered() as loop:
        loop.call(log(logger, *words))
        here = loop.call(ident())
    assert kept.told == [f"the loop says {word}" for word in words]
    assert here not in kept.threads


def test_filters_of_the_program_have_their_say(kept: Kept, logger: logging.Logger) -> None:
    def not_this(record: logging.LogRecord) -> bool:
        return "this" not in record.getMessage()

    with entered() as loop, filtered(logger, not_this):
        loop.call(log(logger, "this", "that"))
        loop.log.drain()
    assert kept.told == ["the loop says that"]


def test_a_filter_sees_each_record_once(kept: Kept, logger: logging.Logger) -> None:
    """Else one that lets each message through once would let none."""
    seen: list[str] = []

    def once(record: logging.LogRecord) -> bool:
        seen.append(record.getMessage())
        return seen.count(seen[-1]) == 1

    with filtered(logger, once), entered() as loop:
        loop.call(log(logger, "this"))
    assert kept.told == seen == ["the loop says this"]


def test_a_filter_that_fails_is_told_and_the_next_record_is_handled(
    kept: Kept, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(record: logging.LogRecord) -> bool:
        if "this" in record.getMessage():
            raise ValueError("so it is")
        return True

    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda told: failures.append(told.exc_value))
    with entered() as loop, filtered(logger, fails):
        loop.call(log(logger, "this", "that"))
        loop.log.drain()
    assert kept.told == ["the loop says that"]
    assert [str(each) for each in failures] == ["so it is"]


def test_what_other_threads_log_is_handled_where_it_is_logged(
    kept: Kept, logger: logging.Logger
) -> None:
    with entered():
        logger.warning("said here")
        assert (kept.told, kept.threads) == (["said here"], {threading.get_ident()})


def test_when_no_thread_may_begin_any_more_the_loop_handles_what_it_logs(
    kept: Kept, logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the end of a program (Python 3.12)."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with entered() as loop:
        with monkeypatch.context() as at_the_end:
            at_the_end.setattr(threading.Thread, "start", refuse)
            loop.call(log(logger, "this", "that"))
            assert kept.threads == {loop.call(ident())}
        loop.call(log(logger, "more"))
    assert kept.told == [f"the loop says {word}" for word in ("this", "that", "more")]


def test_once_it_is_forgotten_a_thread_of_the_same_number_logs_for_itself(
    kept: Kept, logger: logging.Logger
) -> None:
    """As after a fork, where the thread that handles records is not there."""
    log_thread = LogThread(threading.get_ident())
    try:
        logger.warning("handed over")
        log_thread.drain()
        assert threading.get_ident() not in kept.threads
        log_thread.forget()
        logger.warning("said here")
        assert kept.told == ["handed over", "said here"]
        assert threading.get_ident() in kept.threads
    finally:
        log_thread.stop()
