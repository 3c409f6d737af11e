"""The calls of async functions that tasks wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moldau.streams.engine.operators.deferred import AsyncCall, finish_all

if TYPE_CHECKING:
    from moldau.streams.worker.tasks import WorkerTask


class CallCancelled(Exception):
    """An async function of the app ended with a cancellation that nothing here has asked for."""


async def finish_together(calls: Sequence[AsyncCall]) -> None:
    """Run all calls concurrently, and finish each.

    If all of them are cancelled from outside, there are no results. So a cancellation among the
    results is that of one call, as of a task that it awaited: its record fails.
    """
    coroutines = (call.coroutine for call in calls)
    results = await asyncio.gather(*coroutines, return_exceptions=True)
    finish_all(calls, [_failed_if_cancelled(each) for each in results])


def _failed_if_cancelled(result: Any) -> Any:
    if not isinstance(result, asyncio.CancelledError):
        return result
    return CallCancelled("the async function was cancelled, or a task that it awaited")


async def await_calls(tasks: Sequence[WorkerTask]) -> bool:
    """Await the app's async functions, of all tasks at once. Return whether there were any.

    A task takes no more records until its calls have ended, so no offset passes them.
    """
    calls = [call for task in tasks for call in task.task.take_calls()]
    await finish_together(calls)
    return bool(calls)
