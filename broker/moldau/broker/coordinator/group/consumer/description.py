"""The description of a consumer group for ConsumerGroupDescribe."""

from __future__ import annotations

from typing import Final

from moldau.broker.coordinator.group.consumer.member import Member
from moldau.broker.coordinator.group.consumer.partitions import (
    NO_PARTITIONS,
    Partitions,
    union,
    without_epochs,
)
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.group.consumer.target import preferred_assignor
from moldau.broker.coordinator.group.contract import Cluster
from moldau.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    TopicPartitions,
)
from moldau.protocol.messages.consumer_group_describe import Member as DescribedMember

_CLASSIC: Final = 0
_CONSUMER: Final = 1


def described(state: ConsumerGroupState) -> DescribedGroup:
    """Return the description of the group and all its members."""
    return DescribedGroup(
        error_code=0,
        group_id=state.group_id,
        group_state=state.name.value,
        group_epoch=state.epoch,
        assignment_epoch=state.target_epoch,
        assignor_name=preferred_assignor(state),
        members=[_described(state, member) for _, member in sorted(state.members.items())],
    )


def _described(state: ConsumerGroupState, member: Member) -> DescribedMember:
    profile, progress, cluster = member.profile, member.progress, state.services.cluster
    # The member may still read the partitions that it has not revoked yet.
    held = without_epochs(union(progress.assigned, progress.revoking))
    return DescribedMember(
        member_id=member.member_id,
        instance_id=profile.instance_id,
        rack_id=profile.rack_id,
        member_epoch=member.epoch,
        client_id=profile.client_id,
        client_host=profile.client_host,
        subscribed_topic_names=sorted(profile.topic_names),
        subscribed_topic_regex=profile.topic_regex,
        assignment=_assignment(held, cluster),
        target_assignment=_assignment(state.target.get(member.member_id, NO_PARTITIONS), cluster),
        member_type=_CLASSIC if member.speaks_classic else _CONSUMER,
    )


def _assignment(partitions: Partitions, cluster: Cluster) -> Assignment:
    """Return the partitions with topic names. Deleted topics are left out, because they have no
    name."""
    topics = []
    for topic_id in sorted(partitions):
        topic = cluster.by_id(topic_id)
        if topic is not None:
            topics.append(
                TopicPartitions(
                    topic_id=topic_id,
                    topic_name=topic.name,
                    partitions=sorted(partitions[topic_id]),
                )
            )
    return Assignment(topic_partitions=topics)
