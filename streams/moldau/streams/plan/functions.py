"""A user's function in a plan, how it is called, and how all of them are found."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.streams.expressions.typed import Typed
from moldau.streams.serdes.codec import Codec

_OWN: Final = "moldau"
_GROUPS: Final = (tuple, list, set, frozenset)


@dataclass(frozen=True, slots=True)
class Call:
    """A user's function, called as function(value), or as function(key, value) if `takes_key`; with
    `headers=` of the record if `takes_headers`.

    A function made from an expression has it in `expression`, and the type of values in `record`.
    """

    function: Callable[..., Any]
    takes_key: bool = False
    takes_headers: bool = False
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


def functions_in(value: Any) -> Iterator[Any]:
    """Yield the app's functions in a plan or a part of it, each once, however deep they are.

    A function of moldau's own that wraps others is none of the app's; those that it wraps are. A
    codec has functions of the app only if they are its `encode` and `decode` themselves.
    """
    seen: set[int] = set()
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, type) or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, Codec):
            left += (one for one in (each.encode, each.decode) if not is_own(one))
            continue
        if callable(each) and not isinstance(each, partial) and not is_own(each):
            yield each
        else:
            left += reversed(list(_parts(each)))


def is_own(function: Any) -> bool:
    """Whether a function, or the class of an object, is moldau's."""
    return (getattr(function, "__module__", None) or "").partition(".")[0] == _OWN


def _parts(value: Any) -> Iterable[Any]:
    """Return what is in a value of moldau's: in its fields, or in what a function closes over."""
    if isinstance(value, _GROUPS):
        return value
    if isinstance(value, Mapping):
        return value.values()
    if isinstance(value, partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, MethodType):
        return (value.__self__,)
    if isinstance(value, FunctionType):
        return (
            *closed_over(value),
            *(value.__defaults__ or ()),
            *(value.__kwdefaults__ or {}).values(),
        )
    if is_dataclass(value):
        return [getattr(value, row.name) for row in fields(value)]
    return vars(value).values() if callable(value) and hasattr(value, "__dict__") else ()


def closed_over(function: FunctionType) -> Iterator[Any]:
    """Yield the values of the variables that a function closes over."""
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it has none yet
            yield cell.cell_contents
