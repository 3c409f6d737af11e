"""Where a consumer reads: seeking, pausing, and asking for offsets. A part of `Consumer`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from moldau.client.consumer.fetcher import Fetcher
from moldau.client.consumer.metrics import ConsumerMetrics, Lag
from moldau.client.consumer.offsets import (
    EARLIEST,
    LATEST,
    FoundOffset,
    list_offsets,
    partitions_of,
)
from moldau.client.consumer.position import Position
from moldau.client.consumer.positions import Positions
from moldau.client.consumer.taken import RecordsOut
from moldau.client.group.missing import MissingTopics, unheard_of
from moldau.client.group.subscription import Interest
from moldau.client.settings.arguments import (
    ByPartition,
    Partition,
    by_partition,
    flag,
    leader_epoch_of,
    names_of,
    offset_of,
    partition_of,
    partitions_in,
    since_1970,
    timestamp_of,
)
from moldau.client.settings.opening import comes_with_start
from moldau.errors.codes import KafkaError
from moldau.ids import Uuid
from moldau.link.arguments import seconds_at_most
from moldau.link.cluster import Cluster
from moldau.link.metadata import Metadata, Topic, TopicPartition
from moldau.metrics import Registry
from moldau.protocol.messages.metadata import MetadataRequest, MetadataResponse

Partitions = Iterable[Partition]


class ConsumerPositions:
    """What the user can say and ask of positions."""

    _cluster: Cluster = comes_with_start("consumer")
    _fetcher: Fetcher = comes_with_start("consumer")
    _positions: Positions = comes_with_start("consumer")
    _metrics: ConsumerMetrics = comes_with_start("consumer")
    _out: RecordsOut
    _missing: MissingTopics
    _interest: Interest

    _check_open: Callable[[], None]
    _drop: Callable[[Collection[TopicPartition]], None]
    _position_is_wanted: Callable[[TopicPartition], None]

    async def partitions(
        self, *topics: str, timeout_s: float | None = None
    ) -> list[TopicPartition]:
        """All partitions of these topics; KafkaError for one that the cluster does not know, after
        `default.api.timeout.ms` if it is not told otherwise, as topics may be on their way."""
        self._check_open()
        names, timeout_s = names_of(topics, "topic"), seconds_at_most(timeout_s, "timeout_s")
        return await partitions_of(self._cluster, names, timeout_s=timeout_s)

    async def list_topics(
        self, *, internal: bool = False, timeout_s: float | None = None
    ) -> list[Topic]:
        """All topics that this client may see, by name, with their partitions; those that brokers
        keep for themselves only if asked for."""
        flag(internal, "internal")

        async def ask() -> MetadataResponse:
            request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
            return await self._cluster.call(request, MetadataResponse)

        found = Metadata()
        found.update(await self._cluster.retry(ask, timeout_s=timeout_s))
        topics = sorted(found.topics.values(), key=lambda each: each.name)
        return [each for each in topics if internal or not each.is_internal]

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""
        return [each.where for each in self._positions.assignment]

    def topic_ids(self, partitions: Partitions) -> dict[TopicPartition, Uuid]:
        """Of which topics these are: of those that are read, also when others have taken their
        names since. ZERO_UUID where nobody knows."""
        return self._positions.assignment.topic_ids(
            partitions_in(partitions), self._cluster.metadata
        )

    # Seeking

    def seek(self, partition: Partition, offset: int, *, leader_epoch: int = -1) -> None:
        """Go on reading the partition at `offset`, or at the first record behind it.
        `leader_epoch` of the record before it, if known, lets a truncation be noticed."""
        self._check_open()
        where = partition_of(partition)
        facts = {"topic": where.topic, "partition": where.partition}
        offset, leader_epoch = offset_of(offset, facts), leader_epoch_of(leader_epoch, facts)
        self._positions.assignment.require(where).sought(offset, leader_epoch)
        self._drop([where])
        self._fetcher.soon()

    async def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        """Goes to the first record of these partitions, or of all that are assigned."""
        await self._seek_by(dict.fromkeys(self._chosen(partitions), EARLIEST))

    async def seek_to_end(self, partitions: Partitions | None = None) -> None:
        """Goes behind the last record of these partitions, or of all that are assigned."""
        await self._seek_by(dict.fromkeys(self._chosen(partitions), LATEST))

    async def seek_to_time(self, timestamp_ms: int, partitions: Partitions | None = None) -> None:
        """Goes to the first record that is not older; to the end where there is none."""
        timestamp_ms = since_1970(timestamp_ms, "timestamp_ms")
        await self._seek_by(dict.fromkeys(self._chosen(partitions), timestamp_ms))

    async def _seek_by(self, wanted: dict[TopicPartition, int]) -> None:
        for where in wanted:
            self._positions.assignment.require(where)
        found = await self._found_or_end(wanted)
        positions = [
            self._positions.assignment.require(where) for where in wanted
        ]  # all of them, or none
        for position in positions:
            answer = found[position.where]
            position.sought(answer.offset, answer.leader_epoch)
        self._drop(wanted)
        self._fetcher.soon()

    async def _found_or_end(
        self, wanted: dict[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset]:
        """By time where nothing is as new: the end, unless something came meanwhile."""
        found = await self.offsets(wanted)
        late = {where: wanted[where] for where, each in found.items() if each.offset < 0}
        if late:
            ends = await self.offsets(dict.fromkeys(late, LATEST))
            for where, each in (await self.offsets(late)).items():
                found[where] = ends[where] if each.offset < 0 else each
        return found

    # Asking

    async def offsets(self, wanted: ByPartition[int]) -> dict[TopicPartition, FoundOffset]:
        """The offsets by timestamp (ms), or of the ends of the log: `offsets.EARLIEST` and its
        like. Offset -1 where no record is as new."""
        self._check_open()
        asked = {where: timestamp_of(each, where) for where, each in by_partition(wanted).items()}
        return await list_offsets(
            self._cluster, asked, is_committed=self._fetcher.is_committed_only
        )

    async def offsets_for_times(
        self, wanted: ByPartition[int]
    ) -> dict[TopicPartition, FoundOffset | None]:
        """The first offset of each partition that is not older than its timestamp in ms; None where
        nothing is as new."""
        asked = {
            where: since_1970(each, f"the timestamp for {where}")
            for where, each in by_partition(wanted).items()
        }
        found = await self.offsets(asked)
        return {where: each if each.offset >= 0 else None for where, each in found.items()}

    async def beginning_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Where the logs begin."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Where the logs end: the offset of the next record; with read_committed that of the first
        transaction that is open."""
        return await self._ends(partitions, LATEST)

    async def _ends(self, partitions: Partitions, end: int) -> dict[TopicPartition, int]:
        found = await self.offsets(dict.fromkeys(partitions_in(partitions), end))
        return {where: each.offset for where, each in found.items()}

    def position(self, partition: Partition) -> int | None:
        """The offset of the next record that a poll will give; None while it is not known."""
        where = partition_of(partition)
        found = self._positions.assignment.require(where)
        if found.position < 0:
            self._position_is_wanted(where)
            return None
        return self._out.consumed().get(where, found.position)

    def lag(self, partition: Partition) -> int | None:
        """How many offsets lie between what was given out and the end as of the last fetch; None
        before the first one. With read_committed the end is where the first open transaction
        begins."""
        where = partition_of(partition)
        self._positions.assignment.require(where)
        return self._lags()[where].lag

    def _lags(self) -> dict[TopicPartition, Lag]:
        begun = self._out.consumed()
        found = {}
        for each in self._positions.assignment:
            given = begun.get(each.where, each.position)
            lag = lead = None
            if each.readable_end >= 0 and each.position >= 0:
                lag = max(0, each.readable_end - given)
                lead = max(0, given - each.log_start_offset)
            found[each.where] = Lag(lag, lead)
        return found

    # Pausing

    def pause(self, partitions: Partitions | None = None) -> None:
        """Gives nothing of these partitions and fetches no more of them; what is there is kept. An
        `async for` that is in the midst of such a partition goes on with another; a part or a list
        of them that `batches` or `poll` gave before is in the user's hands."""
        chosen = self._required(partitions)
        for each in chosen:
            each.is_paused = True
        self._out.pause([each.where for each in chosen])

    def resume(self, partitions: Partitions | None = None) -> None:
        """Takes `pause` back."""
        for each in self._required(partitions):
            each.is_paused = False
        self._fetcher.news.set()
        self._fetcher.soon()

    def _required(self, partitions: Partitions | None) -> list[Position]:
        self._check_open()
        return [self._positions.assignment.require(where) for where in self._chosen(partitions)]

    @property
    def paused(self) -> list[TopicPartition]:
        """The partitions that are paused."""
        return [each.where for each in self._positions.assignment if each.is_paused]

    # What is going on

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        """What keeps partitions from being read at present: what their brokers answered last, or
        why these cannot be reached. It is tried on; empty when all goes well. A topic that is
        subscribed to and that there is not, or of which nothing is heard, is under the partition
        -1."""
        cluster = self._cluster
        unheard = unheard_of(self._interest.names, cluster.metadata, cluster.blind_for)
        return self._positions.troubles() | self._missing.troubles | unheard

    def metrics(self) -> dict[str, dict[str, float]]:
        """Kafka's metrics of a consumer, by group and name:
        `metrics()["consumer-fetch-manager-metrics"]["records-lag-max"]`."""
        return self._metrics.kafka_metrics()

    @property
    def registry(self) -> Registry:
        """The same for exporters (`moldau.metrics.render_prometheus`)."""
        return self._metrics.registry

    def _chosen(self, partitions: Partitions | None) -> list[TopicPartition]:
        return self.assignment if partitions is None else partitions_in(partitions)
