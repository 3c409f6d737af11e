"""Words of a command line as names and as bytes; a word may hold any bytes, and need not be text.

Python has what is no UTF-8 in a word as lone surrogates, which no message has place for.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Final

from moldau.cli.command import UsageError

_BYTES_MAX: Final = 2**15 - 1
"""Of a text in a message."""


def topic_name(text: str) -> str:
    """For `add_argument(type=...)`. What else is no name of a topic is for the cluster to say."""
    if not _is_text(text):
        raise ArgumentTypeError(
            f"{text[:99]!r} is no name of a topic: it has 1 to 249 ASCII letters, digits, . _ and -"
        )
    return text


def name_of(what: str) -> Callable[[str], str]:
    """For `add_argument(type=...)`: a name of a `what`."""

    def name(text: str) -> str:
        if not _is_text(text):
            raise ArgumentTypeError(_no_name(text, what))
        return text

    return name


def typed_name(text: str, what: str) -> str:
    """UsageError unless it is text."""
    if not _is_text(text):
        raise UsageError(_no_name(text, what))
    return text


def typed_value(text: str, name: str) -> str:
    """UsageError unless it is text. It is not shown: it may be a password."""
    if not _is_text(text):
        raise UsageError(f"the value of {name} is no text in UTF-8, or too long")
    return text


def typed_bytes(text: str) -> bytes:
    """What was typed, whatever it is."""
    return text.encode("utf-8", "surrogateescape")


def _no_name(text: str, what: str) -> str:
    return f"{text[:100]!r} is no name of a {what}: it is no text in UTF-8, or too long"


def _is_text(text: str) -> bool:
    try:
        return len(text.encode()) <= _BYTES_MAX
    except UnicodeEncodeError:
        return False
