"""Turns what users pass into plan data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.streams.dsl.inference import required_parameters
from moldau.streams.plan import operations as op
from moldau.streams.plan.functions import Call
from moldau.streams.problems import TopologyError

NO_TYPE: Any = object()


def call_of(function: Callable[..., Any], operator: str) -> Call:
    """A function of the value, or of key and value if it requires two arguments."""
    if not callable(function):
        raise TopologyError(f"{operator}: expected a function, got {function!r:.80}")
    required = required_parameters(function)
    if required > 2:
        raise TopologyError(
            f"{operator}: {function!r:.80} requires {required} arguments; "
            "it is called with the value, or with key and value"
        )
    return Call(function, takes_key=required == 2)


def pair_call_of(function: Callable[..., Any], operator: str) -> Call:
    """A function of key and value."""
    if not callable(function):
        raise TopologyError(f"{operator}: expected a function, got {function!r:.80}")
    return Call(function, takes_key=True)


def stateless(what: str, call: Call, operation: op.Operation) -> op.Operation:
    """The operation of a step, or one that awaits its function."""
    return op.AsyncStep(call, what) if call.is_async else operation
