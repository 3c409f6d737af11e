"""Where a share group stands: which of its partitions have a state, which begin anew, and which are
forgotten. Only a group without members changes that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from moldau.broker.coordinator.group.consumer.partitions import Partitions
from moldau.broker.coordinator.group.share import initialization
from moldau.broker.coordinator.group.share.group import ShareGroup
from moldau.broker.coordinator.group.share.records import group_epoch
from moldau.broker.coordinator.outcome import Outcome
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.ids import Uuid


class Reset(NamedTuple):
    """States that are to begin anew."""

    state_epoch: int
    start_offsets: Mapping[tuple[Uuid, int], int]


def kept(groups: Groups, group_id: str) -> Partitions:
    """Return the partitions of a share group that may have a state; none of any other group."""
    group = groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return {}
    return initialization.union(group.state.initializing, group.state.initialized)


def check_empty(groups: Groups, group_id: str) -> ShareGroup:
    """Return a share group without members. Raise GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP."""
    group = groups.existing(group_id)
    if not isinstance(group, ShareGroup):
        text = f"Group {group_id} is not a share group."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
    if not group.is_empty:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "the share group has members")
    return group


def empty_or_new(groups: Groups, group_id: str) -> ShareGroup:
    """Return a share group without members. One that does not exist is made by its records."""
    if groups.get(group_id) is None:
        return ShareGroup(group_id, groups.services)
    return check_empty(groups, group_id)


def begin_reset(
    group: ShareGroup, start_offsets: Mapping[tuple[Uuid, int], int]
) -> tuple[Outcome, Reset]:
    """Return the outcome that begins a reset, with a new epoch: it fences the leaders that know the
    state before it."""
    state = group.state
    epoch = state.epoch + 1
    wanted: dict[Uuid, frozenset[int]] = {}
    for topic_id, partition in start_offsets:
        wanted[topic_id] = wanted.get(topic_id, frozenset()) | {partition}
    records = (
        group_epoch(group.group_id, epoch, state.metadata_hash),
        initialization.initializing(state, wanted),
    )
    return Outcome(records), Reset(epoch, start_offsets)


def forgotten(group: ShareGroup, topic_ids: frozenset[Uuid]) -> Outcome:
    """Return the outcome that forgets these topics, whose states were deleted."""
    return Outcome((initialization.forgetting(group.state, topic_ids),))
