"""The task of the MirrorSourceConnector: reads partitions of the source for the worker to write.

Records stay columns of bytes from the fetch to the produce. What the worker has written is noted
and told to readers of groups by offset syncs (`emission`), only after it is durable; with
exactly-once, after its transaction is committed (the worker calls `commit_part` then). Reading
continues after the last stored offset (`copied`), also after a topic was gone for a while
(`source_partitions`).

Invariant: a task never leaves out records in silence. If records were deleted at the source before
they were copied, or a topic was deleted and created anew, the log says so with the offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.client import KafkaError, PartitionColumns, TopicPartition
from moldau.client.sync import Producer
from moldau.connect.api import ConnectError, SourcePart, SourceParts, SourceRecord, SourceTask
from moldau.connectors.pace import Pace
from moldau.mirror.clusters import as_connect_error, open_producer
from moldau.mirror.continuation import CopyEnd, offset_after, offset_fault
from moldau.mirror.emission import SyncEmission
from moldau.mirror.settings import ASSIGNED, PACKAGE, SourceMirrorConfig
from moldau.mirror.source_partitions import SourcePartitions

if TYPE_CHECKING:
    from moldau.client import Sent, SentRange
    from moldau.ids import Uuid

_log = logging.getLogger(__name__)
_IDLE_S: Final = 1.0
_UNREADABLE: Final = "the source cannot be read"


def partition_of(cluster: str, where: TopicPartition) -> dict[str, Any]:
    """Return the source partition as Java's MirrorMaker stores it. It finds an offset only if the
    bytes of the key are the same, so the order of the fields is Java's."""
    return {"cluster": cluster, "partition": where.partition, "topic": where.topic}


def check_partition(partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
    """Raise ConnectError for an offset that a user wants to store and that is none of ours."""
    kinds = {name: type(value) for name, value in partition.items()}
    if kinds != {"cluster": str, "topic": str, "partition": int}:
        raise ConnectError(
            f"{dict(partition)} is no partition of a mirror: use "
            '{"cluster": "ALIAS", "partition": 0, "topic": "NAME"}'
        )
    fault = None if offset is None else offset_fault(offset)
    if fault is not None:
        raise ConnectError(f"{dict(partition)}: {fault}")


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

    _partitions: SourcePartitions | None = None
    _syncs: Producer[bytes, bytes] | None = None

    def __init__(self) -> None:
        self._pace = Pace()

    def start(self, props: Mapping[str, str]) -> None:
        self._config = config = SourceMirrorConfig.of(props)
        self._route = config.route()
        self._emission = SyncEmission(config.lag_max)
        places = places_in(props.get(ASSIGNED, ""))
        if not places:
            return
        self._partitions = SourcePartitions(config, props, self._copied(places), self._pace)
        if config.emits_syncs:
            self._syncs = open_producer(props, config.syncs_location)
        try:
            self._partitions.take_up()
        except KafkaError as error:
            raise as_connect_error(error, _UNREADABLE) from error

    def _copied(self, places: list[TopicPartition]) -> dict[TopicPartition, CopyEnd | None]:
        """Return up to where each partition is copied, as it is stored."""
        partitions = [partition_of(self._config.source, where) for where in places]
        stored = self.context.offset_storage_reader.offsets(partitions)
        return {
            where: CopyEnd.of(offset) for where, (_, offset) in zip(places, stored, strict=True)
        }

    def poll(self) -> Sequence[SourceRecord] | None:
        self._write_syncs()
        if self._partitions is None:
            self._pace.wait(_IDLE_S)
            return None
        try:
            found = self._partitions.poll(self._config.poll_ms / 1000)
        except KafkaError as error:
            raise as_connect_error(error, _UNREADABLE) from error
        if not found:
            self.commit()  # the worker commits nothing more while nothing is read
            return None
        return SourceParts([self._part(columns, topic_id) for columns, topic_id in found])

    def _part(self, columns: PartitionColumns, topic_id: Uuid) -> SourcePart:
        where = TopicPartition(columns.topic, columns.partition)
        return SourcePart(
            self._route.remote(columns.topic),
            columns.partition,
            partition_of(self._config.source, where),
            columns,
            partial(offset_after, topic_id=topic_id),
        )

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
        if self._partitions is not None:
            closing.append(self._partitions.close)
        for each in closing:
            try:
                each()
            except KafkaError as error:
                _log.warning("a client of the mirror did not close in order: %s", error)


def _on_sync(_: Sent | None, error: KafkaError | None) -> None:
    if error is not None:
        _log.warning("an offset sync was not written, the next one counts: %s", error)
