"""One node: replicas with logs on a disk, the fetchers of a broker, and what a leader does for a
tiered partition. The network is a call with a delay."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from moldau.broker.log.directories import LogDirectories
from moldau.broker.log.log import PartitionLog
from moldau.broker.log.log_settings import UpkeepOptions
from moldau.broker.log.meta_properties import MetaProperties, write_meta_properties
from moldau.broker.log.offset_lookup import EARLIEST_PENDING_UPLOAD, LATEST, OffsetAt
from moldau.broker.log.rounds import rest
from moldau.broker.replication.fetcher import FetcherServices, FetchSettings, ReplicaFetchers
from moldau.broker.replication.partition import Leadership, Partition
from moldau.broker.replication.purgatory import Purgatory
from moldau.broker.replication.replicas import Replicas
from moldau.broker.replication.topic_config import TopicConfig
from moldau.broker.tiered.copying import (
    CopyLag,
    LocalLog,
    LocalSegment,
    SegmentOrigin,
    begin_copy,
    copied_end,
    next_copy,
)
from moldau.broker.tiered.expiry import Leadership as TierLeadership
from moldau.broker.tiered.expiry import Retention, deletions, first_offset, local_start
from moldau.broker.tiered.rebuild import epochs_section, producers_section
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging import Loggers
from moldau.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.protocol.messages.offset_for_leader_epoch import EpochEndOffset as EndOfEpoch
from moldau.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from moldau.runtime import Runtime
from tests.broker.log.machine import SMALL
from tests.broker.tiered.replicas.remote_store import NodePart, Stored

if TYPE_CHECKING:
    from tests.broker.tiered.replicas.cluster import Cluster

TOPIC: Final = "t"
TOPIC_ID: Final = b"t" * 16
PATH: Final = "/data"
CONFIG: Final = TopicConfig(
    replace(
        SMALL,
        is_tiered=True,
        segment_bytes=500,
        file_delete_delay_ms=0,
        producer_expiration_ms=1 << 60,
    )
)
UPKEEP: Final = UpkeepOptions(
    initial_delay=50,
    retention_interval=100,
    flush_interval=60,
    points_interval=200,
    high_watermarks_interval=70,
)
TERMS: Final = FetchSettings(1, 0, 1 << 20, 700, 50, 1000)


class Member:
    """One node over all its lives."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.number = number
        self.partition: Partition | None = None
        """While it is up, its replica."""
        self.part = NodePart(cluster.store)
        self._led_epoch = -1
        self.node = cluster.world.add_node(f"n{number}", self.main)

    async def main(self, runtime: Runtime) -> None:
        """One life."""
        cluster = self.cluster
        self.part = NodePart(cluster.store)
        replicas = self._open(runtime)
        fetchers = self._fetchers(runtime, replicas)
        fetchers.start()
        replicas.upkeep.start(UPKEEP)
        seen = -1
        turns = 0
        while True:
            if seen != cluster.version:
                seen = cluster.version
                self._apply(replicas)
            turns += 1
            self.part.is_ready = turns > 5
            partition = self.partition
            if partition is not None and self.part.is_ready:
                self._cut(partition.log, runtime)
                if partition.is_leader and partition.leader_epoch == cluster.epoch:
                    await self._lead(partition, replicas, runtime)
            await rest(cluster.random.choice((0.005, 0.02, 0.04)))

    def down(self) -> None:
        self.partition = None

    def _open(self, runtime: Runtime) -> Replicas:
        if not runtime.files.exists(f"{PATH}/meta.properties"):
            runtime.files.make_dirs(PATH)
            meta = MetaProperties("cluster", self.number, bytes(15) + b"\x01")
            write_meta_properties(runtime.files, PATH, meta)
        directories = LogDirectories.open(runtime.files, (PATH,), "cluster", self.number)
        directories.load(lambda *_: CONFIG.log, runtime.clock.wall_ms())
        log = Loggers(runtime.clock, self.cluster.lines.append).get(f"n{self.number}")
        purgatory = Purgatory(runtime.clock, asyncio.get_running_loop())
        return Replicas(runtime, directories, self.number, purgatory, log)

    def _fetchers(self, runtime: Runtime, replicas: Replicas) -> ReplicaFetchers:
        log = Loggers(runtime.clock, self.cluster.lines.append).get(f"n{self.number}")
        part = self.part
        peers: Any = CalledPeers(self.cluster)
        fetchers = ReplicaFetchers(
            FetcherServices(
                runtime,
                peers,
                self.number,
                lambda: 0,
                lambda: replace(TERMS, is_remote_skipped=self.cluster.is_remote_skipped),
                lambda: replicas.quotas.fetched,
                lambda: None,
                log,
                lambda partition: part.history,
            )
        )
        replicas.on_followed = fetchers.follow
        replicas.on_unfollowed = fetchers.unfollow
        return fetchers

    def _apply(self, replicas: Replicas) -> None:
        """Learn who leads."""
        cluster = self.cluster
        known = Leadership(
            TOPIC,
            0,
            TOPIC_ID,
            cluster.epoch,
            tuple(sorted(cluster.isr)),
            (1, 2, 3),
            leader=cluster.leader,
            partition_epoch=cluster.version,
        )
        if cluster.leader == self.number:
            replicas.lead(known, CONFIG)
        else:
            replicas.follow(known, CONFIG)
        self.partition = replicas.hosted.get((TOPIC, 0))

    # The tiered partition.

    def local(self, log: PartitionLog) -> LocalLog:
        segments = log.segments
        return LocalLog(
            log.leader_epochs,
            [
                LocalSegment(
                    each.base_offset,
                    segments.end_of(number),
                    max(0, each.max_timestamp),
                    each.size_bytes,
                )
                for number, each in enumerate(segments)
            ],
            log.log_start_offset,
            log.high_watermark,
            log.last_stable_offset,
        )

    def _cut(self, log: PartitionLog, runtime: Runtime) -> None:
        """Local segments that are remote go, now and then."""
        if self.cluster.random.random() < 0.3 and log.state.is_history_known:
            keeps = Retention(-1, self.cluster.local_bytes)
            offset = local_start(self.cluster.store.remote, self.local(log), keeps, 0)
            if log.local_log_start_offset < offset <= log.high_watermark:
                log.retention.raise_local_start(offset)
                self.cluster.note("cut", self.number, offset)
            log.delete_old_segments(runtime.clock.wall_ms())

    async def _lead(self, partition: Partition, replicas: Replicas, runtime: Runtime) -> None:
        cluster, log = self.cluster, partition.log
        if self._led_epoch != partition.leader_epoch:
            self._led_epoch = partition.leader_epoch
            found = first_offset(cluster.store.remote, self.local(log))
            log.increment_log_start_offset(min(found, log.high_watermark))
        for producer in cluster.producers:
            producer.work(partition, runtime.clock.wall_ms())
        if cluster.random.random() < 0.2:
            log.rolling.roll(runtime.clock.wall_ms())
        if cluster.random.random() < 0.5:
            self._copy(log)
        if cluster.random.random() < 0.02 and log.high_watermark > log.log_start_offset:
            offset = cluster.random.randint(log.log_start_offset, log.high_watermark)
            cluster.delete_records(partition.delete_records(offset))
            await replicas.log_starts_durable([partition])
        if partition.is_leader and partition.leader_epoch == cluster.epoch:
            self._expire(partition)

    def _copy(self, log: PartitionLog) -> None:
        cluster = self.cluster
        local = next_copy(cluster.store.remote, self.local(log), CopyLag(), 0)
        if local is None:
            return
        producers = producers_section(log, local.end_offset)
        if producers is None:
            cluster.note("a segment without producers", self.number)
            return
        segment = log.segments[log.segments.index_of(local.start_offset)]
        data = segment.log_file.file.read_at(0, segment.size_bytes)
        origin = SegmentOrigin(TOPIC, TOPIC_ID, 0, self.number)
        begun = begin_copy(origin, local, log.leader_epochs, cluster.random.randbytes(16), 0)
        epochs = epochs_section(log.leader_epochs, local.end_offset)
        cluster.store.copy(begun, Stored(data, epochs, producers))
        cluster.note("copied", local.start_offset, local.end_offset)

    def _expire(self, partition: Partition) -> None:
        log = partition.log
        low_watermark = partition.leadership.low_watermark(log.log_start_offset)
        leadership = TierLeadership(partition.leader_epoch, low_watermark)
        for segment, _ in deletions(self.cluster.store.remote, self.local(log), leadership):
            self.cluster.note("deleted", segment.start_offset, segment.end_offset)
            self.cluster.store.delete(segment)

    # What a leader answers.

    def answer(self, request: Any) -> Any:
        if isinstance(request, FetchRequest):
            (asked,) = [each for topic in request.topics for each in topic.partitions]
            row = self._guarded(
                lambda: self._fetched(asked, request.replica_state.replica_id),
                lambda code: _data(0, code),
            )
            topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[row])
            return FetchResponse(session_id=0, responses=[topic])
        (wanted,) = [each for topic in request.topics for each in topic.partitions]
        if isinstance(request, ListOffsetsRequest):
            found = self._guarded(
                lambda: self._offset(wanted),
                lambda code: ListOffsetsPartitionResponse(partition_index=0, error_code=code),
            )
            answer = ListOffsetsTopicResponse(name=TOPIC, partitions=[found])
            return ListOffsetsResponse(topics=[answer])
        assert isinstance(request, OffsetForLeaderEpochRequest)
        end = self._guarded(
            lambda: self._epoch_end(wanted),
            lambda code: EndOfEpoch(partition=0, error_code=code),
        )
        return OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic=TOPIC, partitions=[end])]
        )

    def _guarded(self, serve: Any, refuse: Any) -> Any:
        try:
            return serve()
        except KafkaError as error:
            return refuse(error.code)

    def _led(self, current_leader_epoch: int) -> Partition:
        if self.partition is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.partition.check_epoch(current_leader_epoch)
        return self.partition

    def _fetched(self, asked: FetchPartition, replica_id: int) -> PartitionData:
        partition = self._led(asked.current_leader_epoch)
        offset, offsets = asked.fetch_offset, partition.offsets
        if asked.last_fetched_epoch >= 0:
            epoch, end = partition.epoch_end(asked.last_fetched_epoch)
            if epoch < 0 or offset < offsets.log_start_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if epoch < asked.last_fetched_epoch or end < offset:
                data = _data(0)
                data.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end)
                return data
        if offsets.log_start_offset <= offset < offsets.local_log_start_offset:
            self.cluster.note("moved", replica_id, offset)
            raise KafkaError(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)
        records = partition.log.read(offset, asked.partition_max_bytes).read()
        candidate = partition.on_fetch(replica_id, offset, asked.log_start_offset, 0, 0)
        if candidate is not None:
            self.cluster.join(partition, candidate)
        data = _data(offsets.high_watermark)
        data.log_start_offset, data.records = offsets.log_start_offset, records
        return data

    def _offset(self, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        partition = self._led(asked.current_leader_epoch)
        log = partition.log
        if asked.timestamp == EARLIEST_PENDING_UPLOAD:
            offset = copied_end(self.cluster.store.remote, self.local(log))
            offset = offset if self.part.is_ready else -1
        else:
            upper = log.log_end_offset if asked.timestamp == LATEST else None
            found = partition.look_up(asked.timestamp, upper)
            assert isinstance(found, OffsetAt)
            offset = found.offset
        epoch = log.leader_epochs.epoch_for_offset(offset)
        if epoch is None or offset == log.log_end_offset:
            epoch = partition.leader_epoch
        return ListOffsetsPartitionResponse(
            partition_index=0, error_code=0, timestamp=-1, offset=offset, leader_epoch=epoch
        )

    def _epoch_end(self, asked: Any) -> EndOfEpoch:
        epoch, end = self._led(asked.current_leader_epoch).epoch_end(asked.leader_epoch)
        return EndOfEpoch(partition=0, error_code=0, leader_epoch=epoch, end_offset=end)


def _data(high_watermark: int, error_code: int = 0) -> PartitionData:
    return PartitionData(
        partition_index=0,
        error_code=error_code,
        high_watermark=high_watermark,
        aborted_transactions=None,
        records=b"",
    )


class CalledPeers:
    """The connections of a node: a request is a call, some time later, if the other is up."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def request(self, to: int, request: Any, answer: Any, **_: object) -> Any:
        random = self._cluster.random
        await rest(random.choice((0.001, 0.003, 0.02)))
        other = self._cluster.members[to]
        if other.partition is None or random.random() < 0.02:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        found = other.answer(request)
        assert isinstance(found, answer)
        has_news = any(
            each.records or each.error_code or each.diverging_epoch.epoch >= 0
            for topic in (found.responses if isinstance(found, FetchResponse) else ())
            for each in topic.partitions
        )
        is_waited_for = isinstance(found, FetchResponse) and not has_news
        await rest(0.05 if is_waited_for else random.choice((0.001, 0.003)))
        return found
