"""The partitions assigned to a consumer, and the topics that they belong to. No IO.

Invariants: a partition that is assigned again starts fresh, but how far its user had read, and in
which topic (`topic_identity`), is kept until the user subscribes or assigns again. Offsets are
committed to the topic they were read from, even if another topic has its name by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Final

from moldau.client.consumer.backlog import Backlog
from moldau.client.consumer.metrics import Lag
from moldau.client.consumer.position import Asked, Position, PositionState
from moldau.client.consumer.topic_identity import Former, TopicIdentity
from moldau.client.settings.offset_reset import Reset
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.metadata import Metadata, TopicPartition

NO_IDS: Final[Mapping[TopicPartition, Uuid]] = {}


class Assignment:
    """The positions of all assigned partitions."""

    def __init__(self, reset: Reset, out: Backlog) -> None:
        """Use `reset` for positions that are unknown or out of range. `out` has the taken records
        that were not all returned."""
        self.reset = reset
        self._out = out
        self._all: dict[TopicPartition, Position] = {}
        self._taken_away: dict[TopicPartition, Former] = {}
        """How far the user had read in partitions taken away: they may be assigned again."""
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
        """Assign these partitions and no others. Those that stay keep their positions and buffers.
        New ones start at the committed offset with `from_committed`. `ids` are the topic ids that
        the group assigned."""
        self._first_state = PositionState.COMMITTED if from_committed else PositionState.UNKNOWN
        before = self._all
        self._all = {where: before.get(where) or self._made(where, ids) for where in wanted}
        self._out.paused.intersection_update(self._all)
        for where in before.keys() - self._all.keys():
            self.settle(before[where])
            former = before[where].as_former()
            if former is not None:
                self._taken_away[where] = former

    def _made(self, where: TopicPartition, ids: Mapping[TopicPartition, Uuid]) -> Position:
        """Create a position: new, or continued, possibly in another topic of the same name."""
        identity = TopicIdentity(self._taken_away.pop(where, None), ids.get(where, ZERO_UUID))
        return Position(where, self.reset, self._first_state, self._generations, identity)

    def settle(self, position: Position) -> None:
        """Check whether the user still has records of a former topic of this name."""
        if position.identity.former is not None:
            position.identity.on_given(self._out.consumed().get(position.where, position.position))

    def begin(self) -> None:
        """Forget partitions taken away: the user has subscribed or assigned again."""
        self._taken_away.clear()

    def check_topics(self, metadata: Metadata) -> set[TopicPartition]:
        """Apply new metadata. Return the partitions whose topic was replaced by a new one."""
        consumed = self._out.consumed()
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
        """Return the id of the topic that each partition was read from, or ZERO_UUID if unknown. A
        partition without an id of its own was assigned while its topic was away: it gets the id of
        the other partitions, not that of a topic that took over the name."""
        known = {name: topic.topic_id for name, topic in metadata.topics.items()}
        known |= {each.where.topic: each.topic_id for each in self if each.topic_id != ZERO_UUID}
        found = {}
        for where in partitions:
            position = self._all.get(where)
            own = ZERO_UUID if position is None else position.topic_id
            found[where] = known.get(where.topic, ZERO_UUID) if own == ZERO_UUID else own
        return found

    def given_ids(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Uuid]:
        """Return the topic ids that the user's offsets belong to, also for partitions that were
        taken away. If a topic was created again, this is the old topic until a record of the new
        one is returned."""
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
        """Make this partition the last one in the order of `__iter__`."""
        self._all[where] = self._all.pop(where)

    def get(self, where: TopicPartition) -> Position | None:
        """Return the partition's position, or None if it is not assigned."""
        return self._all.get(where)

    def lags(self) -> dict[TopicPartition, Lag]:
        """Return each partition's distance to the end of its log, and from its beginning."""
        begun = self._out.consumed()
        found = {}
        for each in self:
            given = begun.get(each.where, each.position)
            lag = lead = None
            if each.readable_end >= 0 and each.position >= 0:
                lag = max(0, each.readable_end - given)
                lead = max(0, given - each.log_start_offset)
            found[each.where] = Lag(lag, lead)
        return found

    def pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        """Pause or resume these partitions: all, or none if one of them is not assigned."""
        for each in [self.require(where) for where in partitions]:
            each.is_paused = is_paused
            (self._out.paused.add if is_paused else self._out.paused.discard)(each.where)
        if is_paused:
            self._out.pause(self._out.paused)

    def require(self, where: TopicPartition) -> Position:
        """Return the partition's position. Raise KafkaError if it is not assigned."""
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
        """Return the position that a request was about; None if it was moved or dropped."""
        position = self._all.get(asked.where)
        if position is None or position.generation != asked.generation:
            return None
        return position
