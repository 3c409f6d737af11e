"""The task of the MirrorSourceConnector: reads partitions of the source for the worker to write.

Records stay columns of bytes from the fetch to the produce. What the worker has written is noted
and told to readers of groups by offset syncs (`emission`), only after it is durable; with
exactly-once, after its transaction is committed (the worker calls `commit_part` then). Reading
continues after the last stored offset.

Invariant: a task never leaves out records in silence. If records were deleted at the source before
they were copied, or a topic was deleted and created anew, the log says so with the offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.client import ErrorCode, KafkaError, PartitionColumns, TopicPartition
from moldau.client.sync import Consumer, Producer
from moldau.connect.api import ConnectError, SourcePart, SourceParts, SourceRecord, SourceTask
from moldau.connectors.pace import Pace
from moldau.mirror.clusters import as_connect_error, open_consumer, open_producer
from moldau.mirror.emission import SyncEmission
from moldau.mirror.settings import ASSIGNED, PACKAGE, SourceMirrorConfig

if TYPE_CHECKING:
    from moldau.client import Sent, SentRange

_log = logging.getLogger(__name__)
_RECORDS_MAX: Final = 20_000
_IDLE_S: Final = 1.0
_GONE: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def partition_of(cluster: str, where: TopicPartition) -> dict[str, Any]:
    """Return the source partition as Java's MirrorMaker stores it."""
    return {"cluster": cluster, "topic": where.topic, "partition": where.partition}


def offset_after(offset: int) -> dict[str, Any]:
    """Return the source offset after the record with this offset."""
    return {"offset": offset}


def check_partition(partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
    """Raise ConnectError for an offset that a user wants to store and that is none of ours."""
    kinds = {name: type(value) for name, value in partition.items()}
    if kinds != {"cluster": str, "topic": str, "partition": int}:
        raise ConnectError(
            f"{dict(partition)} is no partition of a mirror: use "
            '{"cluster": "ALIAS", "topic": "NAME", "partition": 0}'
        )
    last = None if offset is None else offset.get("offset")
    if offset is not None and (type(last) is not int or last < 0):
        raise ConnectError(f"{dict(partition)}: offset must be a whole number from 0 on")


def places_in(text: str) -> list[TopicPartition]:
    """Return the partitions in the text of a task's config: `orders-0,orders-1`."""
    found = []
    for each in filter(None, text.split(",")):
        topic, _, number = each.rpartition("-")
        found.append(TopicPartition(topic, int(number)))
    return found


class MirrorSourceTask(SourceTask):
    """Reads the partitions that the connector has assigned to it."""

    java_name = f"{PACKAGE}.MirrorSourceTask"

    _consumer: Consumer[bytes, bytes] | None = None
    _syncs: Producer[bytes, bytes] | None = None

    def __init__(self) -> None:
        self._pace = Pace()

    def start(self, props: Mapping[str, str]) -> None:
        self._config = config = SourceMirrorConfig.of(props)
        self._route = config.route()
        self._emission = SyncEmission(config.lag_max)
        self._places = places_in(props.get(ASSIGNED, ""))
        if not self._places:
            return
        self._consumer = open_consumer(props, "source")
        if config.emits_syncs:
            self._syncs = open_producer(props, config.syncs_location)
        try:
            self._consumer.assign(self._places)
            self._seek(self._consumer)
        except KafkaError as error:
            raise as_connect_error(error, "the source cannot be read") from error

    def _seek(self, consumer: Consumer[bytes, bytes]) -> None:
        """Continue after the stored offsets."""
        partitions = [partition_of(self._config.source, where) for where in self._places]
        stored = self.context.offset_storage_reader.offsets(partitions)
        known = {
            where: int(offset["offset"]) + 1
            for where, (_, offset) in zip(self._places, stored, strict=True)
            if offset is not None
        }
        if not known:
            return
        begins, ends = consumer.beginning_offsets(known), consumer.end_offsets(known)
        for where, at in known.items():
            consumer.seek(where, self._checked(where, at, begins[where], ends[where]))

    @staticmethod
    def _checked(where: TopicPartition, at: int, begin: int, end: int) -> int:
        if at > end:
            _log.warning("%s ends at %d, but was copied up to %d: it was deleted and created "
                         "anew, and is copied from its beginning", where, end, at)  # fmt: skip
            return begin
        if at < begin:
            _log.warning("records %d to %d of %s were deleted before they were copied",
                         at, begin - 1, where)  # fmt: skip
            return begin
        return at

    def poll(self) -> Sequence[SourceRecord] | None:
        self._write_syncs()
        if self._consumer is None or not self._places:
            self._pace.wait(_IDLE_S)
            return None
        try:
            found = self._consumer.poll_batches(
                self._config.poll_ms / 1000, max_records=_RECORDS_MAX
            )
        except KafkaError as error:
            if error.code not in _GONE:
                raise as_connect_error(error, "the source cannot be read") from error
            self._give_up(self._consumer, error)
            return None
        if not found:
            self.commit()  # the worker commits nothing more while nothing is read
            return None
        return SourceParts([self._part(each) for each in found])

    def _part(self, columns: PartitionColumns) -> SourcePart:
        where = TopicPartition(columns.topic, columns.partition)
        return SourcePart(
            self._route.remote(columns.topic),
            columns.partition,
            partition_of(self._config.source, where),
            columns,
            offset_after,
        )

    def _give_up(self, consumer: Consumer[bytes, bytes], error: KafkaError) -> None:
        """Leave out a topic that is gone. The next refresh takes it up if it returns."""
        topic = error.context.get("topic")
        left = [where for where in self._places if where.topic != topic]
        if len(left) == len(self._places):
            raise as_connect_error(error, "the source cannot be read") from error
        _log.warning("%s is gone from the source: %s", topic, error)
        at = {where: consumer.position(where) for where in left}
        self._places = left
        consumer.assign(left)
        for where, position in at.items():
            if position is not None:
                consumer.seek(where, position)

    # What was written

    def commit_part(self, part: SourcePart, places: Sequence[SentRange]) -> None:
        where = TopicPartition(part.columns.topic, part.columns.partition)
        offsets, at = part.columns.offsets, 0
        for each in places:
            upstream = offsets[at : at + each.records]
            self._emission.on_delivered(where, upstream, each.base_offset)
            at += each.records

    def commit_record(self, record: SourceRecord, metadata: Sent | None) -> None:
        if metadata is None or record.source_partition is None or record.source_offset is None:
            return
        of = record.source_partition
        where = TopicPartition(of["topic"], of["partition"])
        self._emission.on_delivered(where, [record.source_offset["offset"]], metadata.offset)

    def commit(self) -> None:
        self._emission.on_commit()
        self._write_syncs()

    def _write_syncs(self) -> None:
        due = self._emission.ready()
        if self._syncs is None:
            return
        for sync in due:
            self._syncs.send(
                self._config.syncs_topic,
                sync.value,
                key=sync.key,
                partition=0,
                on_delivery=_on_sync,
            )

    def stop(self) -> None:
        self._pace.stop()
        closing: list[Callable[[], None]] = []
        if self._syncs is not None:  # what the worker has told of is durable
            closing += [self.commit, self._syncs.close]
        if self._consumer is not None:
            closing.append(self._consumer.close)
        for each in closing:
            try:
                each()
            except KafkaError as error:
                _log.warning("a client of the mirror did not close in order: %s", error)


def _on_sync(_: Sent | None, error: KafkaError | None) -> None:
    if error is not None:
        _log.warning("an offset sync was not written, the next one counts: %s", error)
