"""What must hold of a consumer group after every step (see `group` and `reconciliation`)."""

from __future__ import annotations

from moldau.broker.coordinator.group.consumer.reconciliation import STATIC_LEAVING_EPOCH
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.group.consumer.target import wanted_topics
from moldau.ids import Uuid


def check_state(state: ConsumerGroupState) -> None:
    """AssertionError if one does not."""
    _one_owner(state)
    _epochs_in_order(state)
    if state.members and state.target_epoch == state.epoch:
        _target_is_whole(state)


def _one_owner(state: ConsumerGroupState) -> None:
    owners: dict[tuple[Uuid, int], str] = {}
    for member in state.members.values():
        for owned in (member.progress.assigned, member.progress.revoking):
            for topic_id, partitions in owned.items():
                assert partitions, "a topic without partitions is left out"
                for partition in partitions:
                    other = owners.setdefault((topic_id, partition), member.member_id)
                    assert other == member.member_id, f"{other} and {member.member_id} own it"
    known = {
        (topic_id, partition): member_id
        for topic_id, partitions in state.owners.items()
        for partition, member_id in partitions.items()
    }
    assert known == owners


def _epochs_in_order(state: ConsumerGroupState) -> None:
    assert state.target_epoch <= state.epoch
    for member in state.members.values():
        assert STATIC_LEAVING_EPOCH <= member.epoch <= state.target_epoch
        for partitions in member.progress.assigned.values():
            assert all(0 <= since <= state.epoch for since in partitions.values())


def _target_is_whole(state: ConsumerGroupState) -> None:
    """Every partition of every topic that a member wants, once, and to somebody who wants it.

    Topics can have changed since; the target then is of what the metadata hash says, so only what
    exists and was there is looked at when the hash is that of now."""
    names = state.topic_names()
    if state.volatile.hashes.of(names, state.services.cluster) != state.metadata_hash:
        return
    if any(regex not in state.resolved for regex in state.regexes):
        return  # a new expression counts once it is resolved; till then the old target stands
    given: dict[tuple[Uuid, int], str] = {}
    for member_id, target in state.target.items():
        assert member_id in state.members, "a target without its member"
        for topic_id, partitions in target.items():
            topic = state.services.cluster.by_id(topic_id)
            assert topic is not None
            wanted = wanted_topics(state, state.members[member_id].profile)
            assert topic.name in wanted, f"{member_id} gets {topic.name}, which it does not want"
            for partition in partitions:
                assert given.setdefault((topic_id, partition), member_id) == member_id
    facts = [each for name in names if (each := state.services.cluster.by_name(name)) is not None]
    assert given.keys() == {
        (topic.topic_id, partition) for topic in facts for partition in range(topic.partition_count)
    }
