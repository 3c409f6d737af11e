"""What clients produce and fetch, counted by topic: the numbers behind Kafka's BrokerTopicMetrics.

Invariants: a counter never falls while its topic exists; what a deleted topic had counted stays in
the sum of all. A partition keeps the object of its topic, so that counting is an addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator


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

    def add(self, other: TopicTraffic) -> None:
        """Add the counts of another topic."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Traffic:
    """The traffic of one node."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}
        self._gone = TopicTraffic()

    def of(self, topic: str) -> TopicTraffic:
        """Return the counters of a topic. Keep them: this call costs more than counting."""
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = TopicTraffic()
        return known

    def unknown(self) -> TopicTraffic:
        """Return the counters for requests whose topic does not exist: they count in the sum."""
        return self._gone

    def topics(self, is_there: Callable[[str], object]) -> Iterator[tuple[str, TopicTraffic]]:
        """Yield the topics that exist; the counts of the others go to the sum alone."""
        for name in list(self._topics):
            if is_there(name):
                yield name, self._topics[name]
            else:
                self._gone.add(self._topics.pop(name))

    def total(self) -> TopicTraffic:
        """Return the sum over all topics, past ones included."""
        total = TopicTraffic()
        total.add(self._gone)
        for each in self._topics.values():
            total.add(each)
        return total
