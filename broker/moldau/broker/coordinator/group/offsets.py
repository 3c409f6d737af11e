"""Committed offsets of all groups of a shard: the state from the log, without rules about groups.

Invariants: only `replay...` changes anything, and no empty dictionary is kept. The offsets of an
open transaction are pending: they are kept beside the committed ones, and its end marker commits or
drops them. A pending offset never replaces an offset that was written after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from moldau.broker.coordinator.outcome import LogRecord
from moldau.broker.coordinator.shard import NO_PRODUCER
from moldau.ids import ZERO_UUID, Uuid
from moldau.protocol.schemas.group_log import (
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

NO_EXPIRY: Final = -1
NO_EPOCH: Final = -1

TopicPartition: TypeAlias = tuple[str, int]
"""Topic and partition."""


class PartitionCommit(NamedTuple):
    """The committed offset of one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int
    """NO_EXPIRY unless the commit itself had a retention time (versions 2 to 4 of OffsetCommit)."""
    topic_id: Uuid
    written_at: int
    """The offset of its record in the log."""


_Topics: TypeAlias = dict[str, dict[int, PartitionCommit]]


class Offsets:
    """Committed and pending offsets, by group, topic and partition."""

    __slots__ = ("_groups", "_pending")

    def __init__(self) -> None:
        self._groups: dict[str, _Topics] = {}
        self._pending: dict[int, dict[str, _Topics]] = {}
        """Pending offsets by producer id, then as in `_groups`."""

    # Questions.

    def get(self, group_id: str, topic: str, partition: int) -> PartitionCommit | None:
        """Return the committed offset, or None."""
        topics = self._groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, PartitionCommit]]:
        """Return all committed offsets of the group, by topic and partition."""
        return self._groups.get(group_id, {})

    def groups(self) -> Iterable[str]:
        """Return the groups with committed offsets."""
        return self._groups.keys()

    def count(self) -> int:
        """Return the number of committed offsets."""
        return sum(
            len(partitions) for topics in self._groups.values() for partitions in topics.values()
        )

    def has_any(self, group_id: str) -> bool:
        """Whether the group has committed or pending offsets."""
        return group_id in self._groups or self.is_in_transaction(group_id)

    def is_in_transaction(self, group_id: str) -> bool:
        """Whether an open transaction has offsets of the group."""
        return any(group_id in groups for groups in self._pending.values())

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may change this offset."""
        return any(
            partition in groups.get(group_id, {}).get(topic, {})
            for groups in self._pending.values()
        )

    # Replay.

    def replay(
        self, at: int, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue | None
    ) -> None:
        """Apply the record at offset `at` of the log."""
        if value is None:
            self._remove(key)
            return
        committed = PartitionCommit(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            at,
        )
        groups = self._groups
        if producer_id != NO_PRODUCER:
            groups = self._pending.setdefault(producer_id, {})
        topics = groups.get(key.group)
        if topics is None:
            topics = groups[key.group] = {}
        partitions = topics.get(key.topic)
        if partitions is None:
            partitions = topics[key.topic] = {}
        partitions[key.partition] = committed

    def replay_end(self, producer_id: int, *, is_commit: bool) -> Iterable[str]:
        """Apply the end of a transaction. Return the groups whose offsets it held."""
        pending = self._pending.pop(producer_id, {})
        if is_commit:
            for group_id, topics in pending.items():
                for topic, partitions in topics.items():
                    for partition, committed in partitions.items():
                        self._commit(group_id, topic, partition, committed)
        return pending.keys()

    def _commit(
        self, group_id: str, topic: str, partition: int, committed: PartitionCommit
    ) -> None:
        partitions = self._groups.setdefault(group_id, {}).setdefault(topic, {})
        known = partitions.get(partition)
        if known is None or known.written_at < committed.written_at:
            partitions[partition] = committed

    def _remove(self, key: OffsetCommitKey) -> None:
        """Remove an offset. Kafka writes tombstones outside of transactions; they remove pending
        offsets too."""
        for groups in (self._groups, *self._pending.values()):
            topics = groups.get(key.group)
            partitions = None if topics is None else topics.get(key.topic)
            if topics is None or partitions is None:
                continue
            partitions.pop(key.partition, None)
            if not partitions:
                del topics[key.topic]
            if not topics:
                del groups[key.group]
        if self._pending:
            self._pending = {each: groups for each, groups in self._pending.items() if groups}

    # Records.

    def tombstones(self, group_id: str) -> Iterator[LogRecord]:
        """Yield the tombstones that delete all offsets of the group, pending ones too."""
        places: dict[TopicPartition, None] = {}
        for groups in (self._groups, *self._pending.values()):
            for topic, partitions in groups.get(group_id, {}).items():
                places.update(dict.fromkeys((topic, each) for each in partitions))
        for topic, partition in places:
            yield tombstone(group_id, topic, partition)

    def places_of_topics(self, topics: Iterable[str]) -> Iterator[tuple[str, TopicPartition]]:
        """Return all groups and partitions that have an offset in one of these topics."""
        wanted = tuple(topics)
        seen: dict[tuple[str, TopicPartition], None] = {}
        for groups in (self._groups, *self._pending.values()):
            for group_id, known in groups.items():
                for topic in wanted:
                    for partition in known.get(topic, ()):
                        seen[group_id, (topic, partition)] = None
        return iter(seen)

    def places_of_former_topics(
        self, id_of: Callable[[str], Uuid | None]
    ) -> list[tuple[str, TopicPartition]]:
        """Return all groups and partitions whose offsets all belong to a former topic: the topic
        that has the name now has another id, or does not exist. `id_of` returns the id of a name.
        An offset without an id may belong to any topic."""
        every = (self._groups, *self._pending.values())
        found: dict[tuple[str, TopicPartition], None] = {}
        for groups in every:
            for group_id, topics in groups.items():
                for topic, partitions in topics.items():
                    good = (ZERO_UUID, id_of(topic))
                    for partition, committed in partitions.items():
                        if committed.topic_id not in good:
                            found[group_id, (topic, partition)] = None
        return [each for each in found if self.are_former(*each, id_of)]

    def are_former(
        self, group_id: str, place: TopicPartition, id_of: Callable[[str], Uuid | None]
    ) -> bool:
        """Whether there are offsets, and all of them belong to a former topic of that name."""
        topic, partition = place
        known = [
            committed
            for groups in (self._groups, *self._pending.values())
            if (committed := groups.get(group_id, {}).get(topic, {}).get(partition)) is not None
        ]
        good = (ZERO_UUID, id_of(topic))
        return bool(known) and all(each.topic_id not in good for each in known)


def tombstone(group_id: str, topic: str, partition: int) -> LogRecord:
    """Return the record that deletes one offset."""
    return LogRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def from_legacy(value: LegacyOffsetCommitValue) -> OffsetCommitValue:
    """Convert the oldest form of the record to today's."""
    return OffsetCommitValue(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )
