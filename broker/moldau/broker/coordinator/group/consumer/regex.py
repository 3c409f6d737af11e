"""Subscriptions by regular expression: RE2 syntax, matched in limited slices.

A group with many expressions in a cluster with many topics still takes a while. `RegexSearch` does
that work one slice at a time between other events, never inside a heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from moldau.broker.coordinator.regular_expression import compiled
from moldau.deferred import dataclass
from moldau.errors.codes import KafkaError

SLICE_MATCHES: Final = 2_000
"""Matches in one slice: about two milliseconds."""


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The matches of an expression: the content of record 16."""

    topics: frozenset[str]
    version: int
    """The version of the metadata that was searched."""
    timestamp_ms: int
    """The wall time at which the search began."""


def check_regex(regex: str) -> None:
    """Raise INVALID_REGULAR_EXPRESSION for an expression that RE2 rejects."""
    compiled(regex)


class RegexSearch:
    """An unfinished search of all topics for some expressions."""

    def __init__(
        self,
        regexes: Iterable[str],
        topics: Iterable[str],
        version: int,
        timestamp_ms: int,
        may_see: Callable[[Collection[str]], Collection[str]] = lambda topics: topics,
    ) -> None:
        """`may_see` returns those of the topics that the searching member may describe."""
        self.regexes = frozenset(regexes)
        self._version = version
        self._timestamp_ms = timestamp_ms
        self._may_see = may_see
        self._found: dict[str, set[str]] = {regex: set() for regex in sorted(regexes)}
        self._matches = self._all_matches(list(topics))

    def advance(self) -> Mapping[str, ResolvedRegex] | None:
        """Do one slice. Return the result after the last slice, else None."""
        done = sum(1 for _ in islice(self._matches, SLICE_MATCHES))
        if done == SLICE_MATCHES:
            return None
        seen = frozenset(self._may_see(frozenset().union(*self._found.values())))
        return {
            regex: ResolvedRegex(seen & topics, self._version, self._timestamp_ms)
            for regex, topics in self._found.items()
        }

    def _all_matches(self, topics: list[str]) -> Iterator[None]:
        for regex, found in self._found.items():
            try:
                match = compiled(regex).fullmatch
            except KafkaError:
                # another version accepted the expression and wrote it to the log: it matches
                # nothing
                continue
            for topic in topics:
                if match(topic):
                    found.add(topic)
                yield
