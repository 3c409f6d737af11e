"""What clients produce and fetch, counted by topic: the numbers behind Kafka's BrokerTopicMetrics.

Invariants: a counter never falls while its topic exists; what a deleted topic had counted stays in
the sum of all. A partition keeps the object of its topic, so that counting is an addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from moldau.broker.tiered.remote_traffic import RemoteTraffic

REQUEST_BYTES: Final = 16_384
"""What a batch or a read costs besides its bytes, as the bytes that cost as much."""


class TopicTraffic:
    """The counters of one topic. The hot path adds to them in place."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "remote",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.messages_in = 0
        self.bytes_out = 0
        self.replication_bytes_out = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0
        self.remote: Final = RemoteTraffic()

    def add(self, other: TopicTraffic) -> None:
        """Add the counts of another topic."""
        for name in self.__slots__:
            if name != "remote":
                setattr(self, name, getattr(self, name) + getattr(other, name))
        self.remote.add(other.remote)


class Traffic:
    """The traffic of one node."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}
        self._unknown = TopicTraffic()
        self._gone = TopicTraffic()
        """The counts of deleted topics. It is replaced, never changed: see `parts`."""

    def of(self, topic: str) -> TopicTraffic:
        """Return the counters of a topic. Keep them: this call costs more than counting."""
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = TopicTraffic()
        return known

    def unknown(self) -> TopicTraffic:
        """Return the counters for requests whose topic does not exist: they count in the sum."""
        return self._unknown

    def topics(self, is_there: Callable[[str], object]) -> Iterator[tuple[str, TopicTraffic]]:
        """Yield the topics that exist; the counts of the others go to the sum alone. Other readers
        may run between two topics."""
        for name in list(self._topics):
            if is_there(name):
                yield name, self.of(name)
            elif (removed := self._topics.pop(name, None)) is not None:
                gone = TopicTraffic()
                gone.add(self._gone)
                gone.add(removed)
                self._gone = gone

    def parts(self) -> list[TopicTraffic]:
        """Return what makes up the sum over all topics, past ones included. It may be added up
        bit by bit: no count is in two parts, also if topics are deleted meanwhile."""
        return [*self._topics.values(), self._unknown, self._gone]
