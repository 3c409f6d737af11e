"""Logs that another version wrote, or that compaction has thinned out."""

from __future__ import annotations

from moldau.broker.coordinator.group.consumer.group import replay
from moldau.broker.coordinator.group.consumer.partitions import owned_of
from moldau.broker.coordinator.group.consumer.state import NO_TARGET_EPOCH, ConsumerGroupState
from moldau.broker.coordinator.outcome import LogRecord
from moldau.protocol.schemas.consumer_group_log import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    TopicPartitions,
)
from tests.broker.coordinator.consumer.clients import Client
from tests.broker.coordinator.consumer.shard import GROUP, Shard
from tests.broker.coordinator.consumer.world import World

T = b"t" * 16


def owner(member_id: str, epoch: int, *partitions: int) -> LogRecord:
    """Record 8 as Kafka wrote it before 4.3: without an epoch for each partition."""
    held = TopicPartitions(topic_id=T, partitions=list(partitions))
    return LogRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=epoch - 1,
            state=0,
            assigned_partitions=[held],
            partitions_pending_revocation=[],
        ),
    )


def apply(state: ConsumerGroupState, record: LogRecord) -> None:
    replay(state, record.key, record.value)


def test_partitions_without_an_epoch_have_that_of_their_member() -> None:
    state = ConsumerGroupState(GROUP, World())
    apply(state, owner("a", 7, 0, 1))
    assert state.members["a"].progress.assigned == {T: {0: 7, 1: 7}}
    apply(state, owner("a", -2, 0))
    assert state.members["a"].progress.assigned == {T: {0: 0}}
    odd = TopicPartitions(topic_id=T, partitions=[0, 1], assignment_epochs=[3])
    assert owned_of([odd], 5) == {T: {0: 5, 1: 5}}


def test_where_two_own_a_partition_the_later_record_counts() -> None:
    """1. a owns it. 2. a gives it up (compacted away). 3. b owns it. 4. a's next record."""
    state = ConsumerGroupState(GROUP, World())
    apply(state, owner("a", 3, 0))
    apply(state, owner("b", 4, 0))
    assert state.owners == {T: {0: "b"}}
    apply(state, owner("a", 5, 1))
    assert state.owners == {T: {0: "b", 1: "a"}}


def test_tombstones_of_what_nobody_knows_do_no_harm() -> None:
    state = ConsumerGroupState(GROUP, World())
    for key in (
        ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="a"),
        ConsumerGroupTargetAssignmentMemberKey(group_id=GROUP, member_id="a"),
        ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id="a"),
        ConsumerGroupPartitionMetadataKey(group_id=GROUP),
        ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression="x"),
        ConsumerGroupTargetAssignmentMetadataKey(group_id=GROUP),
    ):
        replay(state, key, None)
    assert not state.members
    assert state.target_epoch == NO_TARGET_EPOCH


def test_the_topics_of_kafka_before_4_1_are_deleted_with_the_next_change() -> None:
    shard = Shard({"t": 2})
    one = Client(shard, "a", ["t"])
    one.beat()
    old = ConsumerGroupPartitionMetadataValue(topics=[])
    shard.log.append(LogRecord(ConsumerGroupPartitionMetadataKey(group_id=GROUP), old, 0))
    shard.fail_over()
    assert shard.state.has_partition_metadata
    Client(shard, "b", ["t"]).beat()
    assert shard.log[-1].key != ConsumerGroupPartitionMetadataKey(group_id=GROUP)
    assert LogRecord(ConsumerGroupPartitionMetadataKey(group_id=GROUP)) in shard.log
    assert not shard.state.has_partition_metadata


def test_a_group_from_the_log_gives_its_members_a_whole_session() -> None:
    shard = Shard({"t": 2})
    one = Client(shard, "a", ["t"])
    one.beat()
    shard.wait(5_000)
    shard.fail_over()
    shard.wait(5_900)
    assert "a" in shard.state.members
    shard.wait(200)
    assert not shard.state.members


def test_the_records_of_a_join_stand_in_kafkas_order() -> None:
    shard = Shard({"t": 2})
    Client(shard, "a", ["t"]).beat()
    kinds = [type(record.key).__name__.removesuffix("Key") for record in shard.log]
    assert kinds == [
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
    ]


def test_a_deleted_group_leaves_tombstones_of_all_it_wrote() -> None:
    shard = Shard({"t": 2})
    one = Client(shard, "a", [], "t.*")
    one.beat()
    one.beat()
    group = shard.group
    assert group is not None
    tombstones = group.tombstones()
    assert all(record.value is None for record in tombstones)
    written = {repr(record.key) for record in shard.log}
    assert written <= {repr(record.key) for record in tombstones}
    assert type(tombstones[-1].key).__name__ == "ConsumerGroupMetadataKey"
