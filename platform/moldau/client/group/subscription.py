"""A consumer's subscription: topic names, a pattern matched by the client, or one matched by the
coordinator. No IO."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from moldau.client.base.arguments import names_of
from moldau.client.group.member import MemberSubscription
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.arguments import text_of, told
from moldau.link.metadata import Metadata

Pattern = str | re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Interest:
    """The user's choice: names, a pattern of Python or of the coordinator, or manual assignment."""

    names: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    remote_pattern: str | None = None
    excludes_internal: bool = True
    is_by_hand: bool = False
    """Whether partitions were assigned manually: there is no subscription."""

    def __bool__(self) -> bool:
        return bool(self.names) or self.is_pattern or self.is_by_hand

    @property
    def is_pattern(self) -> bool:
        """Whether a pattern chooses the topics, in the client or at the coordinator."""
        return self.pattern is not None or self.remote_pattern is not None

    def includes(self, topic: str) -> bool:
        """Whether a topic of this name is subscribed to, as far as the client can tell."""
        return topic in self.names or bool(self.pattern and self.pattern.fullmatch(topic))

    def wanted(self, metadata: Metadata) -> MemberSubscription:
        """Return the member's subscription, with the topics that exist now."""
        if self.remote_pattern is not None:
            return MemberSubscription(pattern=self.remote_pattern)
        if self.pattern is None:
            return MemberSubscription(self.names)
        matching = (
            name
            for name, topic in metadata.topics.items()
            if self.pattern.fullmatch(name) and not (topic.is_internal and self.excludes_internal)
        )
        return MemberSubscription(frozenset(matching))


def interest(
    topics: Iterable[str] | str | None,
    pattern: Pattern | None,
    *,
    is_remote: bool,
    excludes_internal: bool,
) -> Interest:
    """Return the subscription for the arguments of `subscribe`; empty for an empty list. Raise
    ValueError if the arguments contradict, TypeError for a wrong type, KafkaError (as the
    coordinator does) for an invalid pattern."""
    given = () if topics is None else topics
    names = frozenset(names_of((given,) if isinstance(given, str) else given, "topic"))
    if bool(names) == (pattern is not None) and (names or topics is None):
        raise ValueError("subscribe to names of topics or to a pattern, one of both")
    if "" in names:
        raise ValueError("the name of a topic is not empty")
    if pattern is None:
        return Interest(names)
    if not isinstance(pattern, str | re.Pattern):
        raise TypeError(f"a pattern is a str or a compiled one, not {told(pattern)}")
    if isinstance(pattern, str) and is_remote:
        return Interest(remote_pattern=text_of(pattern, "a pattern"))
    try:
        compiled: re.Pattern[Any] = re.compile(pattern)
    except re.error as error:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION, f"{error.msg}", pattern=pattern, at=error.pos
        ) from None
    if not isinstance(compiled.pattern, str):
        raise TypeError(f"a pattern is of str, as names of topics are, not {compiled.pattern!r}")
    return Interest(pattern=compiled, excludes_internal=excludes_internal)
