"""A consumer whose offsets are committed by a producer, in its transactions. No IO.

Invariants: what was returned since the last commit is in the next one, or is read again (`rewind`).
If the group takes a partition away in between, others may read the same records: the transaction
must not commit. Auto commit is off: it would commit records whose results may be aborted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.coordinator import GroupMetadata
from moldau.client.base.user_code import LOG
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.metadata import TopicPartition

if TYPE_CHECKING:
    from moldau.client.consumer.consumer_core import ConsumerCore
    from moldau.client.consumer.fetcher import Fetcher
    from moldau.client.consumer.membership import ConsumerGroup


def in_transactions(fetcher: Fetcher, group: ConsumerGroup) -> TransactionalProgress:
    """Leave the commits to a producer's transactions, from the first call on."""
    core = fetcher.core
    if core.transactional is None:
        core.transactional = TransactionalProgress(fetcher, group)
        if not core.policy.is_committed:
            LOG.warning(
                "consumer: it reads for transactions, and also what others abort: give it "
                "isolation_level='read_committed'"
            )
    return core.transactional


def metadata_of_given(core: ConsumerCore, group: ConsumerGroup) -> GroupMetadata:
    """Return the member's identity in its group, with the ids of the topics whose records the user
    was given."""
    return _with_ids(group, core.given_ids({**core.taken_away, **core.positions}))


def _with_ids(group: ConsumerGroup, ids: Mapping[TopicPartition, Uuid]) -> GroupMetadata:
    known = {where: each for where, each in ids.items() if each != ZERO_UUID}
    return group.metadata._replace(topic_ids=known or None)


class TransactionalProgress:
    """How far one consumer has read, and how far its transactions have committed that."""

    def __init__(self, fetcher: Fetcher, group: ConsumerGroup) -> None:
        """Raise KafkaError if records were returned already that auto commit may commit."""
        self._fetcher = fetcher
        self._core = fetcher.core
        self._group = group
        self._committed: dict[TopicPartition, tuple[Uuid, OffsetAndMetadata]] = {}
        """What a transaction has committed last, and the id of its topic: a new topic of that name
        begins anew."""
        self._lost = set[TopicPartition]()
        self.is_open = False
        """Whether a transaction is open that sends the offsets of this consumer."""
        if group.commits.by_itself and self.uncommitted():
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "the consumer commits by itself, and has returned records before the first "
                "transaction: make it with enable_auto_commit=False",
                setting="enable.auto.commit",
            )
        group.commits.by_itself = False

    def metadata(self, offsets: Collection[TopicPartition]) -> GroupMetadata:
        """Return the member's identity in its group, for `uncommitted` offsets of these partitions,
        with the ids of their topics."""
        return _with_ids(self._group, self._core.topic_ids(offsets))

    def on_taken(self, partitions: Collection[TopicPartition]) -> None:
        """The consumer reads these partitions no more."""
        self._lost |= self.uncommitted().keys() & partitions
        for where in partitions:
            self._committed.pop(where, None)

    def check_may_commit(self) -> None:
        """Raise KafkaError in a transaction: a commit of the consumer's own would count even if the
        transaction is aborted, and the records would never be read again."""
        if self.is_open:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "the transaction that this consumer reads for commits its offsets: leave the "
                "consumer's own commit out",
                group=self._group.metadata.group_id,
            )

    def uncommitted(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets after all returned records, of partitions where that is news."""
        return {
            where: each
            for where, each in self._core.progress.consumed().items()
            if each.offset != self._base(where).offset
        }

    def _base(self, where: TopicPartition) -> OffsetAndMetadata:
        """Return the last committed offset, or else where reading began."""
        position = self._core.require(where)
        topic_id, found = self._committed.get(where, (ZERO_UUID, None))
        is_same = topic_id == position.topic_id or ZERO_UUID in (topic_id, position.topic_id)
        if found is not None and is_same:
            return found
        return OffsetAndMetadata(position.began_at, "", position.began_at_epoch)

    def check(self) -> None:
        """Raise KafkaError if what was returned may be others' by now."""
        lost = sorted(self._lost)
        is_out = self._group.has_member and not self._group.member_id
        if lost or (is_out and self.uncommitted()):
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION,
                "the group has given partitions to another member since their records were read",
                group=self._group.metadata.group_id,
                partitions=[str(each) for each in lost],
            )

    def committed(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata
    ) -> None:
        """Note offsets that a transaction has committed, for `metadata`."""
        ids = group.topic_ids or {}
        for where, each in offsets.items():
            if where in self._core.positions:
                self._committed[where] = (ids.get(where, ZERO_UUID), each)

    def rewind(self) -> None:
        """Read again all that was returned and not committed."""
        self._lost.clear()
        bases = {where: self._base(where) for where in self.uncommitted()}
        known = {where: each for where, each in bases.items() if each.offset >= 0}
        self._fetcher.seek(
            {where: (each.offset, each.leader_epoch) for where, each in known.items()}
        )
