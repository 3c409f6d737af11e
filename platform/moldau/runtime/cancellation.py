"""Distinguishes a cancellation of the running task from a CancelledError that passes through it.

Code that requests the result of a cancelled future, or awaits a cancelled task, raises
CancelledError, too. It is not an `Exception`, so `except Exception` around a user's code does not
catch it, and the caller would take it for a cancellation of the running task.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError

__all__ = ["CancelledError", "is_cancelling"]


def is_cancelling(error: BaseException) -> bool:
    """Whether an error of an `await` ends the running task: only if that task was cancelled."""
    if not isinstance(error, CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
