"""A user's function in a plan, and how it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from moldau.streams.expressions.typed import Typed


@dataclass(frozen=True, slots=True)
class Call:
    """A user's function, called as function(value), or as function(key, value) if `takes_key`.

    A function made from an expression has it in `expression`, and the type of values in `record`.
    """

    function: Callable[..., Any]
    takes_key: bool = False
    expression: Typed | None = None
    record: Any = None

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004
        )

    def __str__(self) -> str:
        return name_of(self.function) if self.expression is None else f"{self.expression!s:.60}"


def name_of(function: Any) -> str:
    """Return the name of a function for plans and messages; a lambda is named by its line."""
    name = getattr(function, "__qualname__", None) or type(function).__name__
    name = name.rpartition("<locals>.")[2]
    code = getattr(function, "__code__", None)
    if name == "<lambda>" and code is not None:
        return f"lambda:{code.co_firstlineno}"
    return name


@dataclass(frozen=True, slots=True)
class Folding:
    """How records become an aggregate: Python expressions, which the engine puts into its loop.

    They may use `old` (the aggregate so far), `key`, `value` and the names in `functions`. `first`
    is the aggregate of the first record; without it that is `add` on `initial`. `remove` takes a
    record out again (for tables), `merge` joins `old` and `other` (for sessions). `result` turns a
    stored aggregate into the value that later steps see. `skips_null` leaves out null values.
    """

    name: str
    add: str
    functions: tuple[tuple[str, Callable[..., Any]], ...] = ()
    initial: str | None = None
    first: str | None = None
    remove: str | None = None
    merge: str | None = None
    result: str | None = None
    skips_null: bool = False
