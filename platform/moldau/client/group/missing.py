"""Subscribed topics that do not exist, or of which no metadata come, reported to the user. No IO.

A metadata request may create a topic, if the brokers' `auto.create.topics.enable` and the client's
`allow.auto.create.topics` are on: its first response then says nothing. A topic that is still
missing a moment later may never exist, or may appear at any time.

Invariant: a missing topic is logged once, until it exists or is not wanted any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import Metadata, TopicPartition

_MADE_WITHIN_S: Final = 2.0
"""Longer than a cluster takes to create a topic."""
_NO_PARTITION: Final = -1
_REASON: Final = "there is no such topic yet: it is read as soon as it exists"


def unheard_of(
    names: Iterable[str], metadata: Metadata, blind_for: KafkaError | None
) -> dict[TopicPartition, KafkaError]:
    """Return the error of each topic that no metadata response has covered yet. `blind_for` is why
    metadata do not come; None if they do."""
    heard_of = metadata.topics.keys() | metadata.refused.keys()
    return unreachable(set(names) - heard_of, blind_for)


def unreachable(
    names: Iterable[str], blind_for: KafkaError | None
) -> dict[TopicPartition, KafkaError]:
    """Return the error of each of these topics while metadata do not come."""
    if blind_for is None:
        return {}
    return {
        TopicPartition(name, _NO_PARTITION): KafkaError(
            blind_for.code, blind_for.reason, **{**blind_for.context, "topic": name}
        )
        for name in sorted(names)
    }


class MissingTopics:
    """The missing topics of one consumer."""

    def __init__(self, *, may_be_made: bool) -> None:
        """With `may_be_made`, metadata requests may create the topics."""
        self._patience_s = _MADE_WITHIN_S if may_be_made else 0.0
        self._since: dict[str, float] = {}
        self.troubles: dict[TopicPartition, KafkaError] = {}
        """The missing topics that were logged already."""

    def on_metadata(
        self, names: Iterable[str], metadata: Metadata, now: float
    ) -> list[MoldauError]:
        """Apply new metadata. Return what to log about subscribed topics that are missing."""
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        missing = sorted(name for name in names if metadata.refused.get(name) is unknown)
        self._since = {name: self._since.get(name, now) for name in missing}
        lasting = [name for name in missing if now - self._since[name] >= self._patience_s]
        before, self.troubles = self.troubles, {}
        for name in lasting:
            where = TopicPartition(name, _NO_PARTITION)
            error = KafkaError(unknown, _REASON, topic=name, setting="allow.auto.create.topics")
            self.troubles[where] = before.get(where) or error
        new = self.troubles.keys() - before.keys()
        return [MoldauError(_REASON, **self.troubles[each].context) for each in sorted(new)]
