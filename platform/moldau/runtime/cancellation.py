"""Whether somebody cancels, or somebody's code only says so.

Who asks a future that was cancelled for its result, or awaits a task that was, raises
CancelledError too. It is no `Exception`, so what guards against somebody's errors would let it
through, and who catches it would take it for the end of the task that runs.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError

__all__ = ["CancelledError", "is_cancelling"]


def is_cancelling(error: BaseException) -> bool:
    """Whether an error that came out of an `await` is the end of the task that runs: it is none
    where nobody cancels that."""
    if not isinstance(error, CancelledError):
        return False
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
