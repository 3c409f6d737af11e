"""Topics and their partitions: the fold of their records in the metadata log.

Invariants: names and ids are unique. A partition's in-sync replicas are among its replicas, and
none of them is an eligible leader replica. Each change raises the partition epoch by one. A change
that names a leader also raises the leader epoch.

A `Partition` is frozen: a reference to it stays consistent, and copies of the image share it.
Records of a snapshot are made while the topics change: see `Topics`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Final

from moldau.broker.controller.directories import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED
from moldau.broker.controller.levels import supports_directories, supports_elr
from moldau.deferred import dataclass
from moldau.errors import CorruptLog
from moldau.ids import Uuid
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

NO_LEADER: Final = -1
LEADER_UNCHANGED: Final = -2
RECOVERY_UNCHANGED: Final = -1
RECOVERED: Final = 0
RECOVERING: Final = 1


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition. `directories` has each replica's log directory, in the order of `replicas`."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED
    directories: tuple[Uuid, ...] = ()

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def preferred_leader(self) -> int:
        """The first replica, which leads if all replicas are in sync."""
        return self.replicas[0] if self.replicas else NO_LEADER

    def directory_of(self, broker_id: int) -> Uuid:
        """Return the log directory of the broker's replica."""
        try:
            return self.directories[self.replicas.index(broker_id)]
        except (ValueError, IndexError):
            return DIRECTORY_UNASSIGNED

    def changed(self, record: PartitionChangeRecord) -> Partition:
        """Return the partition after the change."""
        moved = record.leader != LEADER_UNCHANGED
        replicas = _or_kept(record.replicas, self.replicas)
        directories = self.directories
        if record.directories is not None:
            directories = tuple(record.directories)
        elif len(directories) != len(replicas):
            directories = (DIRECTORY_MIGRATING,) * len(replicas)
        recovery = record.leader_recovery_state
        # not `replace`, which costs as much as all else: a start has a change of each partition
        return Partition(
            replicas=replicas,
            isr=_or_kept(record.isr, self.isr),
            leader=record.leader if moved else self.leader,
            leader_epoch=self.leader_epoch + 1 if moved else self.leader_epoch,
            partition_epoch=self.partition_epoch + 1,
            removing_replicas=_or_kept(record.removing_replicas, self.removing_replicas),
            adding_replicas=_or_kept(record.adding_replicas, self.adding_replicas),
            elr=_or_kept(record.eligible_leader_replicas, self.elr),
            last_known_elr=_or_kept(record.last_known_elr, self.last_known_elr),
            leader_recovery_state=(
                self.leader_recovery_state if recovery == RECOVERY_UNCHANGED else recovery
            ),
            directories=directories,
        )

    def record(self, topic_id: Uuid, partition_id: int, metadata_version: int) -> PartitionRecord:
        """Return the record that creates this partition in its current state."""
        knows_elr = supports_elr(metadata_version)
        return PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories) if supports_directories(metadata_version) else [],
            eligible_leader_replicas=list(self.elr) if self.elr and knows_elr else None,
            last_known_elr=(
                list(self.last_known_elr) if self.last_known_elr and knows_elr else None
            ),
        )


def _or_kept(given: Sequence[int] | None, kept: tuple[int, ...]) -> tuple[int, ...]:
    return kept if given is None else tuple(given)


def _partition_of(record: PartitionRecord) -> Partition:
    directories = tuple(record.directories) or (DIRECTORY_MIGRATING,) * len(record.replicas)
    return Partition(
        replicas=tuple(record.replicas),
        isr=tuple(record.isr),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        removing_replicas=tuple(record.removing_replicas),
        adding_replicas=tuple(record.adding_replicas),
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        leader_recovery_state=record.leader_recovery_state,
        directories=directories,
    )


@dataclass(slots=True)
class Topic:
    """A topic. Its partitions are numbered from 0 without gaps."""

    name: str
    topic_id: Uuid
    partitions: dict[int, Partition] = field(default_factory=dict)
    generation: int = field(default=0, compare=False, repr=False)
    """The number of snapshots that had begun when this object was created."""

    @property
    def replication_factor(self) -> int:
        """The replication factor of the first partition."""
        return len(self.partitions[0].replicas) if self.partitions else 0


def collision_key(name: str) -> str:
    """Return the name as metrics write it, with `_` for `.`. Names with the same key collide in
    metrics."""
    return name.replace(".", "_")


