"""A consumer as its group sees it: what it reads, and how far its user is. Not for users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from moldau.client.group.commit_reach import CommitReach
from moldau.client.group.member import Change
from moldau.client.group.offset_requests import OffsetAndMetadata
from moldau.ids import Uuid
from moldau.link.metadata import TopicPartition

if TYPE_CHECKING:
    from moldau.client.consumer.consumer import Consumer


class GroupsReader:
    """One consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._given_last: object = None
        self._reach = CommitReach()

    def take_over(self, change: Change) -> None:
        """From now on it reads what the change says, unless the user has assigned partitions
        himself since."""
        if not self._consumer._interest.is_by_hand:
            self._consumer._read(change.owned, change.ids)

    def change_begins(self) -> None:
        """Nothing is given out until a poll has run it."""
        self._consumer._out.withhold()

    def wake(self) -> None:
        """A poll has something to do."""
        self._consumer._fetcher.news.set()

    def need_poll(self) -> None:
        """The same, and nothing is given one by one before."""
        self._consumer._out.need_poll()
        self.wake()

    def has_gone_on(self) -> bool:
        """Whether the user has asked for another record or part since this was asked last."""
        before, self._given_last = self._given_last, self._consumer._out.given_last
        return self._given_last is not None and self._given_last is not before

    def may_look_up(self) -> None:
        """What a look-up of committed offsets was held back for has ended."""
        self._consumer._fetcher.may_look_up()

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What `commit` would store now, and what goes by itself: without what another task has in
        hand, unless that one has committed it. Else 1. a task commits the part at hand too, and
        keeps it for long, 2. less is stored, 3. the task dies, 4. what it has committed is read
        again. It is committed once more, as that one's commit may fail, and who commits is told
        that all is stored."""
        return self._at_least_committed(self._consumer._consumed())

    def let_go(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What goes by itself when partitions are given up: as `consumed`, but nobody is done with
        what tasks had in hand as they were cancelled."""
        cut_off = self._consumer._readers.cut_off()
        return self._at_least_committed(_at_most(self._consumer._consumed(), cut_off))

    def done(self) -> dict[TopicPartition, OffsetAndMetadata] | None:
        """As `consumed`, without what the user may still work on: all that he was given while a
        poll waits, all before the record or part at hand while he goes through them, else nobody
        knows (None); without what tasks were cancelled with just now, as others may follow; and
        without partitions of which he has committed more."""
        out, is_polling = self._consumer._out, self._consumer._poller is not None
        left = out.to_commit(is_shared=True) if is_polling else out.done()
        if left is None:
            return None
        cut_off = self._consumer._readers.cut_off_lately()
        return self._further(_at_most(self._consumer._ahead_of(left), cut_off))

    def _at_least_committed(
        self, offsets: dict[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            where: each._replace(offset=max(each.offset, self._end_of(where)))
            for where, each in offsets.items()
        }

    def _further(
        self, offsets: dict[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            where: each for where, each in offsets.items() if each.offset >= self._end_of(where)
        }

    def _end_of(self, where: TopicPartition) -> int:
        """Of what was committed of it since it was assigned or sought, if it was given so far."""
        position = self._consumer._positions.get(where)
        end = -1 if position is None else self._reach.end(where, position.course)
        return -1 if position is None or position.position < end else end

    def commit_begins(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These are to be stored."""
        self._consumer._readers.commit_begins(
            {where: each.offset for where, each in offsets.items()}
        )
        for where, each in offsets.items():
            position = self._consumer._positions.get(where)
            if position is not None:
                self._reach.begins(where, position.course, each.offset)

    def commit_ended(
        self, left: Mapping[TopicPartition, OffsetAndMetadata], *, was_cut_off: bool
    ) -> None:
        """These are not known to be stored: they may be, if it was cut off."""
        ended = self._reach.was_cut_off if was_cut_off else self._reach.has_failed
        for where, each in left.items():
            ended(where, each.offset)

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Uuid]:
        """Of which topics these are."""
        return self._consumer.topic_ids(partitions)

    def given_ids(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Uuid]:
        """The same for offsets that the user names: he has them of what he was given last."""
        wanted = list(partitions)
        return {**self.topic_ids(wanted), **self._consumer._positions.given_ids(wanted)}

    def are_stored(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These, whatever becomes of others that were to be stored with them."""
        for where, each in offsets.items():
            self._reach.is_stored(where, each.offset)

    def committed_now(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], seconds: float
    ) -> None:
        """All of a commit is stored, and has taken that time."""
        self._consumer._metrics.committed(seconds)
        self._consumer._interceptors.committed(offsets)

    def rebalanced(self, seconds: float, *, has_failed: bool) -> None:
        """The member has its share again, or is out of the group."""
        self._consumer._metrics.rebalanced(seconds, has_failed=has_failed)


def _at_most(
    offsets: dict[TopicPartition, OffsetAndMetadata], bounds: Mapping[TopicPartition, int]
) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        where: each._replace(offset=min(each.offset, bounds.get(where, each.offset)))
        for where, each in offsets.items()
    }
