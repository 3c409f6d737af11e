"""Converts words of a command line to names and bytes. A word may have any bytes, not only text.

Python decodes bytes that are not UTF-8 to lone surrogates, which no message can carry.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Final

from moldau.cli.command import UsageError

_BYTES_MAX: Final = 2**15 - 1
"""The size limit of a text in a message."""


def topic_name(text: str) -> str:
    """Return a topic's name, for `add_argument(type=...)`. The cluster checks the other rules."""
    if not _is_text(text):
        raise ArgumentTypeError(
            f"{text[:99]!r} is no name of a topic: it has 1 to 249 ASCII letters, digits, . _ and -"
        )
    return text


def name_of(what: str) -> Callable[[str], str]:
    """Return a function for `add_argument(type=...)` that accepts the name of a `what`."""

    def name(text: str) -> str:
        if not _is_text(text):
            raise ArgumentTypeError(_no_name(text, what))
        return text

    return name


def typed_name(text: str, what: str) -> str:
    """Return the word. Raise UsageError if it is not text."""
    if not _is_text(text):
        raise UsageError(_no_name(text, what))
    return text


def typed_value(text: str, name: str) -> str:
    """Return the value. Raise UsageError if it is not text, without it: it may be a password."""
    if not _is_text(text):
        raise UsageError(f"the value of {name} is no text in UTF-8, or too long")
    return text


def typed_bytes(text: str) -> bytes:
    """Return the bytes of the word as they were typed."""
    return text.encode("utf-8", "surrogateescape")


def _no_name(text: str, what: str) -> str:
    return f"{text[:100]!r} is no name of a {what}: it is no text in UTF-8, or too long"


def _is_text(text: str) -> bool:
    try:
        return len(text.encode()) <= _BYTES_MAX
    except UnicodeEncodeError:
        return False
