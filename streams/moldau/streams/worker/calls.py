"""The calls of async functions that the tasks of a worker wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from moldau.streams.engine.operators.deferred import finish_all
from moldau.streams.worker.tasks import WorkerTask


async def await_calls(tasks: Sequence[WorkerTask]) -> bool:
    """Await the app's async functions, of all tasks at once. Return whether there were any.

    A task takes no more records until its calls have ended, so no offset passes them.
    """
    calls = [call for task in tasks for call in task.task.take_calls()]
    coroutines = (call.coroutine for call in calls)
    results = await asyncio.gather(*coroutines, return_exceptions=True)
    finish_all(calls, results)
    return bool(calls)
