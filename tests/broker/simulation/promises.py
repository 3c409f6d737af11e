"""What a broker has promised (`Promise`), and by what it is held to it.

Nobody but this module knows the truth. Its cost is in proportion to what is told, not to what is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from moldau.ids import Uuid


class Promise(StrEnum):
    """As a failure names it, and a planted bug by which it must be found."""

    ONE_RECORD = "an offset names one record"
    """Whoever says so: an answer, a reader, another life."""
    STANDS_ONCE = "a record stands once"
    """Also one that was sent again by an idempotent writer."""
    ONLY_SENT = "only what was sent is served"
    """Byte for byte, with a right checksum."""
    DENSE = "offsets are dense"
    """To readers; they ascend, with gaps only where compaction works."""
    BELOW_HIGH_WATERMARK = "only what is below the high watermark is served"
    ACKNOWLEDGED_KEPT = "what was acknowledged is kept"
    """Through anything, where acknowledged after fsync; through the death of the process,
    everywhere."""
    SEEN_KEPT = "what a reader saw is kept"
    """Likewise."""
    LOST_TAIL = "only a tail that was not flushed is lost"
    """By the loss of power, elsewhere."""
    HIGH_WATERMARK_GROWS = "a high watermark only grows"
    """Within a life of the broker."""
    ORDER = "order of an idempotent writer is kept"
    WRITER_GOES_ON = "an idempotent writer of a durable topic can go on"
    METADATA_KEPT = "committed metadata is kept"
    """Topics, their ids and settings, deletions."""
    LOG_START_KEPT = "a log start that was told is kept"
    """And no record above what was asked for is deleted."""
    NEWEST_OF_KEY = "the newest record of a key is kept"
    """In a compacted topic; deleted keys stay deleted."""
    LAST_SEQUENCE = "a producer's last sequence is kept"
    """In the log itself, whatever is compacted."""
    PRODUCER_ID_ONCE = "a producer id is given once"
    LIVES_ON = "a broker whose disk refuses nothing comes up and lives on"
    """Whatever the ends before have left there."""


class BrokenPromise(AssertionError):
    """It was not kept."""

    def __init__(self, promise: str, facts: str = "") -> None:
        super().__init__(f"{promise} ({facts})" if facts else f"{promise}")
        self.promise = promise


def demand(is_so: bool, promise: str, **facts: object) -> None:
    """`promise` is a `Promise`, or what else a scenario calls its own."""
    if not is_so:
        told = ", ".join(f"{name}={fact!r}" for name, fact in facts.items())
        raise BrokenPromise(promise, told)


class Sent(NamedTuple):
    """A record as a client made it. `name` is in its header and unique."""

    name: str
    key: bytes | None
    value: bytes | None

    @property
    def writer(self) -> str:
        return self.name.partition("/")[0]

    @property
    def number(self) -> int:
        return int(self.name.partition("/")[2])


@dataclass(frozen=True, slots=True)
class Kind:
    """What is promised for a topic."""

    is_durable: bool = False
    """Acknowledged, and shown to readers, after fsync."""
    is_compacted: bool = False


class Loss:
    """What the end of a life may have taken."""

    NOTHING, TAIL = 0, 1


class Partition:
    """The truth of one partition, by its topic's id."""

    def __init__(self, topic: str, index: int, kind: Kind) -> None:
        self.topic = topic
        self.index = index
        self.kind = kind
        self.records: dict[int, Sent] = {}
        """All that an answer or a reader has told."""
        self.acknowledged: set[int] = set()
        """The offsets of those that an answer has told."""
        self.offsets: dict[str, int] = {}
        self.promised_start = 0
        """What a deletion of records was answered with."""
        self.start = 0
        """Where the log begins, as was told last."""
        self.asked_start = 0
        self.flushed = 0
        """Below it the broker itself claimed durability when it died."""
        self.high_watermark = 0
        self.high_watermark_life = -1
        self.lost = 0
        self.sequences: dict[int, tuple[int, int]] = {}
        """The last one that was acknowledged, and its record's offset, of each idempotent writer
        that now sends nothing."""

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    def learn(self, offset: int, sent: Sent) -> None:
        """This record stands there."""
        known = self.records.setdefault(offset, sent)
        demand(
            known == sent,
            Promise.ONE_RECORD,
            at=self,
            offset=offset,
            known=known.name,
            told=sent.name,
        )
        where = self.offsets.setdefault(sent.name, offset)
        # Of a record that was deleted a later life need not know: nor does Kafka's.
        is_gone = where < self.asked_start
        demand(
            where == offset or is_gone,
            Promise.STANDS_ONCE,
            at=self,
            record=sent.name,
            at_both=(where, offset),
        )

    def on_high_watermark(self, life: int, offset: int) -> None:
        """A reader was told it in that life of the broker."""
        if life == self.high_watermark_life:
            demand(
                offset >= self.high_watermark,
                Promise.HIGH_WATERMARK_GROWS,
                at=self,
                before=self.high_watermark,
                now=offset,
            )
        self.high_watermark_life, self.high_watermark = life, offset

    def on_log_start(self, offset: int, promised: int) -> None:
        """The broker says that the log begins there, and was asked when so much was promised."""
        demand(
            promised <= offset <= self.asked_start,
            Promise.LOG_START_KEPT,
            at=self,
            promised=promised,
            asked=self.asked_start,
            found=offset,
        )
        self.start = offset

    def on_records_deleted(self, offset: int) -> None:
        """A deletion of records was answered."""
        self.promised_start = max(self.promised_start, offset)

    def on_life(self, end_offset: int, loss: int) -> None:
        """Another life found this log end; `loss` is what the ends before it may have taken."""
        if loss == Loss.NOTHING or self.kind.is_durable:
            for promise, known in (
                (Promise.ACKNOWLEDGED_KEPT, self.acknowledged),
                (Promise.SEEN_KEPT, self.records),
            ):
                newest = max(known, default=-1)
                demand(newest < end_offset, promise, at=self, newest=newest, found_end=end_offset)
            return
        demand(
            end_offset >= self.flushed,
            Promise.LOST_TAIL,
            at=self,
            flushed=self.flushed,
            found_end=end_offset,
        )
        self.sequences.clear()
        for offset in [each for each in self.records if each >= end_offset]:
            self.lost += 1
            del self.offsets[self.records.pop(offset).name]
            self.acknowledged.discard(offset)

    def check_sequences(
        self, expected: dict[int, tuple[int, int]], found: dict[int, int], position: int
    ) -> None:
        """The log was read from its start to the position since `expected` was so, and `found` are
        the sequences of its batches. What was read enough for is `expected` no more."""
        for producer_id, known in list(expected.items()):
            sequence, offset = known
            if position <= offset:
                continue
            del expected[producer_id]
            is_kept = found.get(producer_id, -1) >= sequence
            is_over = self.sequences.get(producer_id) != known or self.asked_start > 0
            demand(
                is_kept or is_over,
                Promise.LAST_SEQUENCE,
                at=self,
                producer_id=producer_id,
                acknowledged=sequence,
                found=found.get(producer_id),
            )

    def check_whole(self, found: Sequence[tuple[int, Sent]], sent: Iterable[Sent]) -> None:
        """All that there is, read from the start while nobody writes; and all that was sent."""
        at = dict(found)
        if self.kind.is_compacted:
            unknown = {
                each.key
                for each in sent
                if each.value is None
                and each.name not in self.offsets
                and each.writer.endswith(f"-{self}")
            }
            self._check_keys(at, unknown)
        else:
            for offset, known in self.records.items():
                is_acknowledged = offset in self.acknowledged
                demand(
                    offset < self.start or at.get(offset) == known,
                    Promise.ACKNOWLEDGED_KEPT if is_acknowledged else Promise.SEEN_KEPT,
                    at=self,
                    offset=offset,
                    record=known.name,
                )
        self._check_order(found)

    def _check_keys(self, at: dict[int, Sent], unknown: Collection[bytes | None]) -> None:
        """`unknown`: keys that may have been deleted, and nobody was told."""
        newest: dict[bytes | None, int] = {}
        for offset, sent in self.records.items():
            newest[sent.key] = max(offset, newest.get(sent.key, -1))
        present: dict[bytes | None, list[int]] = {}
        for offset, sent in at.items():
            present.setdefault(sent.key, []).append(offset)
        for key, offset in newest.items():
            found = present.get(key, [])
            is_deleted = self.records[offset].value is None or key in unknown
            demand(
                any(each >= offset for each in found) or (is_deleted and not found),
                Promise.NEWEST_OF_KEY,
                at=self,
                key=key,
                newest=offset,
                found=found,
                deleted=is_deleted,
            )

    def _check_order(self, found: Sequence[tuple[int, Sent]]) -> None:
        last: dict[str, int] = {}
        for offset, sent in found:
            if sent.writer.startswith("idempotent"):
                demand(
                    sent.number > last.get(sent.writer, -1),
                    Promise.ORDER,
                    at=self,
                    offset=offset,
                    record=sent.name,
                )
                last[sent.writer] = sent.number


