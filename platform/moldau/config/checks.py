"""What a setting's value must fulfil beyond its type: one object says it in words and decides it.

A check carries its own description, so that documentation, error messages and the decision cannot
drift apart. Checks see parsed values and never None: an absent value is the setting's default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from moldau.protocol.limits import MAX_STRING_BYTES

T = TypeVar("T")
Number = TypeVar("Number", int, float)


class Check(Generic[T]):
    """`holds(value)` decides; `allowed` is the same in words."""

    __slots__ = ("allowed", "holds")

    def __init__(self, allowed: str, holds: Callable[[T], bool]) -> None:
        self.allowed = allowed
        self.holds = holds

    def __repr__(self) -> str:
        return f"Check({self.allowed})"


def between(low: Number, high: Number) -> Check[Number]:
    """Both ends are allowed."""
    return Check(f"from {low} to {high}", lambda value: low <= value <= high)


def at_least(low: Number) -> Check[Number]:
    return Check(f"{low} or more", lambda value: value >= low)


def at_most(high: Number) -> Check[Number]:
    return Check(f"{high} or less", lambda value: value <= high)


def one_of(*values: str) -> Check[str]:
    allowed = frozenset(values)
    return Check(f"one of {', '.join(values)}", lambda value: value in allowed)


def one_of_ignoring_case(*values: str) -> Check[str]:
    allowed = frozenset(value.lower() for value in values)
    words = f"one of {', '.join(values)} (in any case)"
    return Check(words, lambda value: value.lower() in allowed)


def not_empty() -> Check[str]:
    return Check("text that is not empty", lambda value: value != "")


def sendable() -> Check[str]:
    """Text that a message has place for; not lone surrogates, though Python has them."""

    def holds(text: str) -> bool:
        if len(text) > MAX_STRING_BYTES:
            return False
        try:
            return text.isascii() or len(text.encode()) <= MAX_STRING_BYTES
        except UnicodeEncodeError:
            return False

    return Check(f"text of at most {MAX_STRING_BYTES} bytes in UTF-8", holds)


def matching(pattern: str, meaning: str) -> Check[str]:
    """The whole value matches `pattern`; `meaning` says so in words."""
    compiled = re.compile(pattern)
    return Check(meaning, lambda value: compiled.fullmatch(value) is not None)


def list_of(
    values: Collection[str] = (), *, empty_allowed: bool = True, item: Check[str] | None = None
) -> Check[tuple[str, ...]]:
    """No item is empty or there twice (KIP-1161); each is one of `values` and fulfils `item`.

    Repetition can only come from a program: what is read from text has lost it.
    """
    known = frozenset(values)
    words = ["items without repetition"]
    if values:
        words.append(f"each one of {', '.join(values)}")
    if item is not None:
        words.append(f"each {item.allowed}")
    if not empty_allowed:
        words.append("at least one")

    def holds(items: tuple[str, ...]) -> bool:
        if not items:
            return empty_allowed
        return (
            len(set(items)) == len(items)
            and "" not in items
            and (not known or known.issuperset(items))
            and (item is None or all(map(item.holds, items)))
        )

    return Check(", ".join(words), holds)


def every(*checks: Check[T]) -> Check[T]:
    """All of `checks` hold."""
    words = " and ".join(check.allowed for check in checks)
    return Check(words, lambda value: all(check.holds(value) for check in checks))


def either(*checks: Check[T]) -> Check[T]:
    """At least one of `checks` holds: `either(one_of_number, at_least(1024))`."""
    words = " or ".join(check.allowed for check in checks)
    return Check(words, lambda value: any(check.holds(value) for check in checks))


def exactly(value: T) -> Check[T]:
    """Only this value, to be combined: -1 often means "no limit"."""
    return Check(str(value), lambda given: given == value)
