"""Committed offsets of all groups of a shard: what the log says of them, and no rule about groups.

Invariants: only `replay...` changes anything; no empty dictionary stays behind. Offsets of a
transaction that is open are pending: they stand beside the committed ones, and become committed or
vanish with its marker. A pending offset never takes the place of one that was written after it.
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

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""


class Committed(NamedTuple):
    """What was committed for one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int
    """NO_EXPIRY unless the commit itself brought a retention (versions 2 to 4 of OffsetCommit)."""
    topic_id: Uuid
    written_at: int
    """The offset of its record in the log."""


_Topics: TypeAlias = dict[str, dict[int, Committed]]


class Offsets:
    """By group, topic and partition."""

    __slots__ = ("_groups", "_pending")

    def __init__(self) -> None:
        self._groups: dict[str, _Topics] = {}
        self._pending: dict[int, dict[str, _Topics]] = {}
        """By producer, then as `_groups`."""

    # Asked.

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        """The committed offset."""
        topics = self._groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, Committed]]:
        """All that the group has committed."""
        return self._groups.get(group_id, {})

    def groups(self) -> Iterable[str]:
        """The groups that have committed something."""
        return self._groups.keys()

    def count(self) -> int:
        """How many offsets are committed."""
        return sum(
            len(partitions) for topics in self._groups.values() for partitions in topics.values()
        )

    def has_any(self, group_id: str) -> bool:
        """Whether the group has offsets, or pending ones."""
        return group_id in self._groups or self.is_in_transaction(group_id)

    def is_in_transaction(self, group_id: str) -> bool:
        """Whether some transaction with offsets of the group is open."""
        return any(group_id in groups for groups in self._pending.values())

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may change that offset."""
        return any(
            partition in groups.get(group_id, {}).get(topic, {})
            for groups in self._pending.values()
        )

    # What the log says.

    def replay(
        self, at: int, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue | None
    ) -> None:
        """The record that was written `at`."""
        if value is None:
            self._remove(key)
            return
        committed = Committed(
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
        """The transaction is over; the groups whose offsets it held."""
        pending = self._pending.pop(producer_id, {})
        if is_commit:
            for group_id, topics in pending.items():
                for topic, partitions in topics.items():
                    for partition, committed in partitions.items():
                        self._commit(group_id, topic, partition, committed)
        return pending.keys()

    def _commit(self, group_id: str, topic: str, partition: int, committed: Committed) -> None:
        partitions = self._groups.setdefault(group_id, {}).setdefault(topic, {})
        known = partitions.get(partition)
        if known is None or known.written_at < committed.written_at:
            partitions[partition] = committed

    def _remove(self, key: OffsetCommitKey) -> None:
        """Kafka writes tombstones outside of transactions; they end pending offsets as well."""
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
        """What deletes all offsets of the group, pending ones too."""
        places: dict[Place, None] = {}
        for groups in (self._groups, *self._pending.values()):
            for topic, partitions in groups.get(group_id, {}).items():
                places.update(dict.fromkeys((topic, each) for each in partitions))
        for topic, partition in places:
            yield tombstone(group_id, topic, partition)

    def places_of_topics(self, topics: Iterable[str]) -> Iterator[tuple[str, Place]]:
        """All groups and partitions that have an offset in one of those topics."""
        wanted = tuple(topics)
        seen: dict[tuple[str, Place], None] = {}
        for groups in (self._groups, *self._pending.values()):
            for group_id, known in groups.items():
                for topic in wanted:
                    for partition in known.get(topic, ()):
                        seen[group_id, (topic, partition)] = None
        return iter(seen)

    def places_of_former_topics(
        self, id_of: Callable[[str], Uuid | None]
    ) -> list[tuple[str, Place]]:
        """All groups and partitions whose offsets are all of a topic that is not the one of that
        name, whose id is `id_of` it. An offset without an id may be of any."""
        every = (self._groups, *self._pending.values())
        found: dict[tuple[str, Place], None] = {}
        for groups in every:
            for group_id, topics in groups.items():
                for topic, partitions in topics.items():
                    good = (ZERO_UUID, id_of(topic))
                    for partition, committed in partitions.items():
                        if committed.topic_id not in good:
                            found[group_id, (topic, partition)] = None
        return [each for each in found if self.are_former(*each, id_of)]

    def are_former(self, group_id: str, place: Place, id_of: Callable[[str], Uuid | None]) -> bool:
        """Whether offsets are there, and all of a topic that is not the one of that name."""
        topic, partition = place
        known = [
            committed
            for groups in (self._groups, *self._pending.values())
            if (committed := groups.get(group_id, {}).get(topic, {}).get(partition)) is not None
        ]
        good = (ZERO_UUID, id_of(topic))
        return bool(known) and all(each.topic_id not in good for each in known)


def tombstone(group_id: str, topic: str, partition: int) -> LogRecord:
    """Deletes one offset."""
    return LogRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition))


def from_legacy(value: LegacyOffsetCommitValue) -> OffsetCommitValue:
    """The oldest form of the record, in today's."""
    return OffsetCommitValue(
        offset=value.offset, metadata=value.metadata, commit_timestamp=value.commit_timestamp
    )
