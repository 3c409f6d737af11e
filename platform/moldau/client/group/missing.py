"""Topics that are subscribed to and that there are not, or of which nothing is heard: whose user
has to hear of it. No IO.

To ask for a topic may make it, where the brokers' `auto.create.topics.enable` and the client's
`allow.auto.create.topics` are on: the first answer says nothing then. What is still missing a
moment later may never exist, or may at any time.

Invariant: a topic that is missing is told of once, until it is there or is not wanted any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import Metadata, TopicPartition

_MADE_WITHIN_S: Final = 2.0
"""Longer than a cluster takes to make a topic."""
_NO_PARTITION: Final = -1
_REASON: Final = "there is no such topic yet: it is read as soon as it exists"


def unheard_of(
    names: Iterable[str], metadata: Metadata, blind_for: KafkaError | None
) -> dict[TopicPartition, KafkaError]:
    """Those of which no answer has said yet whether they are there, and why; `blind_for` is what
    keeps metadata from coming, if anything does."""
    if blind_for is None:
        return {}
    heard_of = metadata.topics.keys() | metadata.refused.keys()
    return {
        TopicPartition(name, _NO_PARTITION): KafkaError(
            blind_for.code, blind_for.reason, **{**blind_for.context, "topic": name}
        )
        for name in sorted(set(names) - heard_of)
    }


class MissingTopics:
    """Those of one consumer."""

    def __init__(self, *, may_be_made: bool) -> None:
        """`may_be_made` by asking for them."""
        self._patience_s = _MADE_WITHIN_S if may_be_made else 0.0
        self._since: dict[str, float] = {}
        self.troubles: dict[TopicPartition, KafkaError] = {}
        """Of which their user has heard."""

    def on_metadata(
        self, names: Iterable[str], metadata: Metadata, now: float
    ) -> list[MoldauError]:
        """What to tell the user of the topics that are subscribed to."""
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
