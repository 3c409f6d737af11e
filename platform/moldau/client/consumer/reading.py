"""What a consumer reads and how far, as its user and its group change it. No IO but look-ups.

Invariants: what auto commit covers (`done`) ends before the record, part or poll at hand, and is
never less than a commit that the user has begun. A partition that is no longer read leaves neither
fetched records nor commits behind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.offsets import FoundOffset, found_or_end, list_offsets
from moldau.client.base.user_code import LOG
from moldau.client.consumer.assignment import NO_IDS
from moldau.client.consumer.fetcher import Fetcher
from moldau.client.consumer.metrics import ConsumerMetrics
from moldau.client.consumer.positions import Positions
from moldau.client.consumer.transactional import TransactionalReading
from moldau.client.group.member import Change
from moldau.client.group.missing import MissingTopics, unheard_of
from moldau.client.group.subscription import Interest
from moldau.config import Settings
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.link.cluster import Cluster
from moldau.link.metadata import TopicPartition

if TYPE_CHECKING:
    import asyncio

    from moldau.client.consumer.membership import ConsumerGroup

_NEVER: Final = (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


class Reading:
    """The partitions of one consumer, and the records that were taken from them."""

    def __init__(
        self,
        cluster: Cluster,
        positions: Positions,
        settings: Settings,
        metrics: ConsumerMetrics,
        missing: MissingTopics,
        group_of: Callable[[Reading], ConsumerGroup] | None,
    ) -> None:
        """`group_of` makes the consumer's part in its group, if it has one."""
        self.positions = positions
        self.assignment = positions.assignment
        self.out = positions.out
        self.metrics = metrics
        self.group = None if group_of is None else group_of(self)
        self.fetcher = Fetcher(cluster, positions, settings, metrics, self.group)
        self.interest = Interest()
        self.has_interest = False
        """Whether anything is subscribed or assigned."""
        self.refusal: KafkaError | None = None
        """Why a subscribed topic can never be read; the next poll raises it."""
        self.asked_by: asyncio.Task[object] | None = None
        """The task that last asked for records."""
        self._failed: asyncio.Task[object] | None = None
        """The task that failed last, as was logged."""
        self.transactional: TransactionalReading | None = None
        """If set, a producer commits what is read, in its transactions."""
        self._cluster = cluster
        self._missing = missing
        self._given_last: object = None
        self._lacked_since: dict[str, int] = {}
        """The topics that metadata lack, with the number of the update that first lacked them."""
        self._begun: dict[TopicPartition, int] = {}
        self._stored: dict[TopicPartition, int] = {}
        """`_begun` and `_stored`: the offset of each partition's last commit, begun and not failed,
        or stored. Auto commit never goes back before either."""

    # Which partitions

    @property
    def partitions(self) -> list[TopicPartition]:
        return [each.where for each in self.assignment]

    def follow(self, interest: Interest) -> None:
        """Replace the subscription or manual assignment."""
        self.interest, self.has_interest = interest, bool(interest)
        if self.refusal is not None and self.refusal.context["topic"] not in interest.names:
            self.refusal = None
        self.assignment.begin()
        self._cluster.watches_all = interest.pattern is not None
        self._cluster.follows_pattern = interest.is_pattern

    def read(
        self,
        wanted: Sequence[TopicPartition],
        *,
        from_committed: bool,
        ids: Mapping[TopicPartition, Uuid] = NO_IDS,
    ) -> None:
        """Read these partitions and no others."""
        before = {each.where for each in self.assignment}
        if self.transactional is not None:
            self.transactional.on_taken(before.difference(wanted))
        topics = {where.topic for where in wanted} | self.interest.names
        self.assignment.assign(wanted, from_committed=from_committed, ids=ids)
        self.check_topics()
        self._drop(before.difference(wanted))
        self._cluster.unwatch({where.topic for where in before} - topics)
        self._cluster.watch(topics)
        if topics - self._cluster.metadata.topics.keys():
            self._cluster.request_refresh()
        self.fetcher.soon()

    def read_subscribed(self) -> None:
        """Without a group: also read what is new. A topic may be missing from one answer; one of a
        pattern that two in a row do not have is given up, as it was deleted."""
        metadata, interest = self._cluster.metadata, self.interest
        now, before = metadata.updates, self._lacked_since
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        lacked = [name for name, code in metadata.refused.items() if code is unknown]
        self._lacked_since = {name: before.get(name, now) for name in lacked}
        gone = {name for name in lacked if self._lacked_since[name] < now} - interest.names
        topics = [metadata.topics.get(name) for name in sorted(interest.wanted(metadata).topics)]
        known = [TopicPartition(t.name, each.index) for t in topics if t for each in t.partitions]
        left = {where.topic for where in self.partitions if interest.includes(where.topic)} - gone
        kept = [where for where in self.partitions if where.topic in left]
        if set(wanted := dict.fromkeys([*kept, *known])) != set(self.partitions):
            self.read(list(wanted), from_committed=False)

    def check_topics(self) -> None:
        """Drop what was fetched of topics that were replaced by others of their names."""
        self._drop(self.assignment.check_topics(self._cluster.metadata))

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        self.out.drop(partitions)
        for where in partitions:
            self._begun.pop(where, None)
            self._stored.pop(where, None)

    def hear_of_names(self, group_id: str | None, now: float) -> list[MoldauError]:
        """Apply new metadata. Keep a topic's final error; return log entries for missing topics."""
        refused = self._cluster.metadata.refused
        for name in sorted(self.interest.names):
            code = refused.get(name)
            if code in _NEVER:
                self.refusal = KafkaError(code, topic=name, group=group_id)
                self.fetcher.news.set()
        return self._missing.on_metadata(self.interest.names, self._cluster.metadata, now)

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Uuid]:
        """Return the ids of the topics that these partitions are read from."""
        return self.assignment.topic_ids(partitions, self._cluster.metadata)

    def given_ids(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Uuid]:
        """Return the topic ids for offsets that the user names: those of the topics that the last
        returned records are from."""
        wanted = list(partitions)
        return {**self.topic_ids(wanted), **self.assignment.given_ids(wanted)}

    def in_transactions(self, group: ConsumerGroup) -> TransactionalReading:
        """Leave the commits to a producer's transactions, from the first call on."""
        if self.transactional is None:
            self.transactional = TransactionalReading(self, group)
            if not self.fetcher.is_committed_only:
                LOG.warning(
                    "consumer: it reads for transactions, and also what others abort: give it "
                    "isolation_level='read_committed'"
                )
        return self.transactional

    # Where

    def seek(self, where: TopicPartition, offset: int, leader_epoch: int) -> None:
        self.assignment.require(where).sought(offset, leader_epoch)
        self._drop([where])
        self.fetcher.soon()

    async def seek_by(self, wanted: dict[TopicPartition, int]) -> None:
        """Seek by these timestamps or ends of logs: in all partitions or in none."""
        for where in wanted:
            self.assignment.require(where)
        found = await found_or_end(self.offsets, wanted)
        for position in [self.assignment.require(where) for where in wanted]:
            answer = found[position.where]
            position.sought(answer.offset, answer.leader_epoch)
        self._drop(wanted)
        self.fetcher.soon()

    async def offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FoundOffset]:
        return await list_offsets(
            self._cluster, wanted, is_committed=self.fetcher.is_committed_only
        )

    def pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        self.assignment.pause(partitions, is_paused=is_paused)
        if not is_paused:
            self.wake()
            self.fetcher.soon()

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        unheard = unheard_of(self.interest.names, self._cluster.metadata, self._cluster.blind_for)
        return self.positions.troubles() | self._missing.troubles | unheard

    # How far

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what `commit` stores now: the offsets after all returned records."""
        return self._ahead_of(self.out.consumed())

    def done(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what auto commit stores at an interval: the offsets before what is at hand."""
        offsets = self._ahead_of(self.out.done())
        return {
            where: each
            for where, each in offsets.items()
            if each.offset >= max(self._begun.get(where, -1), self._stored.get(where, -1))
        }

    def let_go(self, by: asyncio.Task[Any] | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return what auto commit stores when this task gives partitions up."""
        return self.consumed() if self._is_finished(by) else self.done()

    def _is_finished(self, by: asyncio.Task[Any] | None) -> bool:
        """Whether what is at hand is processed: its task gives the partitions up itself, or has
        ended without cancellation or error. An error is logged, as asking for it keeps the event
        loop from doing that."""
        asked = self.asked_by
        if asked is None or asked is by:
            return True
        if not asked.done() or asked.cancelled():
            return False
        error = asked.exception()
        if error is not None and self._failed is not asked:
            self._failed = asked
            LOG.warning(
                "consumer: the task that has read has failed, so what it read last is not "
                "committed: %r",
                error,
            )
        return error is None

    def _ahead_of(
        self, left: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            each.where: OffsetAndMetadata(left.get(each.where, each.position), "", each.epoch)
            for each in self.assignment
            if each.position >= 0
        }

    def commit_begins(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Note a commit that begins. Offsets ahead of the position do not limit auto commit."""
        for where, each in offsets.items():
            position = self.assignment.get(where)
            if position is not None and each.offset <= position.position:
                self._begun[where] = each.offset

    def commit_ended(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        left: Collection[TopicPartition],
        *,
        was_cut_off: bool,
    ) -> None:
        """Note which offsets are stored: all but those in `left`. If the commit was cancelled
        (`was_cut_off`), those may be stored too."""
        for where, each in offsets.items():
            if where not in left and where in self._begun:
                self._stored[where] = each.offset
            elif not was_cut_off and self._begun.get(where) == each.offset:
                del self._begun[where]

    # For the group: `moldau.client.group.consumer_session.Reader`

    def take_over(self, change: Change) -> None:
        """Read what the change says from now on, unless partitions were assigned manually since."""
        if not self.interest.is_by_hand:
            self.read(change.owned, from_committed=True, ids=change.ids)

    def change_begins(self) -> None:
        self.out.withhold()

    def wake(self) -> None:
        self.fetcher.news.set()

    def need_poll(self) -> None:
        self.out.need_poll()
        self.wake()

    def has_gone_on(self) -> bool:
        before, self._given_last = self._given_last, self.out.given_last
        return self._given_last is not None and self._given_last is not before

    def may_look_up(self) -> None:
        self.fetcher.may_look_up()

    def rebalanced(self, seconds: float, *, has_failed: bool) -> None:
        self.metrics.rebalanced(seconds, has_failed=has_failed)