@dataclass(slots=True)
class Topic:
    """What may be true of a topic; more than one thing while an answer is awaited or was lost."""

    kind: Kind
    topic_id: Uuid | None = None
    may_exist: set[bool] = field(default_factory=lambda: {False})
    settings: dict[str, set[str | None]] = field(default_factory=dict)


class Ledger:
    """All promises of a run."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.partitions: dict[tuple[Uuid, int], Partition] = {}
        self.sent: dict[str, Sent] = {}
        self.producer_ids: set[int] = set()
        self.counts: Counter[str] = Counter()

    # Records.

    def sending(self, sent: Sent) -> Sent:
        assert self.sent.setdefault(sent.name, sent) is sent
        return sent

    def on_acknowledged(self, at: Partition, offset: int, batch: Sequence[Sent]) -> None:
        """A writer was told that its batch begins at `offset`."""
        self.counts["acknowledged"] += len(batch)
        for delta, sent in enumerate(batch):
            at.learn(offset + delta, sent)
            at.acknowledged.add(offset + delta)

    def on_read(self, at: Partition, offset: int, found: Sent) -> None:
        """A reader got this."""
        demand(
            self.sent.get(found.name) == found,
            Promise.ONLY_SENT,
            at=at,
            offset=offset,
            found=found,
        )
        self.counts["read"] += 1
        at.learn(offset, found)

    def on_producer_id(self, producer_id: int) -> None:
        demand(producer_id not in self.producer_ids, Promise.PRODUCER_ID_ONCE, id=producer_id)
        self.producer_ids.add(producer_id)

    # Metadata.

    def on_created(self, name: str, topic_id: Uuid, partitions: int) -> None:
        """A topic's creation was answered."""
        topic = self.topics[name]
        topic.may_exist, topic.topic_id = {True}, topic_id
        for index in range(partitions):
            self.partitions[topic_id, index] = Partition(name, index, topic.kind)
        self.counts["topics"] += 1

    def on_deleted(self, name: str) -> None:
        """A topic's deletion was answered."""
        topic = self.topics[name]
        topic.may_exist = {False}
        self.forget(topic)
        topic.settings = {}
        self.counts["deletions"] += 1

    def forget(self, topic: Topic) -> None:
        """Nothing is promised of its partitions any more."""
        for key in [each for each in self.partitions if each[0] == topic.topic_id]:
            del self.partitions[key]

    def check_topics(self, found: dict[str, Uuid]) -> None:
        """What the metadata say now."""
        for name, topic in self.topics.items():
            is_there = name in found
            demand(
                is_there in topic.may_exist,
                Promise.METADATA_KEPT,
                topic=name,
                there=is_there,
            )
            if is_there and topic.may_exist == {True}:
                demand(found[name] == topic.topic_id, Promise.METADATA_KEPT, topic_id_of=name)
        for name in found:
            demand(name in self.topics, Promise.METADATA_KEPT, nobody_made=name)

    def check_settings(self, name: str, found: dict[str, str]) -> None:
        """What the topic's own settings are now."""
        topic = self.topics[name]
        if topic.may_exist != {True}:
            return
        for setting, values in topic.settings.items():
            demand(
                found.get(setting) in values,
                Promise.METADATA_KEPT,
                topic=name,
                setting=setting,
                found=found.get(setting),
                allowed=sorted(map(str, values)),
            )
