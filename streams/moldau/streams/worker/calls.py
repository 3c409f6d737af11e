"""The calls of async functions that tasks wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.streams.engine.operators.deferred import AsyncCall, finish_all

if TYPE_CHECKING:
    from moldau.streams.worker.tasks import WorkerTask


async def finish_together(calls: Sequence[AsyncCall]) -> None:
    """Run all calls concurrently, and finish each."""
    coroutines = (call.coroutine for call in calls)
    finish_all(calls, await asyncio.gather(*coroutines, return_exceptions=True))


async def await_calls(tasks: Sequence[WorkerTask]) -> bool:
    """Await the app's async functions, of all tasks at once. Return whether there were any.

    A task takes no more records until its calls have ended, so no offset passes them.
    """
    calls = [call for task in tasks for call in task.task.take_calls()]
    await finish_together(calls)
    return bool(calls)
