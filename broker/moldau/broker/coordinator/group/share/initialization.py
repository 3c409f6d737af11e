"""The states of share partitions at the share coordinator: they are set up before members read.

1. A heartbeat finds partitions of subscribed topics without a state. Their record says
   `initializing`, and an effect asks the share coordinator.
2. The answer is a decision again: `initialized`, or back to nothing, so that the next heartbeat
   asks again. No answer within `group.share.initialize.retry.interval.ms` counts as nothing.
3. The next heartbeat of a member assigns what is initialized.

A deleted topic is forgotten; the share coordinator deletes its states by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from moldau.broker.coordinator.group.consumer.partitions import NO_PARTITIONS, Partitions
from moldau.broker.coordinator.group.share import records
from moldau.broker.coordinator.outcome import NOTHING, Effect, LogRecord, Outcome
from moldau.broker.settings.share import group_share_initialize_retry_interval_ms
from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.groups import Groups
    from moldau.broker.coordinator.group.share.state import ShareGroupState
    from moldau.ids import Uuid

LEADER_CHOOSES = -1
"""The start offset of a new state: the partition's leader begins where the group's settings say."""


@dataclass(frozen=True, slots=True)
class InitializeStates(Effect):
    """Set up the states of these partitions. Report with `on_initialized` or `on_refused`."""

    group_id: str
    state_epoch: int
    partitions: Partitions
    start_offsets: Mapping[tuple[Uuid, int], int] | None = None
    """Where to begin, by topic id and partition. None: the leader of each partition chooses."""


def missing(state: ShareGroupState, names: Iterable[str], now_ms: int) -> Partitions:
    """Return the partitions of these topics that have no state, and none that is asked for."""
    found: dict[Uuid, frozenset[int]] = {}
    patience_ms = state.services.settings[group_share_initialize_retry_interval_ms]
    for name in sorted(names):
        topic = state.services.cluster.by_name(name)
        if topic is None:
            continue
        known = state.initialized.get(topic.topic_id, frozenset())
        asked_ms = state.volatile.asked_ms.get(topic.topic_id)
        if asked_ms is not None and now_ms - asked_ms < patience_ms:
            known |= state.initializing.get(topic.topic_id, frozenset())
        left = frozenset(range(topic.partition_count)) - known
        if left:
            found[topic.topic_id] = left
    return found


def begin(
    state: ShareGroupState, names: Iterable[str], epoch: int, now_ms: int
) -> tuple[LogRecord, InitializeStates] | None:
    """Return the record and the effect that set up missing states; None if none is missing."""
    wanted = missing(state, names, now_ms)
    if not wanted:
        return None
    state.volatile.asked_ms.update(dict.fromkeys(wanted, now_ms))
    record = _record(
        state, union(state.initializing, wanted), state.initialized, state.deleting - set(wanted)
    )
    return record, InitializeStates(state.group_id, epoch, wanted)


def initializing(state: ShareGroupState, wanted: Partitions) -> LogRecord:
    """Return the record that states are about to begin anew."""
    return _record(
        state, union(state.initializing, wanted), state.initialized, state.deleting - set(wanted)
    )


def forgetting(state: ShareGroupState, topic_ids: frozenset[Uuid]) -> LogRecord:
    """Return the record that topics have no states any more."""

    def left(partitions: Partitions) -> Partitions:
        return {each: held for each, held in partitions.items() if each not in topic_ids}

    return _record(
        state, left(state.initializing), left(state.initialized), state.deleting - topic_ids
    )


def on_initialized(groups: Groups, group_id: str, done: Partitions) -> Outcome:
    """Note the states that are set up."""
    state = _state_of(groups, group_id)
    if state is None or not done:
        return NOTHING
    _forget_asking(state, done)
    record = _record(
        state,
        without(state.initializing, done),
        union(state.initialized, done),
        state.deleting,
    )
    return Outcome((record,))


def on_refused(groups: Groups, group_id: str, refused: Partitions) -> Outcome:
    """Note states that could not be set up, so that the next heartbeat asks again."""
    state = _state_of(groups, group_id)
    if state is None or not refused:
        return NOTHING
    _forget_asking(state, refused)
    left = without(state.initializing, refused)
    return Outcome((_record(state, left, state.initialized, state.deleting),))


def on_topics_changed(state: ShareGroupState) -> Outcome:
    """Forget topics that do not exist any more."""
    gone = {
        topic_id
        for topic_id in (*state.initializing, *state.initialized, *state.deleting)
        if state.services.cluster.by_id(topic_id) is None
    }
    if not gone:
        return NOTHING
    record = _record(
        state,
        {each: held for each, held in state.initializing.items() if each not in gone},
        {each: held for each, held in state.initialized.items() if each not in gone},
        state.deleting - gone,
    )
    return Outcome((record,))


def _forget_asking(state: ShareGroupState, partitions: Partitions) -> None:
    for topic_id in partitions:
        state.volatile.asked_ms.pop(topic_id, None)


def _state_of(groups: Groups, group_id: str) -> ShareGroupState | None:
    from moldau.broker.coordinator.group.share.group import ShareGroup

    group = groups.get(group_id)
    return group.state if isinstance(group, ShareGroup) else None


def _record(
    state: ShareGroupState,
    initializing: Partitions,
    initialized: Partitions,
    deleting: frozenset[Uuid],
) -> LogRecord:
    names = dict(state.topic_names)
    for topic_id in (*initializing, *initialized, *deleting):
        topic = state.services.cluster.by_id(topic_id)
        if topic is not None:
            names[topic_id] = topic.name
    return records.state_partitions(state.group_id, initializing, initialized, deleting, names)


def union(one: Partitions, other: Partitions) -> Partitions:
    """Return the partitions of both."""
    found = dict(one)
    for topic_id, partitions in other.items():
        found[topic_id] = found.get(topic_id, frozenset()) | partitions
    return found


def without(one: Partitions, other: Partitions) -> Partitions:
    """Return the partitions of the first that the other does not have."""
    if not other:
        return one
    left = {
        topic_id: partitions - other.get(topic_id, frozenset())
        for topic_id, partitions in one.items()
    }
    return {topic_id: held for topic_id, held in left.items() if held} or NO_PARTITIONS
