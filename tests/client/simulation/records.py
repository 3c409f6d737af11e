"""What is true of the records of a run, and the promises that are held against it.

Offsets of a topic that was deleted and made again say nothing, so there only names count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from moldau.client import TopicPartition
from moldau.client.producer.delivery import Sent as Told
from moldau.client.producer.delivery import SentRange
from moldau.errors.codes import KafkaError
from moldau.records import Codec, Headers, encode_batch, partition_for_key
from moldau.runtime.simulated.clock import NodeClock
from tests.broker.simulation.promises import demand
from tests.client.simulation.promises import Promise
from tests.client.simulation.walls import Moment, Walls

MORTAL: Final = "phoenix"
"""The topic that is deleted and made again."""
NAME: Final = "name"
"""The header that has the name of a record whose value has not."""
NO_TIME: Final = -1


def is_mortal(where: TopicPartition) -> bool:
    return where.topic == MORTAL


@dataclass(slots=True)
class Kind:
    """What is promised for a topic."""

    partitions: int
    partitions_max: int
    """It may have so many by now."""
    is_stamped: bool = False
    """It has LogAppendTime."""
    bytes_max: int | None = None
    """Of a batch."""
    codec: Codec | None = None
    """In which its batches lie; None: as they come."""
    is_mortal: bool = False
    """It is deleted and made again; in between a producer may have it made, with one partition."""

    @property
    def configs(self) -> dict[str, str]:
        """What the topic is made with."""
        configs = {}
        if self.is_stamped:
            configs["message.timestamp.type"] = "LogAppendTime"
        if self.bytes_max is not None:
            configs["max.message.bytes"] = str(self.bytes_max)
        if self.codec is not None:
            is_none = self.codec is Codec.NONE
            configs["compression.type"] = "uncompressed" if is_none else self.codec.name.lower()
        return configs

    def of_key(self, key: bytes) -> tuple[int, ...]:
        """Where a producer may put the key: it may know of fewer partitions than there are."""
        counts = range(1 if self.is_mortal else self.partitions, self.partitions_max + 1)
        return tuple(partition_for_key(key, count) for count in counts)


class Read(Protocol):
    """A record as a consumer gives it."""

    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int: ...

    @property
    def key(self) -> Any: ...

    @property
    def value(self) -> Any: ...

    @property
    def headers(self) -> Headers: ...


def name_of(record: Read) -> str:
    """Its header says so, or the first word of its value."""
    name = dict(record.headers).get(NAME)
    if name is None:
        name = (record.value or b"").partition(b" ")[0]
    return name.decode()


class Draft(NamedTuple):
    """A record as it must lie in the log."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(slots=True)
class Sent:
    """A record, by its name."""

    writer: str
    number: int
    is_idempotent: bool
    draft: Draft
    clock: NodeClock
    """Of the machine that sent it."""
    since: Moment
    """When it was sent, on that clock."""
    since_at_broker: Moment
    codec: Codec
    until_ms: int | None = None
    """When `send` returned, on the sender's clock, if that has not jumped."""
    was_refused: bool = False
    acknowledged: tuple[TopicPartition, int] | None = None
    """Where; the offset is -1 if the broker did not say it."""
    log_time_ms: int | None = None
    """Of a topic with LogAppendTime: as it was told first."""

    @property
    def size_alone(self) -> int:
        """Of the batch that has this record only."""
        return self._size(self.codec)

    def _size(self, codec: Codec) -> int:
        _, key, value, headers, stamp, _ = self.draft
        return len(encode_batch([(stamp or 0, key, value, headers)], codec=codec))

    def is_larger_than(self, kind: Kind) -> bool:
        """Whether no batch that has this record is taken there."""
        sizes = [self._size(each) for each in (self.codec, kind.codec) if each is not None]
        return kind.bytes_max is not None and max(sizes) > kind.bytes_max


class Call(NamedTuple):
    """Records that were sent at once, and what was told of them together."""

    names: frozenset[str]
    accepted: int | None = None
    ranges: tuple[SentRange, ...] = ()


