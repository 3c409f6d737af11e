"""`Consumer`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from moldau.client.base.arguments import ByPartition, OffsetAndMetadata, PartitionGiven
from moldau.client.base.blocking import BlockingClient
from moldau.client.base.coordinator import GroupMetadata
from moldau.client.base.offsets import FoundOffset
from moldau.client.consumer.consumer import Consumer as AsyncConsumer
from moldau.client.consumer.consumer import Partitions
from moldau.errors.codes import KafkaError
from moldau.ids import Uuid
from moldau.link.metadata import Topic, TopicPartition
from moldau.metrics import Registry


class ConsumerCalls(BlockingClient):
    """Each hands its call to the loop and waits for the answer."""

    _client: AsyncConsumer

    @property
    def subscription(self) -> frozenset[str]:
        """The subscribed topics: those given by name, or the known ones that match the pattern."""
        return self._run(lambda: self._client.subscription)

    def assign(self, partitions: Partitions) -> None:
        """Read these partitions and no others, without sharing them in a group. New ones start at
        the committed offset if there is a `group.id`, else where `auto.offset.reset` says. Records
        returned from partitions assigned before count as processed for auto commit."""
        self._run(lambda: self._client.assign(partitions))

    def partitions(self, *topics: str, timeout_s: float | None = None) -> list[TopicPartition]:
        """Return all partitions of these topics. A topic may be new, so an unknown one is retried
        for `timeout_s` (default `default.api.timeout.ms`), then KafkaError is raised."""
        return self._call(self._client.partitions(*topics, timeout_s=timeout_s))

    def list_topics(self, *, internal: bool = False, timeout_s: float | None = None) -> list[Topic]:
        """Return all topics that this client may see, sorted by name, with their partitions. The
        brokers' internal topics are included only with `internal`."""
        return self._call(self._client.list_topics(internal=internal, timeout_s=timeout_s))

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer reads."""
        return self._run(lambda: self._client.assignment)

    def topic_ids(self, partitions: Partitions) -> dict[TopicPartition, Uuid]:
        """Return the id of the topic that each partition is read from, or ZERO_UUID if it is
        unknown. The id stays the same when another topic takes over the name."""
        return self._run(lambda: self._client.topic_ids(partitions))

    def seek(self, partition: PartitionGiven, offset: int, *, leader_epoch: int = -1) -> None:
        """Continue reading the partition at `offset`, or at the first record after it. With the
        `leader_epoch` of the record before it, the consumer can detect a truncated log."""
        self._run(lambda: self._client.seek(partition, offset, leader_epoch=leader_epoch))

    def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        """Seek to the first record of these partitions, or of all assigned ones."""
        self._call(self._client.seek_to_beginning(partitions))

    def seek_to_end(self, partitions: Partitions | None = None) -> None:
        """Seek to the end of these partitions, or of all assigned ones."""
        self._call(self._client.seek_to_end(partitions))

    def seek_to_time(
        self, timestamp_ms: int | datetime | timedelta | str, partitions: Partitions | None = None
    ) -> None:
        """Seek to the first record at or after a time, or to the end if there is none. The time is
        milliseconds since 1970, a datetime with a zone, `timedelta(hours=-1)` from now, or text
        such as "-1h" or "2026-11-20T12:00:00Z"."""
        self._call(self._client.seek_to_time(timestamp_ms, partitions))

    def offsets(self, wanted: ByPartition[int]) -> dict[TopicPartition, FoundOffset]:
        """Return the first offset at or after each timestamp (ms). Special timestamps such as
        `offsets.EARLIEST` mean an end of the log. The offset is -1 if no record is that new."""
        return self._call(self._client.offsets(wanted))

    def offsets_for_times(
        self, wanted: ByPartition[int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """Return each partition's first offset at or after its timestamp (ms), None if there is
        none."""
        return self._call(self._client.offsets_for_times(wanted))

    def beginning_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Return the first offset of each partition's log."""
        return self._call(self._client.beginning_offsets(partitions))

    def end_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Return the end of each partition's log: the offset of the next record. With
        read_committed it is the offset where the first open transaction begins."""
        return self._call(self._client.end_offsets(partitions))

    def position(self, partition: PartitionGiven) -> int | None:
        """Return the offset of the next record that a poll returns; None while it is unknown."""
        return self._run(lambda: self._client.position(partition))

    def lag(self, partition: PartitionGiven) -> int | None:
        """Return how many offsets the position is before the end as of the last fetch; None before
        that. With read_committed the end is where the first open transaction begins."""
        return self._run(lambda: self._client.lag(partition))

    def pause(self, partitions: Partitions | None = None) -> None:
        """Stop returning and fetching records of these partitions; fetched records are kept. An
        `async for` in the middle of such a partition continues with another one. Parts that
        `batches` or `poll` returned earlier are not affected."""
        self._run(lambda: self._client.pause(partitions))

    def resume(self, partitions: Partitions | None = None) -> None:
        """Undo `pause` for these partitions, or for all assigned ones."""
        self._run(lambda: self._client.resume(partitions))

    @property
    def paused(self) -> list[TopicPartition]:
        """The paused partitions."""
        return self._run(lambda: self._client.paused)

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        """Return why partitions cannot be read at present: their brokers' last errors, or why
        brokers cannot be reached. The consumer keeps retrying; empty if all is well. A subscribed
        topic that does not exist, or of which no metadata arrive, is under partition -1."""
        return self._run(lambda: self._client.troubles())

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return Kafka's consumer metrics by group and name:
        `metrics()["consumer-fetch-manager-metrics"]["records-lag-max"]`."""
        return self._run(lambda: self._client.metrics())

    @property
    def registry(self) -> Registry:
        """The same metrics for exporters (`moldau.metrics.render_prometheus`)."""
        return self._run(lambda: self._client.registry)

    def committed(
        self, partitions: Partitions | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets of these partitions, or of all assigned ones; None
        where nothing is committed."""
        return self._call(self._client.committed(partitions, timeout_s=timeout_s))

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that `commit` would store now."""
        return self._run(lambda: self._client.consumed())

    def group_metadata(self) -> GroupMetadata:
        """Return this member's identity in its group, for a transactional producer."""
        return self._run(lambda: self._client.group_metadata())

    def enforce_rebalance(self, reason: str = "the application asked for it") -> bool:
        """Ask the group to rebalance, during the next polls. The coordinator gets the start of
        `reason`. Return False with group.protocol=consumer: only the coordinator decides."""
        return self._run(lambda: self._client.enforce_rebalance(reason))

    @property
    def member_id(self) -> str:
        """This consumer's member id in its group; empty while it is not a member."""
        return self._run(lambda: self._client.member_id)