class Topics:
    """All topics, by id and by name.

    Invariant: a snapshot keeps the topics of the moment at which it was begun. Topics that are
    older than the newest snapshot are replaced, and not changed in place.
    """

    RECORDS = (
        TopicRecord,
        RemoveTopicRecord,
        PartitionRecord,
        PartitionChangeRecord,
        ClearElrRecord,
    )

    __slots__ = ("_generation", "_ids", "_likes", "_ordered", "by_id", "preferred")

    def __init__(self) -> None:
        self.by_id: dict[Uuid, Topic] = {}
        self.preferred = Counter[int]()
        """How many partitions have a broker as their preferred leader."""
        self._ids: dict[str, Uuid] = {}
        self._likes: dict[str, set[str]] = {}
        self._ordered: tuple[str, ...] | None = None
        self._generation = 0

    def __eq__(self, other: object) -> bool:
        return self.by_id == other.by_id if isinstance(other, Topics) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes

    def by_name(self, name: str) -> Topic | None:
        """Return the topic of this name, or None."""
        topic_id = self._ids.get(name)
        return None if topic_id is None else self.by_id[topic_id]

    def names(self) -> Iterator[str]:
        """Return all names, in the order of creation."""
        return iter(self._ids)

    def ordered_names(self) -> tuple[str, ...]:
        """Return all names, sorted. They are kept until a topic is created or deleted, as a client
        that lists many topics asks for page after page."""
        if self._ordered is None:
            self._ordered = tuple(sorted(self._ids))
        return self._ordered

    def colliding_with(self, name: str) -> str | None:
        """Return another topic that collides with `name` in metrics; the first one by name."""
        others = self._likes.get(collision_key(name), set()) - {name}
        return min(others) if others else None

    def all_partitions(self) -> Iterator[tuple[Topic, int, Partition]]:
        """Yield every partition of every topic."""
        for topic in self.by_id.values():
            for partition_id, partition in topic.partitions.items():
                yield topic, partition_id, partition

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record of this family."""
        match record:
            case TopicRecord():
                self._add(record.name, record.topic_id)
            case RemoveTopicRecord():
                self._remove(record.topic_id)
            case PartitionRecord():
                self._put(record.topic_id, record.partition_id, _partition_of(record))
            case PartitionChangeRecord():
                self._change(record)
            case ClearElrRecord():
                self._clear_elr(record.topic_name)
            case _:
                raise AssertionError(f"{record!r} is not about a topic")

    def _known(self, topic_id: Uuid) -> Topic:
        topic = self.by_id.get(topic_id)
        if topic is None:
            raise CorruptLog("record about a topic that does not exist", topic_id=topic_id.hex())
        return topic

    def _changeable(self, topic_id: Uuid) -> Topic:
        """Return the topic as an object that no snapshot uses; copy it if necessary."""
        topic = self._known(topic_id)
        if topic.generation != self._generation:
            topic = Topic(topic.name, topic_id, topic.partitions.copy(), self._generation)
            self.by_id[topic_id] = topic
        return topic

    def _put(self, topic_id: Uuid, partition_id: int, partition: Partition) -> None:
        topic = self._changeable(topic_id)
        before = topic.partitions.get(partition_id)
        if before is None or before.replicas is not partition.replicas:
            self.preferred[partition.preferred_leader] += 1
            if before is not None:
                self.preferred[before.preferred_leader] -= 1
        topic.partitions[partition_id] = partition

    def _add(self, name: str, topic_id: Uuid) -> None:
        if name in self._ids or topic_id in self.by_id:
            raise CorruptLog("topic is created twice", name=name, topic_id=topic_id.hex())
        self.by_id[topic_id] = Topic(name, topic_id, generation=self._generation)
        self._ids[name] = topic_id
        self._ordered = None
        self._likes.setdefault(collision_key(name), set()).add(name)

    def _remove(self, topic_id: Uuid) -> None:
        topic = self._known(topic_id)
        self.preferred.subtract(each.preferred_leader for each in topic.partitions.values())
        del self.by_id[topic_id]
        del self._ids[topic.name]
        self._ordered = None
        likes = self._likes[collision_key(topic.name)]
        likes.discard(topic.name)
        if not likes:
            del self._likes[collision_key(topic.name)]

    def _change(self, record: PartitionChangeRecord) -> None:
        topic = self._known(record.topic_id)
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            raise CorruptLog(
                "change of a partition that does not exist",
                topic=topic.name,
                partition=record.partition_id,
            )
        self._put(record.topic_id, record.partition_id, partition.changed(record))

    def _clear_elr(self, topic_name: str) -> None:
        if topic_name == "":
            topics = list(self.by_id.values())
        else:
            topics = [each for each in (self.by_name(topic_name),) if each is not None]
            if not topics:
                raise CorruptLog("record about a topic that does not exist", name=topic_name)
        for topic in topics:
            for partition_id, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    own = self._changeable(topic.topic_id)
                    own.partitions[partition_id] = replace(partition, elr=(), last_known_elr=())

    def records(self, metadata_version: int) -> Iterator[MetadataRecord]:
        """Yield the records of this family for a snapshot, with the current state."""
        self._generation += 1
        return _records_of(self.by_id.copy(), metadata_version)


def _records_of(topics: dict[Uuid, Topic], metadata_version: int) -> Iterator[MetadataRecord]:
    for topic in topics.values():
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for partition_id, partition in topic.partitions.items():  # in the order of the log
            yield partition.record(topic.topic_id, partition_id, metadata_version)
