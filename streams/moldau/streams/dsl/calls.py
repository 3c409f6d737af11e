"""Turn the functions that users pass into plan data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from moldau.streams.dsl.inference import (
    required_parameters,
    returns_awaitable,
    takes,
    takes_by_name,
)
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Call, name_of
from moldau.streams.problems import TopologyError

NO_TYPE: Any = object()


def call_of(
    function: Callable[..., Any],
    operator: str,
    *,
    awaits: bool = False,
    gives_headers: bool = False,
) -> Call:
    """Return the call of a function of the value, or of key and value if it requires two arguments.

    Raise TopologyError for an async function, unless the operator `awaits` it, and for one that
    takes headers, unless the operator gives them.
    """
    if not callable(function):
        raise TopologyError(f"{operator}: expected a function, got {function!r:.80}")
    required = required_parameters(function)
    if required > 2:
        raise TopologyError(
            f"{operator}: {function!r:.80} requires {required} arguments; "
            "it is called with the value, or with key and value"
        )
    takes_headers = _takes_headers(function, operator, gives_headers)
    given = partial(function, headers=()) if takes_headers else function
    if not takes(given, max(required, 1)):
        raise TopologyError(
            f"{operator}: {function!r:.80} cannot be called with the value, or with key and value"
        )
    _check_annotation(operator, function)
    if not awaits:
        check_sync(operator, function)
    return Call(function, takes_key=required == 2, takes_headers=takes_headers)


def pair_call_of(
    function: Callable[..., Any],
    operator: str,
    *,
    awaits: bool = False,
    gives_headers: bool = False,
) -> Call:
    """Return the call of a function of key and value. Raise TopologyError as `call_of` does."""
    if not callable(function):
        raise TopologyError(f"{operator}: expected a function, got {function!r:.80}")
    takes_headers = _takes_headers(function, operator, gives_headers)
    if not takes(partial(function, headers=()) if takes_headers else function, 2):
        raise TopologyError(
            f"{operator}: {function!r:.80} takes no two arguments; it is called with key and value"
        )
    _check_annotation(operator, function)
    if not awaits:
        check_sync(operator, function)
    return Call(function, takes_key=True, takes_headers=takes_headers)


def _takes_headers(function: Callable[..., Any], operator: str, gives_headers: bool) -> bool:
    """Whether a function wants the headers of the record: it has an argument `headers` that can be
    given by its name only."""
    if not takes_by_name(function, "headers"):
        return False
    if not gives_headers:
        raise TopologyError(
            f"{operator}: {function!r:.80} takes headers, which {operator} does not give; map, "
            "map_values, flat_map, filter, filter_not, peek and map_headers do"
        )
    return True


def check_sync(operator: str, *functions: Callable[..., Any] | None) -> None:
    """Raise TopologyError if one of the functions is async: nothing would await it."""
    for function in functions:
        if function is not None and Call(function).is_async:
            raise TopologyError(
                f"{operator}: {name_of(function)} is an async function, which {operator} does not "
                "await; await it before, in map, map_values, flat_map, filter, filter_not, peek or "
                "select_key"
            )


def _check_annotation(operator: str, function: Callable[..., Any]) -> None:
    """Raise TopologyError for a plain function that says it returns what has to be awaited."""
    if not Call(function).is_async and returns_awaitable(function):
        raise TopologyError(
            f"{operator}: {name_of(function)} returns what has to be awaited, and is no async "
            "function: write `async def`, and `return await` in it"
        )


def stateless(what: str, call: Call, operation: op.Operation) -> op.Operation:
    """Return the operation of a step, or one that awaits the function if it is async."""
    return op.AsyncStep(call, what) if call.is_async else operation
