"""Checks arguments that any part of a client accepts: text and durations. No IO.

Invariant: an argument of the wrong kind is rejected before anything is sent or changed, with a
TypeError or ValueError that names the argument, what it must be, and the given value.
"""

from __future__ import annotations

from typing import Final, SupportsFloat

from moldau.config import sendable

TEXT: Final = sendable()
"""Text that fits into a message."""


def text_of(given: object, what: str) -> str:
    """Return text that fits into a message. Raise TypeError or ValueError for anything else."""
    text = str_of(given, what)
    if not fits(text):
        raise ValueError(f"{what} is {TEXT.allowed}, not {told(given)}")
    return text


def str_of(given: object, what: str) -> str:
    """Return any str, even one that fits into no message. Raise TypeError for anything else."""
    if not isinstance(given, str):
        raise TypeError(f"{what} is a str, not {told(given)}")
    return given


def fits(text: str) -> bool:
    """Whether the text fits into a message: it is not too long, and has no lone surrogates."""
    return TEXT.holds(text)


def seconds(given: object, what: str) -> float:
    """Return a duration in seconds. Raise TypeError or ValueError for anything else."""
    if given.__class__ is int and given >= 0:  # most are; saves the search for `__float__`
        return float(given)
    if isinstance(given, bool | type) or not isinstance(given, SupportsFloat):
        raise TypeError(f"{what} is a number of seconds, not {told(given)}")
    if not (number := float(given)) >= 0:
        raise ValueError(f"{what} is not negative, as {told(given)} is")
    return number


def seconds_at_most(given: object, what: str) -> float | None:
    """Return the limit of a wait in seconds; None means a setting's limit, or no limit."""
    return None if given is None else seconds(given, what)


def told(given: object) -> str:
    """Return a value with its type, short enough for a line of an error."""
    if given is None:
        return "None"
    text = repr(given)
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return f"{type(given).__name__} {shown}"