class Records:
    """All that was sent."""

    def __init__(self, kinds: Mapping[str, Kind], walls: Walls, clock: NodeClock) -> None:
        """`clock`: the broker's."""
        self.kinds = kinds
        self.sent: dict[str, Sent] = {}
        self.at: dict[TopicPartition, dict[int, str]] = defaultdict(dict)
        self._offsets: dict[tuple[TopicPartition, str], int] = {}
        self._walls = walls
        self._clock = clock
        self._calls: list[Call] = []

    # Those who send.

    def sending(
        self,
        name: str,
        draft: Draft,
        clock: NodeClock,
        *,
        is_idempotent: bool = True,
        codec: Codec = Codec.NONE,
    ) -> None:
        """It is sent now."""
        assert name not in self.sent
        writer, _, number = name.partition("/")
        since, at_broker = self._walls.now(clock), self._walls.now(self._clock)
        self.sent[name] = Sent(
            writer, int(number), is_idempotent, draft, clock, since, at_broker, codec
        )

    def sending_is_over(self, names: Iterable[str]) -> None:
        """`send` has returned, or raised."""
        for name in names:
            sent = self.sent[name]
            wall_ms, jumps = self._walls.now(sent.clock)
            if not jumps:
                sent.until_ms = wall_ms

    def refused(self, name: str) -> None:
        """`send` raised."""
        self.sent[name].was_refused = True

    def refused_as_too_large(self, name: str, error: KafkaError) -> None:
        """Its delivery was told that."""
        sent = self.sent[name]
        demand(
            sent.is_larger_than(self.kinds[sent.draft.topic])
            and error.context.get("topic") == sent.draft.topic
            and error.context.get("size_bytes") == sent.size_alone
            and self._may_lie(sent, error.context.get("partition")),
            Promise.REALLY_TOO_LARGE,
            name=name,
            size_bytes=sent.size_alone,
            error=str(error),
        )
        self.refused(name)

    def some_were_refused(self, names: Sequence[str], accepted: int, *, is_in_order: bool) -> None:
        """`send_many` raised after so many of them."""
        if is_in_order or not accepted:
            for name in names[accepted:]:
                self.refused(name)
        elif all(self.sent[name].is_idempotent for name in names):
            self._calls.append(Call(frozenset(names), accepted))

    def acknowledged(self, name: str, told: Told) -> None:
        """A delivery was told."""
        sent = self.sent[name]
        where = TopicPartition(told.topic, told.partition)
        sent.acknowledged = where, told.offset
        self._check_place(name, sent, where)
        if told.offset < 0:  # what followed from another answer: nobody has told place and time
            return
        if told.timestamp != NO_TIME and self.kinds[where.topic].is_stamped:
            self._check_log_time(name, sent, told.timestamp)
        self._learn(name, where, told.offset)

    def all_acknowledged(
        self, names: Sequence[str], ranges: Sequence[SentRange], told: Sequence[Told]
    ) -> None:
        """Many were, and it is not said which is where. `told`: what each delivery by itself says,
        in the same order."""
        demand(
            len(told) == len(names)
            and [place for each in ranges for place in _places(each)]
            == [(each.topic, each.partition, each.offset) for each in told],
            Promise.MANY_AS_ONE,
            first=names[0],
            records=len(names),
            ranges=ranges,
            told=told,
        )
        for name in names:
            topic, partition = self.sent[name].draft.topic, -1
            self.sent[name].acknowledged = TopicPartition(topic, partition), -1
        self._calls.append(Call(frozenset(names), ranges=tuple(ranges)))

    # Those who read.

    def seen(self, where: TopicPartition, record: Read) -> str:
        """A consumer was given it; its name."""
        name = name_of(record)
        sent = self.sent.get(name)
        at = {"at": where, "offset": record.offset, "name": name}
        demand(sent is not None, Promise.ONLY_SENT, **at)
        assert sent is not None
        demand(not sent.was_refused, Promise.REFUSED_NOWHERE, **at)
        self._check_content(sent, where, record)
        self._check_place(name, sent, where)
        if self.kinds[where.topic].is_stamped:
            self._check_log_time(name, sent, record.timestamp)
        else:
            self._check_time(name, sent, record.timestamp)
        self._learn(name, where, record.offset)
        return name

    def _check_content(self, sent: Sent, where: TopicPartition, record: Read) -> None:
        draft = sent.draft
        expected = draft.topic, draft.key, draft.value, draft.headers
        found = where.topic, record.key, record.value, tuple(record.headers)
        demand(
            found == expected,
            Promise.AS_SENT,
            at=where,
            offset=record.offset,
            expected=expected,
            found=found,
        )

    def _may_lie(self, sent: Sent, partition: Any) -> bool:
        draft = sent.draft
        if draft.partition is not None:
            return bool(partition == draft.partition)
        return draft.key is None or partition in self.kinds[draft.topic].of_key(draft.key)

    def _check_place(self, name: str, sent: Sent, where: TopicPartition) -> None:
        demand(
            self._may_lie(sent, where.partition),
            Promise.ITS_PARTITION,
            name=name,
            at=where,
            named=sent.draft.partition,
            key=sent.draft.key,
        )

    def _check_time(self, name: str, sent: Sent, timestamp: int) -> None:
        given_ms = sent.draft.timestamp_ms
        # One less: the clock is read for a batch, and goes on in finer steps.
        low, high = sent.since.wall_ms - 1, sent.until_ms
        if given_ms is not None:
            is_right = timestamp == given_ms
        else:
            is_right = high is None or bool(sent.since.jumps) or low <= timestamp <= high
        demand(
            is_right,
            Promise.GIVEN_TIME,
            name=name,
            given=given_ms,
            sent_in=(low, high),
            found=timestamp,
        )

    def _check_log_time(self, name: str, sent: Sent, timestamp: int) -> None:
        if sent.log_time_ms is None:
            demand(
                self._walls.has_shown(self._clock, sent.since_at_broker, timestamp),
                Promise.APPEND_TIME,
                name=name,
                sent_at=sent.since_at_broker,
                found=timestamp,
                now=self._walls.now(self._clock),
            )
            if sent.is_idempotent:  # another one stands there more than once
                sent.log_time_ms = timestamp
            return
        demand(
            timestamp == sent.log_time_ms,
            Promise.TOLD_TIME,
            name=name,
            known=sent.log_time_ms,
            told=timestamp,
        )

    def _learn(self, name: str, where: TopicPartition, offset: int) -> None:
        if is_mortal(where):
            return
        known = self.at[where].setdefault(offset, name)
        demand(
            known == name,
            Promise.ONE_RECORD,
            at=where,
            offset=offset,
            known=known,
            told=name,
        )
        if self.sent[name].is_idempotent:
            first = self._offsets.setdefault((where, name), offset)
            demand(
                first == offset,
                Promise.STANDS_ONCE,
                at=where,
                name=name,
                at_both=(first, offset),
            )

    def known_end(self, where: TopicPartition) -> int:
        """Behind the last record that anybody was told of."""
        return max(self.at[where], default=-1) + 1

    # The end.

    def check_whole(self, found: Mapping[TopicPartition, Sequence[Read]]) -> None:
        """All that there is, read from the beginnings while nobody writes (invariant 9)."""
        stands: dict[str, list[TopicPartition]] = defaultdict(list)
        for where, records in found.items():
            for record in records:
                stands[self.seen(where, record)].append(where)
        for name, sent in self.sent.items():
            if sent.acknowledged is not None and not is_mortal(sent.acknowledged[0]):
                demand(name in stands, Promise.ACKNOWLEDGED_KEPT, name=name)
            if sent.is_idempotent:
                demand(len(stands[name]) <= 1, Promise.STANDS_ONCE, name=name)
        for where, records in found.items():
            self._check_order(where, records)
        for call in self._calls:
            self._check_call(call, stands)

    def _check_order(self, where: TopicPartition, records: Sequence[Read]) -> None:
        last: dict[str, int] = {}
        for record in records:
            sent = self.sent[name_of(record)]
            demand(
                not sent.is_idempotent or sent.number > last.get(sent.writer, 0),
                Promise.ORDER,
                at=where,
                offset=record.offset,
                number=sent.number,
                behind=(sent.writer, last.get(sent.writer)),
            )
            last[sent.writer] = sent.number

    def _check_call(self, call: Call, stands: Mapping[str, object]) -> None:
        there = sum(1 for name in call.names if stands.get(name))
        demand(
            call.accepted is None or there <= call.accepted,
            Promise.REFUSED_NOWHERE,
            accepted=call.accepted,
            there=there,
            of=min(call.names),
        )
        for topic, partition, base_offset, count in call.ranges:
            where = TopicPartition(topic, partition)
            if base_offset < 0 or is_mortal(where):
                continue
            for offset in range(base_offset, base_offset + count):
                name = self.at[where].get(offset)
                demand(
                    name in call.names,
                    Promise.MANY_AS_ONE,
                    at=where,
                    offset=offset,
                    found=name,
                    of=min(call.names),
                )


def _places(records: SentRange) -> list[tuple[str, int, int]]:
    """Where each of them is."""
    topic, partition, base_offset, count = records
    if base_offset < 0:
        return [(topic, partition, base_offset)] * count
    return [(topic, partition, base_offset + index) for index in range(count)]
