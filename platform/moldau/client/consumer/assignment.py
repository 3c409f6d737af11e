"""The partitions that a consumer has, and in which topics they are. No IO.

Invariants: a partition that is assigned again begins anew, but how far its user was, and in which
topic (`topic_life`), is kept until the user chooses anew what to read. Offsets are committed to the
topics that they are of, also when other topics have the names by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import Final

from moldau.client.consumer.position import Asked, Position, PositionState
from moldau.client.consumer.topic_identity import Former, TopicIdentity
from moldau.client.settings.offset_reset import Reset
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.metadata import Metadata, TopicPartition

NO_IDS: Final[Mapping[TopicPartition, Uuid]] = {}


class Assignment:
    """The positions of all assigned partitions."""

    def __init__(self, reset: Reset) -> None:
        """`reset` is for positions that are unknown or out of range."""
        self.reset = reset
        self._all: dict[TopicPartition, Position] = {}
        self._taken_away: dict[TopicPartition, Former] = {}
        """Where those were that were taken away: their user may get them back."""
        self.consumed: Callable[[], Mapping[TopicPartition, int]] = dict
        """How far the user is in those of which not all that was taken was given."""
        self._generations = count()
        self._first_state = PositionState.UNKNOWN

    def __iter__(self) -> Iterator[Position]:
        return iter(self._all.values())

    def __len__(self) -> int:
        return len(self._all)

    def assign(
        self,
        wanted: Iterable[TopicPartition],
        *,
        from_committed: bool = False,
        ids: Mapping[TopicPartition, Uuid] = NO_IDS,
    ) -> None:
        """These and no others; those that stay keep their positions and what is buffered. New ones
        begin at the committed offset, where there is a group that may have one; `ids` where it has
        given them in the topics of these ids."""
        self._first_state = PositionState.COMMITTED if from_committed else PositionState.UNKNOWN
        before = self._all
        self._all = {where: before.get(where) or self._made(where, ids) for where in wanted}
        for where in before.keys() - self._all.keys():
            self.settle(before[where])
            former = before[where].as_former()
            if former is not None:
                self._taken_away[where] = former

    def _made(self, where: TopicPartition, ids: Mapping[TopicPartition, Uuid]) -> Position:
        """One that is new, or is taken up again, maybe in another topic of its name."""
        identity = TopicIdentity(self._taken_away.pop(where, None), ids.get(where, ZERO_UUID))
        return Position(where, self.reset, self._first_state, self._generations, identity)

    def settle(self, position: Position) -> None:
        """Looks whether its user is still in a former topic."""
        if position.identity.former is not None:
            position.identity.on_given(self.consumed().get(position.where, position.position))

    def begin(self) -> None:
        """The user has chosen anew what to read: nothing is taken up again."""
        self._taken_away.clear()

    def check_topics(self, metadata: Metadata) -> set[TopicPartition]:
        """The partitions whose topics are other ones than before."""
        consumed = self.consumed()
        changed = set()
        for each in self:
            topic = metadata.topics.get(each.where.topic)
            if topic is None or topic.topic_id in (ZERO_UUID, each.topic_id):
                continue
            offset = consumed.get(each.where, each.position)
            if each.name_topic(topic.topic_id, offset, self.reset, self._first_state):
                changed.add(each.where)
        return changed

    def topic_ids(
        self, partitions: Iterable[TopicPartition], metadata: Metadata
    ) -> dict[TopicPartition, Uuid]:
        """Of which topics these are, when it is about what was read of them: each is of the one
        that its own position is in. One that has none, since it was assigned while the topic was
        away, is of that of its siblings, and not of whatever has the name by then. ZERO_UUID where
        it is unknown."""
        known = {name: topic.topic_id for name, topic in metadata.topics.items()}
        known |= {each.where.topic: each.topic_id for each in self if each.topic_id != ZERO_UUID}
        found = {}
        for where in partitions:
            position = self._all.get(where)
            own = ZERO_UUID if position is None else position.topic_id
            found[where] = known.get(where.topic, ZERO_UUID) if own == ZERO_UUID else own
        return found

    def given_ids(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Uuid]:
        """The topics that the user's offsets are of: of the old one, where a topic was made again,
        until a record of the new one is given; also of partitions that were taken away."""
        found = {}
        for where in partitions:
            position, former = self._all.get(where), self._taken_away.get(where)
            own = ZERO_UUID if former is None else former.topic_id
            if position is not None:
                self.settle(position)
                own = position.identity.given_id
            if own != ZERO_UUID:
                found[where] = own
        return found

    def to_the_back(self, where: TopicPartition) -> None:
        """Make this partition the last one of those that `__iter__` gives."""
        self._all[where] = self._all.pop(where)

    def get(self, where: TopicPartition) -> Position | None:
        """The partition's position, if it is assigned."""
        return self._all.get(where)

    def is_paused(self, where: TopicPartition) -> bool:
        """Whether nothing of it is given for the time being."""
        found = self.get(where)
        return found is not None and found.is_paused

    def require(self, where: TopicPartition) -> Position:
        """As `get`; KafkaError when it is not assigned."""
        position = self._all.get(where)
        if position is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "the partition is not assigned to this consumer",
                topic=where.topic,
                partition=where.partition,
            )
        return position

    def current(self, asked: Asked) -> Position | None:
        """The partition that was asked for, unless it has gone on elsewhere since."""
        position = self._all.get(asked.where)
        if position is None or position.generation != asked.generation:
            return None
        return position
