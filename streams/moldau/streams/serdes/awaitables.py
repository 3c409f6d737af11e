"""Results of plain functions that would have to be awaited: nothing does that, so they are errors.

`filter(lambda value: is_good(value))` with an async `is_good` would keep every record, because a
coroutine counts as true; `map_values` would pass coroutines on. Where each result is not looked at,
the first one of a function is, and what cannot be encoded.
"""

from __future__ import annotations

from collections.abc import Callable
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
            f"a function returned a {kind}, which is not awaited: give the async function itself, "
            "not one that calls it"
        )
    return True


def checked_at_first(
    function: Callable[..., Any], defaults: dict[str, Any], name: str
) -> Callable[..., Any]:
    """Return the function with `true_unless_awaitable` on its results until one is good.

    `defaults` are the keyword defaults of a caller that has the returned function as `name`. After
    the good result they have the function itself, so that the next call of the caller pays nothing.
    None decides nothing: a function may return it for some records and a coroutine for others.
    """
    is_good = False

    def checked(*arguments: Any, **named: Any) -> Any:
        nonlocal is_good
        result = function(*arguments, **named)
        if result is not None and not is_good:
            is_good = true_unless_awaitable(result)
            defaults[name] = function
        return result

    return checked
