"""Conditions on a setting's value beyond its type: each has a test and a description in words.

A check contains its own description, so that documentation, error messages and the test always
agree. Checks get parsed values and never None: an absent value is the setting's default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from moldau.protocol.limits import MAX_STRING_BYTES

T = TypeVar("T")
Number = TypeVar("Number", int, float)


class Check(Generic[T]):
    """A condition on a value: `holds(value)` tests it; `allowed` describes it in words. `choices`
    has all allowed values, if the condition is that the value is one of them."""

    __slots__ = ("allowed", "choices", "holds")

    def __init__(
        self, allowed: str, holds: Callable[[T], bool], choices: tuple[T, ...] = ()
    ) -> None:
        self.allowed = allowed
        self.holds = holds
        self.choices = choices

    def __repr__(self) -> str:
        return f"Check({self.allowed})"


def _is_http_url(text: str) -> bool:
    scheme, separator, rest = text.partition("://")
    return scheme in ("http", "https") and bool(separator) and bool(rest.strip("/"))


HTTP_URL = Check("an http:// or https:// address", _is_http_url)


def between(low: Number, high: Number) -> Check[Number]:
    """Allow numbers from `low` to `high`, both inclusive."""
    return Check(f"from {low} to {high}", lambda value: low <= value <= high)


def at_least(low: Number) -> Check[Number]:
    return Check(f"{low} or more", lambda value: value >= low)


def at_most(high: Number) -> Check[Number]:
    return Check(f"{high} or less", lambda value: value <= high)


def one_of(*values: str) -> Check[str]:
    allowed = frozenset(values)
    return Check(f"one of {', '.join(values)}", lambda value: value in allowed, values)


def one_of_ignoring_case(*values: str) -> Check[str]:
    allowed = frozenset(value.lower() for value in values)
    words = f"one of {', '.join(values)} (in any case)"
    return Check(words, lambda value: value.lower() in allowed, values)


def not_empty() -> Check[str]:
    return Check("text that is not empty", lambda value: value != "")


def sendable() -> Check[str]:
    """Allow text that fits into a message: not too long, and without lone surrogates."""

    def holds(text: str) -> bool:
        if len(text) > MAX_STRING_BYTES:
            return False
        try:
            return text.isascii() or len(text.encode()) <= MAX_STRING_BYTES
        except UnicodeEncodeError:
            return False

    return Check(f"text of at most {MAX_STRING_BYTES} bytes in UTF-8", holds)


def matching(pattern: str, meaning: str) -> Check[str]:
    """Allow text that matches `pattern` as a whole; `meaning` says so in words."""
    compiled = re.compile(pattern)
    return Check(meaning, lambda value: compiled.fullmatch(value) is not None)


def list_of(
    values: Collection[str] = (), *, empty_allowed: bool = True, item: Check[str] | None = None
) -> Check[tuple[str, ...]]:
    """Allow lists without empty or repeated items (KIP-1161); each is one of `values` and fulfils
    `item`.

    Repeated items can only come from a program: parsing from text removes them.
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
    """Allow values that fulfil all of `checks`."""
    words = " and ".join(check.allowed for check in checks)
    return Check(words, lambda value: all(check.holds(value) for check in checks))


def either(*checks: Check[T]) -> Check[T]:
    """Allow values that fulfil one or more of `checks`: `either(one_of_number, at_least(1024))`."""
    words = " or ".join(check.allowed for check in checks)
    return Check(words, lambda value: any(check.holds(value) for check in checks))


def exactly(value: T) -> Check[T]:
    """Allow only this value; to be combined with others, as -1 often means "no limit"."""
    return Check(str(value), lambda given: given == value)
