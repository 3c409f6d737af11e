"""A member of a group: kafka-python."""

from __future__ import annotations

from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaConnectionError

from tests.conformance.programs.members.member import (
    COMMIT_INTERVAL_MS,
    Telling,
    Wish,
    end_of_input,
)

# Long, because of what 3.0.12 does where it leads: it joins a second time as soon as it knows its
# topic's partitions; if a poll gives up before that is through, no later poll takes it up, since
# the reason is gone: the assignment is never applied, and heartbeats stay off until it is fenced.
POLL_MS = 5_000
STRATEGIES = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
    def __init__(self, telling: Telling) -> None:
        self.telling = telling

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.telling.came(each.partition for each in assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.telling.went(each.partition for each in revoked)


def main() -> None:
    wish, telling, is_over = Wish.told(), Telling(), end_of_input()
    consumer = KafkaConsumer(
        bootstrap_servers=wish.bootstrap,
        client_id=wish.name,
        group_id=wish.group,
        group_instance_id=wish.instance or None,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=COMMIT_INTERVAL_MS,
        session_timeout_ms=wish.session_ms,
        heartbeat_interval_ms=wish.heartbeat_ms,
        partition_assignment_strategy=[STRATEGIES[each] for each in wish.strategy.split(",")],
    )
    consumer.subscribe([wish.topic], listener=Listener(telling))
    while not is_over.is_set():
        try:
            found = consumer.poll(POLL_MS)
        except KafkaConnectionError:
            # While it looks for the coordinator, 3.0.12 lets a refused connection out of `poll`
            # and calls it retriable: its users poll again.
            continue
        telling.read((each.partition, each.offset) for part in found.values() for each in part)
    consumer.close()


if __name__ == "__main__":
    main()
