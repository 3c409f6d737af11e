"""A consumer as its group sees it: what it reads, and how far its user is. Not for users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from moldau.client.group.member import Change
from moldau.client.group.offset_requests import OffsetAndMetadata
from moldau.client.metadata import TopicPartition
from moldau.ids import Uuid

if TYPE_CHECKING:
    from moldau.client.consumer import Consumer


class GroupsReader:
    """One consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._given_last: object = None
        self._covered: dict[TopicPartition, tuple[int, int]] = {}
        """By commits that were begun and have not failed: on which course, and up to where."""

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
        """What `commit` would store now."""
        return self._consumer.consumed()

    def done(self) -> dict[TopicPartition, OffsetAndMetadata] | None:
        """The same, without what the user may still work on: all that he was given while a poll
        waits, all before the record or part at hand while he goes through them, else nobody knows
        (None). Nor what would undo a commit: 1. the user commits the part at hand too, and keeps it
        for long, 2. he dies, 3. what he has committed is read again."""
        out, is_polling = self._consumer._out, self._consumer._poller is not None
        left = out.to_commit(is_shared=True) if is_polling else out.done()
        if left is None:
            return None
        ahead = self._consumer._ahead_of(left)
        return {where: each for where, each in ahead.items() if each.offset >= self._end_of(where)}

    def _end_of(self, where: TopicPartition) -> int:
        """Of what was committed of it since it was assigned or sought."""
        course, end = self._covered.get(where, (-1, -1))
        position = self._consumer._positions.get(where)
        return end if position is not None and position.course == course else -1

    def commit_begins(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These are to be stored."""
        for where, each in offsets.items():
            position = self._consumer._positions.get(where)
            if position is not None:
                self._covered[where] = (position.course, each.offset)

    def commit_failed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Not all of these are stored."""
        for where, each in offsets.items():
            if self._covered.get(where, (-1, -1))[1] == each.offset:
                del self._covered[where]

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Uuid]:
        """Of which topics these are."""
        return self._consumer.topic_ids(partitions)

    def given_ids(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Uuid]:
        """The same for offsets that the user names: he has them of what he was given last."""
        wanted = list(partitions)
        return {**self.topic_ids(wanted), **self._consumer._positions.given_ids(wanted)}

    def committed_now(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], seconds: float
    ) -> None:
        """These were stored, in that time."""
        self._consumer._metrics.committed(seconds)
        self._consumer._interceptors.committed(offsets)

    def rebalanced(self, seconds: float, *, has_failed: bool) -> None:
        """The member has its share again, or is out of the group."""
        self._consumer._metrics.rebalanced(seconds, has_failed=has_failed)
