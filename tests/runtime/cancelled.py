"""Tasks that go on though they were cancelled."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def be_cancelled_before() -> None:
    """The present task, as a TaskGroup leaves it that has failed, in Python 3.11.2."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    assert task.cancelling()
