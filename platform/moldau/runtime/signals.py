"""SIGTERM, SIGINT and SIGHUP: the first asks, the second ends the process.

`until_signal` is for an event loop on the main thread, `interrupted_by_sigterm` for a program that
waits there by itself.

Invariant: after the first signal both have the system's own meaning again, so the second one works
also when the event loop is stuck in whatever the first one began.

SIGHUP comes when a terminal is closed. A process that was started to outlive that (nohup) ignores
it already, and goes on ignoring it.

A parent that sets `_MOLDAU_LEASH=stdin` for a child and holds a pipe to its standard input ends the
child by its own end, even by kill -9: `until_signal` takes the end of the pipe as the first signal,
and ends the process a few seconds later if it still runs. The variable is taken out of the
environment, so grandchildren do not read the same pipe.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

LEASH: Final = "_MOLDAU_LEASH"
LEASH_ON_STDIN: Final = "stdin"
_STDIN: Final = 0
_ORPHAN_S: Final = 5.0
_KILLED: Final = 137
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def until_signal(work: Coroutine[Any, Any, None]) -> str | None:
    """Run `work` to its end, or until the first signal: then it is cancelled, and ends in its own
    time. The signal's name, or None when there was none. To be called on the main thread's loop.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(work, name="main")
    heard: list[str] = []
    minded = [each for each in _SIGNALS if not _is_for_others(each)]

    def hear(number: signal.Signals) -> None:
        _give_back(loop, minded)
        heard.append(number.name)
        task.cancel()

    for number in minded:
        loop.add_signal_handler(number, hear, number)
    is_leashed = os.environ.pop(LEASH, None) == LEASH_ON_STDIN
    if is_leashed:
        loop.add_reader(_STDIN, _mind_parent, loop, lambda: hear(signal.SIGTERM))
    try:
        await task
    except asyncio.CancelledError:
        if not heard:
            raise
    finally:
        if is_leashed:
            loop.remove_reader(_STDIN)
        if not heard:
            _give_back(loop, minded)
    return heard[0] if heard else None


class Terminated(KeyboardInterrupt):
    """SIGTERM, where it is to be what Ctrl-C is."""


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Within this the first SIGTERM raises `Terminated` in the main thread. Nothing changes where
    the program minds SIGTERM in its own way, or for another thread than the main one."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def hear(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    signal.signal(signal.SIGTERM, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _mind_parent(loop: asyncio.AbstractEventLoop, hear: Callable[[], None]) -> None:
    """The parent's pipe is readable: it has ended, or the parent wrote, which means nothing."""
    if os.read(_STDIN, 1024):
        return
    loop.remove_reader(_STDIN)
    loop.call_later(_ORPHAN_S, os._exit, _KILLED)
    hear()


def _is_for_others(number: signal.Signals) -> bool:
    return number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


def _give_back(loop: asyncio.AbstractEventLoop, minded: Iterable[signal.Signals]) -> None:
    for number in minded:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
