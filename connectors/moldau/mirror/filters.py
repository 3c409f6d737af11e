"""Which topics, groups and topic settings are mirrored: lists of Java's regular expressions. No IO.

A name is chosen if an expression of the first list matches it as a whole, and none of the second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from moldau.connect.java.regex import PatternError, compiled


class NameFilter:
    """Chooses names."""

    def __init__(self, include: Iterable[str], exclude: Iterable[str]) -> None:
        """Raise PatternError for an expression that is none."""
        self._include = _compiled(include)
        self._exclude = _compiled(exclude)

    def takes(self, name: str) -> bool:
        """Whether the name is chosen."""
        return _matches(self._include, name) and not _matches(self._exclude, name)


def _compiled(patterns: Iterable[str]) -> list[re.Pattern[str]]:
    return [compiled(each) for each in patterns if each]


def _matches(patterns: Sequence[re.Pattern[str]], name: str) -> bool:
    return any(each.fullmatch(name) for each in patterns)


def pattern_faults(patterns: Iterable[str]) -> Iterable[str]:
    """Yield the reason for each expression that is none."""
    for each in patterns:
        try:
            compiled(each)
        except PatternError as error:
            yield str(error)
