"""Results of plain functions that would have to be awaited: nothing does that, so they are errors.

`filter(lambda value: is_good(value))` with an async `is_good` would keep every record, because a
coroutine counts as true.
"""

from __future__ import annotations

from inspect import isawaitable, iscoroutine
from typing import Any


def true_unless_awaitable(result: Any) -> bool:
    """Return True for the result of a function that counts as true. Raise TypeError for a coroutine
    and anything else that has to be awaited."""
    if isawaitable(result):
        if iscoroutine(result):
            result.close()  # Python would warn that it was never awaited
        kind = type(result).__name__
        raise TypeError(
            f"it returned a {kind}, which is not awaited: give the async function itself"
        )
    return True
