"""`Consumer`'s calls that wait, made from the asyncio client (tests/client/sync).

`python -m tests.client.sync.twins` makes this module anew.
"""

from __future__ import annotations

from moldau.client.consumer.consumer import Consumer as AsyncConsumer
from moldau.client.consumer.consumer import Partitions
from moldau.client.consumer.offsets import FoundOffset
from moldau.client.group.member import GroupMetadata
from moldau.client.settings.arguments import ByPartition, OffsetAndMetadata, PartitionGiven
from moldau.client.sync.client import BlockingClient
from moldau.errors.codes import KafkaError
from moldau.ids import Uuid
from moldau.link.metadata import Topic, TopicPartition
from moldau.metrics import Registry


class ConsumerCalls(BlockingClient):
    """Each hands its call to the loop and waits for the answer."""

    _client: AsyncConsumer

    @property
    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to by name, or that match the pattern as known here."""
        return self._run(lambda: self._client.subscription)

    def assign(self, partitions: Partitions) -> None:
        """Read these partitions and no others, without sharing them. New ones begin where the group
        has committed, if there is a `group.id`, else where `auto.offset.reset` says. Records given
        of those assigned before count as done: auto commit covers them."""
        self._run(lambda: self._client.assign(partitions))

    def partitions(self, *topics: str, timeout_s: float | None = None) -> list[TopicPartition]:
        """All partitions of these topics; KafkaError for one that the cluster does not know, after
        `default.api.timeout.ms` if it is not told otherwise, as topics may be on their way."""
        return self._call(self._client.partitions(*topics, timeout_s=timeout_s))

    def list_topics(self, *, internal: bool = False, timeout_s: float | None = None) -> list[Topic]:
        """All topics that this client may see, by name, with their partitions; those that brokers
        keep for themselves only if asked for."""
        return self._call(self._client.list_topics(internal=internal, timeout_s=timeout_s))

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return self._run(lambda: self._client.assignment)

    def topic_ids(self, partitions: Partitions) -> dict[TopicPartition, Uuid]:
        """Of which topics these are: of those that are read, also when others have taken their
        names since. ZERO_UUID where it is unknown."""
        return self._run(lambda: self._client.topic_ids(partitions))

    def seek(self, partition: PartitionGiven, offset: int, *, leader_epoch: int = -1) -> None:
        """Go on reading the partition at `offset`, or at the first record behind it.
        `leader_epoch` of the record before it, if known, lets a truncation be noticed."""
        self._run(lambda: self._client.seek(partition, offset, leader_epoch=leader_epoch))

    def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        """Goes to the first record of these partitions, or of all that are assigned."""
        self._call(self._client.seek_to_beginning(partitions))

    def seek_to_end(self, partitions: Partitions | None = None) -> None:
        """Goes behind the last record of these partitions, or of all that are assigned."""
        self._call(self._client.seek_to_end(partitions))

    def seek_to_time(self, timestamp_ms: int, partitions: Partitions | None = None) -> None:
        """Goes to the first record that is not older; to the end where there is none."""
        self._call(self._client.seek_to_time(timestamp_ms, partitions))

    def offsets(self, wanted: ByPartition[int]) -> dict[TopicPartition, FoundOffset]:
        """The offsets by timestamp (ms), or of the ends of the log: `offsets.EARLIEST` and its
        like. Offset -1 where no record is as new."""
        return self._call(self._client.offsets(wanted))

    def offsets_for_times(
        self, wanted: ByPartition[int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first offset of each partition that is not older than its timestamp in ms; None where
        nothing is as new."""
        return self._call(self._client.offsets_for_times(wanted))

    def beginning_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Where the logs begin."""
        return self._call(self._client.beginning_offsets(partitions))

    def end_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Where the logs end: the offset of the next record; with read_committed that of the first
        transaction that is open."""
        return self._call(self._client.end_offsets(partitions))

    def position(self, partition: PartitionGiven) -> int | None:
        """The offset of the next record that a poll will give; None while it is not known."""
        return self._run(lambda: self._client.position(partition))

    def lag(self, partition: PartitionGiven) -> int | None:
        """How many offsets lie between what was given out and the end as of the last fetch; None
        before the first one. With read_committed the end is where the first open transaction
        begins."""
        return self._run(lambda: self._client.lag(partition))

    def pause(self, partitions: Partitions | None = None) -> None:
        """Gives nothing of these partitions and fetches no more of them; what is there is kept. An
        `async for` that is in the midst of such a partition goes on with another; a part or a list
        of them that `batches` or `poll` gave before is in the user's hands."""
        self._run(lambda: self._client.pause(partitions))

    def resume(self, partitions: Partitions | None = None) -> None:
        """Takes `pause` back."""
        self._run(lambda: self._client.resume(partitions))

    @property
    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        return self._run(lambda: self._client.paused)

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        """What keeps partitions from being read at present: what their brokers answered last, or
        why these cannot be reached. It is tried on; empty when all goes well. A topic that is
        subscribed to and that there is not, or of which nothing is heard, is under the partition
        -1."""
        return self._run(lambda: self._client.troubles())

    def metrics(self) -> dict[str, dict[str, float]]:
        """Kafka's metrics of a consumer, by group and name:
        `metrics()["consumer-fetch-manager-metrics"]["records-lag-max"]`."""
        return self._run(lambda: self._client.metrics())

    @property
    def registry(self) -> Registry:
        """The same for exporters (`moldau.metrics.render_prometheus`)."""
        return self._run(lambda: self._client.registry)

    def committed(
        self, partitions: Partitions | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed of these partitions, or of all that are assigned; None where
        nothing is."""
        return self._call(self._client.committed(partitions, timeout_s=timeout_s))

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What `commit` would store now."""
        return self._run(lambda: self._client.consumed())

    def group_metadata(self) -> GroupMetadata:
        """This member's identity in its group, for a transactional producer."""
        return self._run(lambda: self._client.group_metadata())

    def enforce_rebalance(self, reason: str = "the application asked for it") -> bool:
        """Makes the group share its partitions anew, from the next polls on; the coordinator hears
        the beginning of the reason. False with group.protocol=consumer, where only the coordinator
        decides about that."""
        return self._run(lambda: self._client.enforce_rebalance(reason))

    @property
    def member_id(self) -> str:
        """Under which id this is a member of its group; empty while it is none."""
        return self._run(lambda: self._client.member_id)
