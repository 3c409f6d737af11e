"""What a group keeps for a partition: an offset and a text.

A move to another engine marks the texts, so that no worker goes on where the app was before.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_MOVED: Final = "moved to Spark "


class Committed(NamedTuple):
    """The offset at which a group continues, and the text that was kept with it."""

    offset: int
    metadata: str


def marked(text: str) -> str:
    """Return the text of an offset from which no worker goes on."""
    return _MOVED + unmarked(text)


def unmarked(text: str) -> str:
    """Return the text as it was before it was marked."""
    return text.removeprefix(_MOVED)


def is_marked(text: str) -> bool:
    """Whether the app has moved away since this was committed."""
    return text.startswith(_MOVED)
