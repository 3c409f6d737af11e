"""Which topic of its name a partition is in, and how far its user is in another one. No IO.

A topic that was deleted and made again has its old name and another id. Its user still has records
and offsets of the old one when metadata tell of the new one; and metadata of a broker that lags
behind tell of the old one once more. So what the user knows is kept beside the partition's topic:

    what happens                            `former`
    metadata have another id                where the user is in the topic before; the one that
                                            is there stays: nothing was read of the one before
    metadata have the id of `former` again  none: it goes on there, or begins as at first if others
                                            may have read on meanwhile
    a position is found in this topic       stays; its user was told
    it is taken away, and assigned again    goes with it; others may have read on
    a record of this topic is given         none, as soon as it is asked for (`on_given`): what was
                                            taken of it and lies here still was not given
    the user seeks                          none; where the group has given another topic than the
                                            one that has the name, the sought place in that
    the user chooses anew what to read      none

Invariant: the user's records and offsets are of `former`, or of `topic_id` where there is none. So
an offset of the user's is committed to that topic (`given_id`), and nothing of `topic_id` was given
while there is a former one: it is read from its beginning.
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
    """How far the user is in a topic that the partition is not in."""

    topic_id: Uuid
    offset: int
    epoch: int = NO_EPOCH
    is_held: bool = True
    """Whether the partition was not taken away since."""
    is_told: bool = False
    """Whether the user has heard that it is another topic now."""


class TopicIdentity:
    """The topic of one partition, by its id."""

    __slots__ = ("_begins_at", "assigned_id", "former", "topic_id")

    def __init__(self, former: Former | None = None, assigned_id: Uuid = ZERO_UUID) -> None:
        """`assigned_id` where the group has given a topic by its id, and no other of its name."""
        self.topic_id = ZERO_UUID
        self.assigned_id = assigned_id
        self.former = former
        self._begins_at = -1

    def on_taken(self, offset: int) -> None:
        """A record of the topic that is there, with a former one, was taken to be given."""
        if self._begins_at < 0:
            self._begins_at = offset

    def on_given(self, offset: int) -> None:
        """How far the user is in what was taken: behind its first record means in this topic."""
        if 0 <= self._begins_at < offset:
            self.former = None
            self._begins_at = -1

    @property
    def is_anothers(self) -> bool:
        """Whether the topic that has the name now is not the one that the group has given."""
        return self.assigned_id not in (ZERO_UUID, self.topic_id) and self.topic_id != ZERO_UUID

    @property
    def given_id(self) -> Uuid:
        """Of which topic the user's offsets are; ZERO_UUID where it is unknown."""
        return self.topic_id if self.former is None else self.former.topic_id

    def on_topic(self, topic_id: Uuid, offset: int, epoch: int) -> Former | None:
        """Metadata have this id, which is news; the user is at `offset`, or -1. Gives where it goes
        on if that is where it was before."""
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
            return None  # no position in it is found yet: it may be made again before
        self.former = None
        return former

    def seek(self, offset: int, epoch: int) -> bool:
        """Go to an offset; False where that has to wait until the topic that is meant is back."""
        self._begins_at = -1
        self.former = Former(self.assigned_id, offset, epoch) if self.is_anothers else None
        return self.former is None

    def tell(self) -> tuple[int, str] | None:
        """Once: where the user was in the topic before, and the words for the log."""
        former = self.former
        if former is None or former.is_told or former.topic_id == self.topic_id:
            return None
        self.former = former._replace(is_told=True)
        return former.offset, ANEW

    def taken_away(self, offset: int, epoch: int) -> Former | None:
        """What is to be known when it is assigned again; None where nothing is."""
        former = self.former
        if former is None and offset >= 0 and self.topic_id != ZERO_UUID:
            former = Former(self.topic_id, offset, epoch)
        return None if former is None else former._replace(is_held=False)
