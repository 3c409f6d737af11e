"""Round robin: all partitions in order, dealt to the members in turn. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from moldau.client.group.assignors.assignor import Assignment, Forgetful, Subscription, Topics
from moldau.client.group.assignors.order import by_instance, wanted_topics
from moldau.link.metadata import TopicPartition


class RoundRobinAssignor(Forgetful):
    """Deals partitions like cards, passing over members that do not want the topic."""

    @property
    def name(self) -> str:
        """The name in Kafka."""
        return "roundrobin"

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        """Assign partitions. Counts differ by one at most if all want the same topics."""
        assignment: Assignment = {each: [] for each in members}
        wants = {each: frozenset(members[each].topics) for each in members}
        turns = cycle(by_instance(members))
        for topic, partitions in wanted_topics(topics, members).items():
            for partition in range(len(partitions)):
                member = next(turns)
                while topic not in wants[member]:
                    member = next(turns)
                assignment[member].append(TopicPartition(topic, partition))
        return assignment
