"""A consumer as its group sees it: what it reads, and how far its user is. Not for users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.client.group.member import Change
from moldau.client.group.offset_requests import OffsetAndMetadata
from moldau.client.metadata import TopicPartition
from moldau.ids import Uuid

if TYPE_CHECKING:
    from moldau.client.consumer import Consumer


class _Reach(NamedTuple):
    """How far a commit goes, and in which course of its partition's position."""

    course: int
    end: int


_NOWHERE: Final = _Reach(-1, -1)


class GroupsReader:
    """One consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._given_last: object = None
        self._begun: dict[TopicPartition, _Reach] = {}
        """Of the last commit that was begun and has not failed."""
        self._stored: dict[TopicPartition, _Reach] = {}
        """Of the last that is known to be stored."""

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

    def consumed_further(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The same, without what would undo a commit: of what another task has in hand."""
        return self._further(self._consumer.consumed())

    def done(self) -> dict[TopicPartition, OffsetAndMetadata] | None:
        """The same, without what the user may still work on: all that he was given while a poll
        waits, all before the record or part at hand while he goes through them, else nobody knows
        (None). Nor what would undo a commit: 1. the user commits the part at hand too, and keeps it
        for long, 2. he dies, 3. what he has committed is read again."""
        out, is_polling = self._consumer._out, self._consumer._poller is not None
        left = out.to_commit(is_shared=True) if is_polling else out.done()
        if left is None:
            return None
        return self._further(self._consumer._ahead_of(left))

    def _further(
        self, offsets: dict[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return {
            where: each for where, each in offsets.items() if each.offset >= self._end_of(where)
        }

    def _end_of(self, where: TopicPartition) -> int:
        """Of what was committed of it since it was assigned or sought, if it was given so far."""
        begun = self._begun.get(where, _NOWHERE)
        position = self._consumer._positions.get(where)
        if position is None or position.course != begun.course or position.position < begun.end:
            return _NOWHERE.end
        return begun.end

    def commit_begins(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These are to be stored."""
        for where, each in offsets.items():
            position = self._consumer._positions.get(where)
            if position is not None:
                self._begun[where] = _Reach(position.course, each.offset)

    def commit_failed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Not all of these are stored."""
        for where, each in offsets.items():
            if self._begun.get(where, _NOWHERE).end == each.offset:
                self._begun[where] = self._stored.get(where, _NOWHERE)

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
        for where, each in offsets.items():
            begun = self._begun.get(where, _NOWHERE)
            if begun.end == each.offset:
                self._stored[where] = begun
        self._consumer._metrics.committed(seconds)
        self._consumer._interceptors.committed(offsets)

    def rebalanced(self, seconds: float, *, has_failed: bool) -> None:
        """The member has its share again, or is out of the group."""
        self._consumer._metrics.rebalanced(seconds, has_failed=has_failed)
