"""A consumer as its group sees it: what it reads, and how far its user is. Not for users."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from moldau.client.group.member import Change
from moldau.client.settings.arguments import OffsetAndMetadata
from moldau.ids import Uuid
from moldau.link.metadata import TopicPartition

if TYPE_CHECKING:
    from moldau.client.consumer.consumer import Consumer


class GroupsReader:
    """One consumer."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._given_last: object = None
        self._begun: dict[TopicPartition, int] = {}
        self._stored: dict[TopicPartition, int] = {}
        """Where the last commit of a partition ends: one that was begun and has not failed, and one
        that is stored. What goes by itself must not undo what the user has committed."""

    def take_over(self, change: Change) -> None:
        """Read what the change says from now on, unless partitions were assigned by hand since."""
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
        """What `commit` would store now: behind all that was given."""
        return self._consumer._consumed()

    def let_go(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What goes by itself when partitions are given up."""
        return self._consumer._consumed() if self._consumer._is_finished() else self.done()

    def done(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What goes by itself as time passes: all before what is at hand, and without partitions
        of which the user has committed more."""
        offsets = self._consumer._ahead_of(self._consumer._out.done())
        return {
            where: each
            for where, each in offsets.items()
            if each.offset >= max(self._begun.get(where, -1), self._stored.get(where, -1))
        }

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These were sought elsewhere, or are not read any more: less may be meant from now on."""
        for where in partitions:
            self._begun.pop(where, None)
            self._stored.pop(where, None)

    def commit_begins(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These are to be stored. Of partitions that were given so far it is remembered."""
        for where, each in offsets.items():
            position = self._consumer._positions.assignment.get(where)
            if position is not None and each.offset <= position.position:
                self._begun[where] = each.offset

    def commit_ended(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        left: Collection[TopicPartition],
        *,
        was_cut_off: bool,
    ) -> None:
        """All are stored but those that are left: they may be too, if it was cut off."""
        for where, each in offsets.items():
            if where not in left and where in self._begun:
                self._stored[where] = each.offset
            elif not was_cut_off and self._begun.get(where) == each.offset:
                del self._begun[where]

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Uuid]:
        """Of which topics these are."""
        return self._consumer.topic_ids(partitions)

    def given_ids(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Uuid]:
        """The same for offsets that the user names: they are of what was given out last."""
        wanted = list(partitions)
        return {**self.topic_ids(wanted), **self._consumer._positions.assignment.given_ids(wanted)}

    def committed_now(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], seconds: float
    ) -> None:
        """All of a commit is stored, and has taken that time."""
        self._consumer._metrics.committed(seconds)
        self._consumer._interceptors.committed(offsets)

    def rebalanced(self, seconds: float, *, has_failed: bool) -> None:
        """The member has its share again, or is out of the group."""
        self._consumer._metrics.rebalanced(seconds, has_failed=has_failed)
