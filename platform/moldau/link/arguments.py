"""Arguments that any part of a client takes: text and durations. No IO.

Invariant: what is of the wrong kind is refused before anything is sent or changed, by a TypeError
or ValueError that names the argument, what it has to be and what came instead.
"""

from __future__ import annotations

from typing import Final, SupportsFloat

from moldau.config import sendable

TEXT: Final = sendable()
"""The text that a message has place for."""


def text_of(given: object, what: str) -> str:
    """Text that a message has place for."""
    text = str_of(given, what)
    if not fits(text):
        raise ValueError(f"{what} is {TEXT.allowed}, not {told(given)}")
    return text


def str_of(given: object, what: str) -> str:
    """Any str, also one that no message has place for."""
    if not isinstance(given, str):
        raise TypeError(f"{what} is a str, not {told(given)}")
    return given


def fits(text: str) -> bool:
    """Whether a message has place for it: not for what is too long, nor for lone surrogates."""
    return TEXT.holds(text)


def seconds(given: object, what: str) -> float:
    """How long, in seconds."""
    if given.__class__ is int and given >= 0:  # most are, and need no search for `__float__`
        return float(given)
    if isinstance(given, bool | type) or not isinstance(given, SupportsFloat):
        raise TypeError(f"{what} is a number of seconds, not {told(given)}")
    if not (number := float(given)) >= 0:
        raise ValueError(f"{what} is not negative, as {told(given)} is")
    return number


def seconds_at_most(given: object, what: str) -> float | None:
    """The same where a wait is bounded; None leaves it to a setting, or has no end."""
    return None if given is None else seconds(given, what)


def told(given: object) -> str:
    """A value with its type, short enough for a line of an error."""
    if given is None:
        return "None"
    text = repr(given)
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return f"{type(given).__name__} {shown}"
