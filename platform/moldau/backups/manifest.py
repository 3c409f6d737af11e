"""What a backup is: one document that names all of it, and the chunks of each log.

A chunk is a run of whole batches, as the leader's log has them; or a remote segment, as the store
has copied it. Invariants: the chunks of a log are
in order of their offsets and do not overlap; `start_offset <= end_offset`; no chunk ends beyond
`end_offset`, or at or below `start_offset`.

A log as of a time ends before its first batch that holds a record stamped at that time or later.
So all restored records are older than the time, and their offsets have no new gap. The stamps are
those of the records: with CreateTime the producers' clocks say them, else the brokers'.
Compaction and retention are not undone: what they had removed when a chunk was read is not in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.records import walk

if TYPE_CHECKING:
    from moldau.records import Buffer

FORMAT: Final = 2
"""A backup without remote segments is of format 1, which older versions restore."""
_PLAIN_FIELDS: Final = 7
_PRODUCER_ID_END: Final = 1 << 62
"""No cluster gives out ids as high: those in batches were made up by a client."""


class BackupFailed(MoldauError):
    """A backup or a restore that cannot go on; the text says what to do."""


class Chunk(NamedTuple):
    """An object with batches of one partition, and what a restore must know before it reads it."""

    base_offset: int
    next_offset: int
    size_bytes: int
    checksum: int
    """CRC-32C of the whole object; 0 of a remote segment, whose parts have their own."""
    max_timestamp: int
    max_epoch: int
    max_producer_id: int
    """At least the highest of those that a cluster may have given out; -1 if there is none."""
    segment: str = ""
    """The id of a remote segment, whose object this is."""
    stored_sizes: tuple[int, ...] = ()
    """The sizes of the chunks of that segment."""


@dataclass(frozen=True, slots=True)
class LogBackup:
    """One partition. `leader_epoch` is that of its leader when it was backed up."""

    start_offset: int
    end_offset: int
    leader_epoch: int
    chunks: tuple[Chunk, ...] = ()

    @property
    def epoch_after(self) -> int:
        """The first leader epoch above all that the log knows."""
        return max((self.leader_epoch, *(each.max_epoch for each in self.chunks))) + 1


@dataclass(frozen=True, slots=True)
class TopicBackup:
    """One topic. The partitions are in the order of their numbers."""

    name: str
    topic_id: bytes
    replication: int
    settings: Mapping[str, str]
    logs: tuple[LogBackup, ...]


class GroupOffset(NamedTuple):
    """Where a group goes on in one partition."""

    topic: str
    partition: int
    offset: int
    metadata: str
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """One backup."""

    cluster_id: str
    begun_ms: int
    topics: tuple[TopicBackup, ...]
    commits: TopicBackup | None
    """The log of commits, for group offsets as of a time; None if there was none."""
    groups: Mapping[str, tuple[GroupOffset, ...]]
    acls: tuple[tuple[str, ...], ...] | None = None
    """The fields of each rule as text; None if the brokers decided by no rules."""
    quotas: tuple[tuple[tuple[str | None, ...], Mapping[str, float]], ...] = ()
    users: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The iterations of each mechanism. A cluster tells neither keys nor salts."""

    @property
    def producer_id_end(self) -> int:
        """The first producer id above all that the batches name."""
        chunks = (chunk for _, _, log in self.logs() for chunk in log.chunks)
        return max_given_id(each.max_producer_id for each in chunks) + 1

    def logs(self) -> Iterator[tuple[TopicBackup, int, LogBackup]]:
        """Yield all logs that are restored, with their topics and numbers."""
        for topic in self.topics:
            for number, log in enumerate(topic.logs):
                yield topic, number, log

    @property
    def by_id(self) -> dict[bytes, TopicBackup]:
        """All topics, also the log of commits."""
        both = (*self.topics, *((self.commits,) if self.commits else ()))
        return {each.topic_id: each for each in both}

    @property
    def objects(self) -> dict[str, int]:
        """The size of each object that a restore reads, by name."""
        return {
            chunk_name(topic.topic_id, number, chunk): chunk.size_bytes
            for topic in self.by_id.values()
            for number, log in enumerate(topic.logs)
            for chunk in log.chunks
        }


