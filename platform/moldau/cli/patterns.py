"""Patterns of names, as a shell has them: `orders-*`, `orders-?`, `orders-[0-9]`.

A word without one of the characters `*?[` is a name and not a pattern.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_CHARACTERS: Final = frozenset("*?[")


def is_pattern(word: str) -> bool:
    """Whether the word has a character that makes it a pattern."""
    return not _CHARACTERS.isdisjoint(word)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Whether the name matches one of the patterns, or there are none."""
    from fnmatch import fnmatchcase

    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
