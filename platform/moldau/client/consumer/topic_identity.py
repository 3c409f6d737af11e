"""The topic that a partition belongs to, by id, and how far its user is in a former one. No IO.

A topic that was deleted and created again has its old name and another id. The user still has
records and offsets of the old topic when metadata show the new one; and the metadata of a broker
that lags behind show the old one once more. So the user's place is kept as `former`:

    event                                   effect on `former`
    metadata have another id                the user's place in the topic before. One that is set
                                            already stays: nothing was read of the topic between
    metadata have the id of `former` again  cleared, reading continues there; if others may have
                                            read on (not `is_held`), it starts as at first
    a position is found in this topic       stays; the user is notified
    the partition is taken away and comes   moves along; others may have read on
    back
    a record of this topic is returned      cleared by the next check (`on_given`); a record that
                                            was taken and is still buffered was not returned
    the user seeks                          cleared; if the group has assigned another topic than
                                            the one with the name: the sought place in that topic
    the user subscribes or assigns again    cleared

Invariant: the user's records and offsets are of `former`, or of `topic_id` if there is none. So the
user's offset is committed to that topic (`given_id`), and nothing of `topic_id` was returned while
`former` is set: it is read from its beginning.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.ids import ZERO_UUID, Uuid
from moldau.link.metadata import NO_EPOCH

ANEW: Final = (
    "the topic was deleted and made again: what was not read of the old one is lost, and the new "
    "one is read from its beginning, or from where the group has committed"
)


class Former(NamedTuple):
    """How far the user is in a topic other than the partition's present one."""

    topic_id: Uuid
    offset: int
    epoch: int = NO_EPOCH
    is_held: bool = True
    """Whether the partition was never taken away since."""
    is_told: bool = False
    """Whether the user was notified that the topic is another one now."""


class TopicIdentity:
    """The topic of one partition, by its id."""

    __slots__ = ("_begins_at", "assigned_id", "former", "topic_id")

    def __init__(self, former: Former | None = None, assigned_id: Uuid = ZERO_UUID) -> None:
        """Set `assigned_id` if the group has assigned a topic by id: no other one counts."""
        self.topic_id = ZERO_UUID
        self.assigned_id = assigned_id
        self.former = former
        self._begins_at = -1

    def on_taken(self, offset: int) -> None:
        """Note that a record of the present topic was taken, while `former` is set."""
        if self._begins_at < 0:
            self._begins_at = offset

    def on_given(self, offset: int) -> None:
        """End `former` if `offset`, up to which records were returned, is past the first taken."""
        if 0 <= self._begins_at < offset:
            self.former = None
            self._begins_at = -1

    @property
    def is_anothers(self) -> bool:
        """Whether the topic that has the name now is not the one that the group has assigned."""
        return self.assigned_id not in (ZERO_UUID, self.topic_id) and self.topic_id != ZERO_UUID

    @property
    def given_id(self) -> Uuid:
        """The topic that the user's offsets belong to; ZERO_UUID if unknown."""
        return self.topic_id if self.former is None else self.former.topic_id

    def on_topic(self, topic_id: Uuid, offset: int, epoch: int) -> Former | None:
        """Apply a new id from metadata; the user is at `offset`, or -1. Return the place to
        continue at if this is the topic of `former` again, else None."""
        self.on_given(offset)
        self._begins_at = -1
        own = self.assigned_id if self.topic_id == ZERO_UUID else self.topic_id
        is_there = self.former is None or self.former.topic_id == own
        if is_there and own not in (ZERO_UUID, topic_id) and offset >= 0:
            self.former = Former(own, offset, epoch)
        self.topic_id = topic_id
        former = self.former
        if self.is_anothers or former is None or former.topic_id != topic_id:
            return None
        if not former.is_held:
            return None  # no position is found yet: the topic may be replaced again before
        self.former = None
        return former

    def seek(self, offset: int, epoch: int) -> bool:
        """Seek to an offset. Return False if that must wait until the assigned topic is back."""
        self._begins_at = -1
        self.former = Former(self.assigned_id, offset, epoch) if self.is_anothers else None
        return self.former is None

    def take_former(self) -> tuple[int, str] | None:
        """Return, once, the user's offset in the former topic and the text for the log."""
        former = self.former
        if former is None or former.is_told or former.topic_id == self.topic_id:
            return None
        self.former = former._replace(is_told=True)
        return former.offset, ANEW

    def taken_away(self, offset: int, epoch: int) -> Former | None:
        """Return what to remember until the next assignment; None if nothing was read."""
        former = self.former
        if former is None and offset >= 0 and self.topic_id != ZERO_UUID:
            former = Former(self.topic_id, offset, epoch)
        return None if former is None else former._replace(is_held=False)