def max_given_id(producer_ids: Iterable[int]) -> int:
    """Return the highest id that a cluster may have given out; -1 if there is none. A broker takes
    any id from a producer, and new ones above the highest possible could not be given out."""
    return max((each for each in producer_ids if each < _PRODUCER_ID_END), default=-1)


def chunk_name(topic_id: bytes, partition: int, chunk: Chunk) -> str:
    """Return the name of a chunk's object. Other bytes have another name."""
    ends = f"{chunk.base_offset:020}-{chunk.next_offset:020}"
    what = chunk.segment or f"{chunk.checksum:08x}"
    return f"data/{topic_id.hex()}/{partition}/{ends}-{what}"


def cut_in(data: Buffer, time_ms: int, end_offset: int) -> tuple[int, bool]:
    """Return where a log ends that ended at `end_offset` before these batches, and whether that is
    because the next batch has such a record. Compaction may have left a gap between the two."""
    for batch in walk(data):
        if batch.header.max_timestamp >= time_ms:
            return min(end_offset, batch.header.base_offset), True
        end_offset = batch.header.next_offset
    return end_offset, False


def encoded(manifest: Manifest) -> bytes:
    """Return the document of a backup."""
    has_segments = any(chunk.segment for _, _, log in manifest.logs() for chunk in log.chunks)
    document = {
        "format": FORMAT if has_segments else 1,
        "cluster": manifest.cluster_id,
        "begun_ms": manifest.begun_ms,
        "topics": [_topic_json(each) for each in manifest.topics],
        "commits": None if manifest.commits is None else _topic_json(manifest.commits),
        "groups": manifest.groups,
        "acls": manifest.acls,
        "quotas": manifest.quotas,
        "users": manifest.users,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decoded(data: bytes) -> Manifest:
    """Return the backup of a document. Its checksum must be right."""
    document = json.loads(data)
    if not 1 <= document["format"] <= FORMAT:
        raise BackupFailed(
            "the backup was made by a newer moldau: restore it with that version",
            format=document["format"],
        )
    commits, acls = document["commits"], document["acls"]
    return Manifest(
        document["cluster"],
        document["begun_ms"],
        tuple(map(_topic_of, document["topics"])),
        None if commits is None else _topic_of(commits),
        {
            group: tuple(GroupOffset(*each) for each in offsets)
            for group, offsets in document["groups"].items()
        },
        None if acls is None else tuple(map(tuple, acls)),
        tuple((tuple(entity), values) for entity, values in document["quotas"]),
        document["users"],
    )


def _topic_json(topic: TopicBackup) -> dict[str, Any]:
    return {
        "name": topic.name,
        "id": topic.topic_id.hex(),
        "replication": topic.replication,
        "settings": dict(topic.settings),
        "logs": [
            [each.start_offset, each.end_offset, each.leader_epoch, [*map(_fields, each.chunks)]]
            for each in topic.logs
        ],
    }


def _fields(chunk: Chunk) -> tuple[object, ...]:
    return chunk if chunk.segment else chunk[:_PLAIN_FIELDS]


def _topic_of(found: dict[str, Any]) -> TopicBackup:
    return TopicBackup(
        found["name"],
        bytes.fromhex(found["id"]),
        found["replication"],
        found["settings"],
        tuple(
            LogBackup(start, end, epoch, tuple(map(_chunk_of, chunks)))
            for start, end, epoch, chunks in found["logs"]
        ),
    )


def _chunk_of(fields: list[Any]) -> Chunk:
    segment = fields[_PLAIN_FIELDS:]
    return Chunk(*fields[:_PLAIN_FIELDS], *segment[:1], *map(tuple, segment[1:]))
