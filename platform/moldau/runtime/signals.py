"""SIGTERM, SIGINT and SIGHUP: the first signal requests the end, the second ends the process.

`until_signal` is for an event loop on the main thread, `interrupted_by_sigterm` for a program that
waits there by itself.

Invariant: after the first signal they have the system's default action again, so that the second
one works even if the event loop is stuck in what the first one began.

SIGHUP is sent when a terminal is closed. A process that was started to outlive that (nohup) already
ignores it, and continues to ignore it.

A parent that sets `_MOLDAU_LEASH=stdin` for a child and holds the other end of its standard input
ends the child when it ends itself, even by kill -9: `until_signal` treats the end of the input as
the first signal, and ends the process a few seconds later if it still runs. The variable is removed
from the environment, so that grandchildren do not read the same input. Where that is a socket, the
child may send lines to its parent by it.

SIGTTIN and SIGTTOU count up and down (`counted_signals`), as for gunicorn.
"""

from __future__ import annotations

import asyncio
import os
import signal
import termios
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

LEASH: Final = "_MOLDAU_LEASH"
LEASH_ON_STDIN: Final = "stdin"
_STDIN: Final = 0
_STDERR: Final = 2
_ORPHAN_S: Final = 5.0
_KILLED: Final = 137
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


async def forever() -> None:
    """Wait until the task is cancelled."""
    await asyncio.get_running_loop().create_future()


async def until_signal(work: Coroutine[Any, Any, None]) -> str | None:
    """Run `work` to its end, or until the first signal, which cancels it; it then ends in its own
    time. Return the signal's name, or None. Call it on the main thread's loop."""
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


def send_to_parent(line: str) -> None:
    """Send a line to the parent that has this process on a leash. Raise OSError if that fails."""
    os.write(_STDIN, f"{line}\n".encode())


@contextmanager
def counted_signals(count: Callable[[int], object]) -> Iterator[None]:
    """In the block, call `count` with 1 at each SIGTTIN and with -1 at each SIGTTOU. Call it on the
    main thread's loop. On a terminal that stops programs in the background which write to it (stty
    tostop) it changes nothing, because the system sends SIGTTOU there."""
    loop, steps = asyncio.get_running_loop(), {signal.SIGTTIN: 1, signal.SIGTTOU: -1}
    if _stops_writers():
        steps = {}
    for number, step in steps.items():
        loop.add_signal_handler(number, count, step)
    try:
        yield
    finally:
        for number in steps:
            loop.remove_signal_handler(number)


def _stops_writers() -> bool:
    try:
        return bool(termios.tcgetattr(_STDERR)[3] & termios.TOSTOP)
    except termios.error:  # it is no terminal
        return False


class Terminated(KeyboardInterrupt):
    """SIGTERM was received, and is treated like Ctrl-C."""


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """In the block, let the first SIGTERM raise `Terminated` in the main thread; the end of the
    parent of a leashed process is such a signal. Change nothing if the program handles SIGTERM
    itself, or in another thread than the main one."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def hear(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    signal.signal(signal.SIGTERM, hear)
    if os.environ.pop(LEASH, None) == LEASH_ON_STDIN:
        threading.Thread(target=_end_with_parent, args=(hear,), name="leash", daemon=True).start()
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_with_parent(hear: Callable[..., None]) -> None:
    """Wait for the end of the parent's pipe, and then send SIGTERM, unless one came already."""
    while os.read(_STDIN, 1024):
        pass
    if signal.getsignal(signal.SIGTERM) is hear:
        os.kill(os.getpid(), signal.SIGTERM)


def _mind_parent(loop: asyncio.AbstractEventLoop, hear: Callable[[], None]) -> None:
    """Read the parent's pipe: its end is a signal; data have no meaning."""
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
