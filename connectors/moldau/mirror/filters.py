"""Which topics, groups and topic settings are mirrored: lists of Java's regular expressions. No IO.

A name is chosen if an expression of the first list matches it as a whole, and none of the second.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from moldau.connect.java.regex import PatternError, compiled


class NameFilter:
    """Chooses names."""

    def __init__(self, include: Iterable[str], exclude: Iterable[str]) -> None:
        """Raise PatternError for an expression that is none."""
        include = [each for each in include if each]
        self._include = _compiled(include)
        self._texts = dict(zip(include, self._include, strict=True))
        self._exclude = _compiled(exclude)

    def takes(self, name: str) -> bool:
        """Whether the name is chosen."""
        return _matches(self._include, name) and not _matches(self._exclude, name)

    def unmatched(self, names: Collection[str]) -> list[str]:
        """Return the expressions of the first list that match none of these names."""
        return [
            text
            for text, pattern in self._texts.items()
            if not any(pattern.fullmatch(name) for name in names)
        ]


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
