"""Comparison of what the topic of remote segments says with what is in the store.

    stored = await stored_objects(store, topic, topic_id)
    ...                                          # then read the topic to its end
    found = findings(remote, 0, stored)
    checked = await check_logs(store, remote, stored, key_ring)

Invariant: nothing is changed. A segment that is copied or deleted at that moment may be on one side
alone: what two comparisons in a row find is there. List the store before the topic is read, see
`expiry.unreferenced`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.tiered.remote_partition import RemotePartition
from moldau.broker.tiered.remote_reader import codec_of
from moldau.broker.tiered.remote_segment import SegmentState
from moldau.broker.tiered.segment_objects import (
    INDEXES_BYTES_MAX,
    ObjectKind,
    SegmentAccess,
    decode_indexes,
    object_name,
    parse_object_name,
)
from moldau.errors import ConfigError, CorruptLog
from moldau.ids import Uuid, format_uuid
from moldau.objects.store_errors import StoreError, StoreReason

if TYPE_CHECKING:
    from moldau.broker.tiered.key_ring import KeyRing
    from moldau.broker.tiered.remote_segment import RemoteSegment
    from moldau.objects.object_store import ObjectStore

_AT_ONCE: Final = 8
StoredSizes = Mapping[str, int]
"""The sizes of objects, by their names."""


class Finding(NamedTuple):
    """Something that the topic and the store do not agree on."""

    partition: int
    name: str
    """Of the object."""
    problem: str


async def stored_objects(store: ObjectStore, topic: str, topic_id: Uuid) -> dict[str, int]:
    """Return the objects that a topic has in the store. Raise StoreError."""
    folder = f"{topic}-{format_uuid(topic_id)}"
    return {each.name: each.size_bytes async for each in store.list(folder)}


def findings(remote: RemotePartition | None, partition: int, stored: StoredSizes) -> list[Finding]:
    """Compare one partition's segments with the names of objects, and the sizes that the topic has.
    `stored` may have those of other partitions. `remote` is None if the topic has none of it."""
    remote = RemotePartition() if remote is None else remote
    found = []
    for segment in served(remote):
        for kind in ObjectKind:
            name = object_name(segment, kind)
            if name not in stored:
                found.append(Finding(partition, name, "the object is missing"))
        found += _of_indexes(segment, stored)
    ids = {each.id.id for each in remote.segments()}
    for name in sorted(stored):
        parsed = parse_object_name(name)
        is_here = parsed is not None and name.split("/")[-2] == str(partition)
        if parsed is not None and is_here and parsed.id not in ids:
            found.append(Finding(partition, name, "no segment has the object"))
    return found


def served(remote: RemotePartition) -> list[RemoteSegment]:
    """Return the segments of which all objects must be there."""
    return [each for each in remote.segments() if each.state is SegmentState.COPY_FINISHED]


def _of_indexes(segment: RemoteSegment, stored: StoredSizes) -> list[Finding]:
    name, partition = object_name(segment, ObjectKind.INDEXES), segment.id.partition
    try:
        size = SegmentAccess.decode(segment).indexes_bytes
    except CorruptLog as error:
        return [Finding(partition, name, error.reason)]
    there = stored.get(name, size)
    if there == size:
        return []
    return [Finding(partition, name, f"the object has {there} bytes, and should have {size}")]


class LogCheck(NamedTuple):
    """What the manifests say of the objects with logs."""

    found: list[Finding]
    unopened: int
    """Segments that are encrypted with a key that is not given."""


async def check_logs(
    store: ObjectStore, remote: RemotePartition, stored: StoredSizes, key_ring: KeyRing | None
) -> LogCheck:
    """Read the manifest of each served segment, and compare the size of its log with it. An object
    that `stored` does not have is passed over. Raise StoreError if the store does not answer."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def check(segment: RemoteSegment) -> Finding | None:
        async with turns:
            return await _check_log(store, segment, stored, key_ring)

    unopened, found = 0, []
    segments = [each for each in served(remote) if _is_whole(each, stored)]
    for answer in await asyncio.gather(*map(check, segments), return_exceptions=True):
        if isinstance(answer, ConfigError):
            unopened += 1
        elif isinstance(answer, BaseException):
            raise answer
        elif answer is not None:
            found.append(answer)
    return LogCheck(found, unopened)


def _is_whole(segment: RemoteSegment, stored: StoredSizes) -> bool:
    return all(object_name(segment, kind) in stored for kind in ObjectKind)


async def _check_log(
    store: ObjectStore, segment: RemoteSegment, stored: StoredSizes, key_ring: KeyRing | None
) -> Finding | None:
    of_log = object_name(segment, ObjectKind.LOG)
    of_indexes = object_name(segment, ObjectKind.INDEXES)
    partition = segment.id.partition
    try:
        access = SegmentAccess.decode(segment)
        codec = codec_of(segment, access, key_ring)
        data = await store.get_range(of_indexes, 0, access.indexes_bytes)
        plain = codec.decode(ObjectKind.INDEXES, 0, data, INDEXES_BYTES_MAX)
        size = sum(decode_indexes(plain, segment).manifest.stored_sizes)
    except CorruptLog as error:
        return Finding(partition, of_indexes, error.reason)
    except StoreError as error:
        if error.why in (StoreReason.NOT_FOUND, StoreReason.BAD_RANGE):
            return Finding(partition, of_indexes, "the object is gone or cut short")
        raise
    if stored[of_log] != size:
        there = stored[of_log]
        return Finding(partition, of_log, f"the object has {there} bytes, and should have {size}")
    return None
