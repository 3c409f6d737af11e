"""The loop that blocking clients share, and what happens to who waits for it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import Future
from contextlib import suppress

import pytest

from moldau.runtime.loop_thread import (
    Deadline,
    Errands,
    LoopStopped,
    LoopThread,
    Waiter,
    WrongThread,
    enter,
    leave,
)
from tests.client.sync.interrupts import heeds_ctrl_c as heeds_ctrl_c
from tests.client.sync.loop_guest import Guest, entered, ident, threads


def interrupt_main() -> None:
    """As Ctrl-C does: a signal, which the main thread takes wherever it is."""
    os.kill(os.getpid(), signal.SIGINT)


def test_all_tenants_share_one_thread_which_stops_with_the_last() -> None:
    first, second = Guest(), Guest()
    thread = enter(first)
    assert enter(second) is thread
    assert thread.call(ident()) == thread.call(ident()) != threading.get_ident()
    leave(first)
    leave(first)
    assert thread.call(ident())
    leave(second)

    assert "moldau-clients-loop" not in threads()
    with entered() as later:
        assert later is not thread


def test_an_exception_is_raised_to_who_waits() -> None:
    async def fail() -> None:
        raise ValueError("so it is")

    with entered() as thread, pytest.raises(ValueError, match="so it is"):
        thread.call(fail())


def test_who_waits_when_it_stops_is_told_so() -> None:
    began = threading.Event()
    told: list[BaseException] = []

    async def wait_for_ever() -> None:
        began.set()
        await asyncio.Event().wait()

    def wait(thread: LoopThread) -> None:
        try:
            thread.call(wait_for_ever())
        except LoopStopped as error:
            told.append(error)

    with entered() as thread:
        waits = threading.Thread(target=wait, args=(thread,))
        waits.start()
        began.wait()
        unfinished = thread.spawn(wait_for_ever())
    waits.join(60)

    assert len(told) == 1, f"others use the loop: {threads()}"
    with pytest.raises(LoopStopped):
        unfinished.result(60)
    with pytest.raises(LoopStopped):
        thread.call(ident())
    with pytest.raises(LoopStopped):
        thread.spawn(ident()).result(60)


def test_the_loops_own_thread_may_not_wait_for_itself() -> None:
    with entered() as thread:

        async def wait_for_itself() -> None:
            thread.call(ident())

        with pytest.raises(WrongThread, match="callback"):
            thread.call(wait_for_itself())


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_an_interrupted_call_is_cancelled_before_the_interrupt_goes_on() -> None:
    log: list[str] = []

    async def wait_for_ever() -> None:
        try:
            interrupt_main()
            await asyncio.Event().wait()
        finally:
            log.append("cancelled")

    with entered() as thread:
        with pytest.raises(KeyboardInterrupt):
            thread.call(wait_for_ever())
        assert log == ["cancelled"]
        assert thread.call(ident())


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_what_an_interrupted_call_brought_all_the_same_is_salvaged() -> None:
    saved: list[str] = []

    async def too_late_to_stop() -> str:
        interrupt_main()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "records"

    with entered() as thread:
        with pytest.raises(KeyboardInterrupt):
            thread.call(too_late_to_stop(), salvage=saved.append)
        assert saved == ["records"]


def test_an_errand_runs_in_the_thread_that_waits_and_may_wait_itself() -> None:
    errands = Errands()
    with entered() as thread:

        def errand() -> tuple[int, int]:
            return threading.get_ident(), thread.call(ident())

        def failing() -> None:
            raise ValueError("of the errand")

        here, there = thread.call(errands.run(errand), errands=errands)
        assert (here, there) == (threading.get_ident(), thread.call(ident()))
        with pytest.raises(ValueError, match="of the errand"):
            thread.call(errands.run(failing), errands=errands)


def test_an_errand_that_nobody_waits_for_is_kept_for_the_next_who_does() -> None:
    errands = Errands()
    done_by: list[int] = []
    with entered() as thread:
        given = thread.spawn(errands.run(lambda: done_by.append(threading.get_ident())))
        thread.call(ident())
        assert not done_by
        thread.call(_until(given), errands=errands)
        assert done_by == [threading.get_ident()]


async def _until(given: Future[None]) -> None:
    await asyncio.wrap_future(given)


def test_ctrl_c_in_an_errand_ends_the_call_and_not_the_loop() -> None:
    errands = Errands()
    seen: list[str] = []

    async def outer() -> None:
        try:
            await errands.run(_raise_interrupt)
        except Exception as error:
            seen.append(type(error).__name__)
            raise

    with entered() as thread:
        with pytest.raises(KeyboardInterrupt):
            thread.call(outer(), errands=errands)
        assert thread.call(ident())
    assert seen in ([], ["Interrupted"])


def _raise_interrupt() -> None:
    raise KeyboardInterrupt


def test_a_waiter_waits_until_it_is_woken() -> None:
    waiter = Waiter()
    assert not waiter.wait(0, lambda: True)
    assert not waiter.wait(None, lambda: False)
    waiter.wake()
    assert waiter.wait(None, lambda: True)


def test_a_deadline_has_nothing_left_when_it_is_over() -> None:
    assert Deadline(None).left_s() is None
    assert Deadline(0).left_s() == 0.0
    assert 0 < (Deadline(60).left_s() or 0) <= 60
