"""Encode metadata records as batches of a log or a snapshot, and decode them.

Invariant: the records of one decision are one batch, which a log holds as a whole or not at all.
Each record is written in the version that the cluster's metadata.version knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from moldau.broker.controller.image import Image
from moldau.broker.controller.levels import record_version
from moldau.errors import CorruptLog
from moldau.ids import Uuid
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.framed_log import METADATA_LOG
from moldau.protocol.schemas.metadata_log import RemoveTopicRecord, TopicRecord
from moldau.records import Batch, BatchBuilder

SNAPSHOT_BATCH_RECORDS: Final = 256
"""A snapshot is made on the event loop, a batch at a time. This many records take about 2 ms."""


def encode_records(
    records: Sequence[MetadataRecord], metadata_version: int, timestamp_ms: int
) -> bytearray:
    """Encode at least one record as one batch. The log sets its offsets and epoch."""
    builder = BatchBuilder()
    for record in records:
        version = record_version(record, metadata_version)
        taken = builder.append(timestamp_ms, None, METADATA_LOG.encode(record, version))
        if taken is None:
            raise CorruptLog("the records do not fit into one batch", count=len(records))
    return builder.build()


def decode_records(batch: Batch) -> list[MetadataRecord]:
    """Return the records of a batch; none if it is a control batch of the quorum."""
    if batch.header.is_control:
        return []
    records = []
    for record in batch.records():
        if record.value is None:
            raise CorruptLog("metadata record without a value", offset=record.offset)
        records.append(METADATA_LOG.decode(record.value)[0])
    return records


def replay_batches(image: Image, batches: Iterable[Batch]) -> None:
    """Replay all records of the batches in order."""
    for batch in batches:
        image.replay_all(decode_records(batch))


def deleted_topics(batches: Iterable[Batch]) -> dict[Uuid, str | None]:
    """Return the topics that the batches delete, with their names if the batches also create them.
    Ids are never reused, so none of these topics can exist."""
    names: dict[Uuid, str] = {}
    deleted: dict[Uuid, str | None] = {}
    for batch in batches:
        for record in decode_records(batch):
            if isinstance(record, TopicRecord):
                names[record.topic_id] = record.name
            elif isinstance(record, RemoveTopicRecord):
                deleted[record.topic_id] = names.get(record.topic_id)
    return deleted


def snapshot_batches(image: Image, timestamp_ms: int) -> Iterator[bytearray]:
    """Yield the current image as batches of limited size. Later changes are not in them."""
    return batches_of(image.records(), image.features.metadata_version, timestamp_ms)


def batches_of(
    records: Iterable[MetadataRecord], metadata_version: int, timestamp_ms: int
) -> Iterator[bytearray]:
    """Yield the records as batches of limited size."""
    left = iter(records)
    while taken := list(islice(left, SNAPSHOT_BATCH_RECORDS)):
        yield encode_records(taken, metadata_version, timestamp_ms)
