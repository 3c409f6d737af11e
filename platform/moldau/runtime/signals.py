"""SIGTERM and SIGINT: the first asks, the second ends the process.

Invariant: after the first signal both have the system's own meaning again, so the second one works
also when the event loop is stuck in whatever the first one began.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, Final

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


async def until_signal(work: Coroutine[Any, Any, None]) -> str | None:
    """Run `work` to its end, or until the first signal: then it is cancelled, and ends in its own
    time. The signal's name, or None when there was none. To be called on the main thread's loop.
    """
    loop = asyncio.get_running_loop()
    task = loop.create_task(work, name="main")
    heard: list[str] = []

    def hear(number: signal.Signals) -> None:
        _give_back(loop)
        heard.append(number.name)
        task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, hear, number)
    try:
        await task
    except asyncio.CancelledError:
        if not heard:
            raise
    finally:
        if not heard:
            _give_back(loop)
    return heard[0] if heard else None


def _give_back(loop: asyncio.AbstractEventLoop) -> None:
    for number in _SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
