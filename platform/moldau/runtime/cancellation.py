"""Tell a cancellation of the running task from a CancelledError that only passes through it.

Code that asks a cancelled future for its result, or awaits a cancelled task, raises CancelledError
too. It is no `Exception`, so `except Exception` around a user's code lets it through, and the
caller would take it for the end of the running task.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError

__all__ = ["CancelledError", "is_cancelling"]


def is_cancelling(error: BaseException) -> bool:
    """Whether an error raised by an `await` ends the running task: only if that task itself was
    cancelled."""
    if not isinstance(error, CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
