"""What a broker has promised, and the invariants by which it is held to it.

The names of the invariants, as a failure tells them:

    an offset names one record                  whoever says so: an answer, a reader, another life
    a record stands once                        also one that was sent again by an idempotent writer
    only what was sent is served                byte for byte, with a right checksum
    offsets are dense / ascend                  to readers; with gaps only where compaction works
    what was acknowledged is kept               through anything, where acknowledged after fsync;
                                                through the death of the process, everywhere
    what a reader saw is kept                   likewise
    only a tail that was not flushed is lost    by the loss of power, elsewhere
    a high watermark only grows                 within a life of the broker
    order of an idempotent writer is kept
    an idempotent writer of a durable topic can go on
    committed metadata is kept                  topics, their ids and settings, deletions
    a log start that was told is kept           and no record above what was asked for is deleted
    the newest record of a key is kept          in a compacted topic; deleted keys stay deleted
    a producer's last sequence is kept          in the log itself, whatever is compacted
    a producer id is given once

Nobody but this module knows the truth. Its cost is in proportion to what is told, not to what is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from moldau.ids import Uuid


class BrokenPromise(AssertionError):
    """An invariant does not hold."""


def demand(is_so: bool, promise: str, **facts: object) -> None:
    if not is_so:
        told = ", ".join(f"{name}={fact!r}" for name, fact in facts.items())
        raise BrokenPromise(f"{promise} ({told})")


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
            "an offset names one record",
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
            "a record stands once",
            at=self,
            record=sent.name,
            at_both=(where, offset),
        )

    def on_high_watermark(self, life: int, offset: int) -> None:
        """A reader was told it in that life of the broker."""
        if life == self.high_watermark_life:
            demand(
                offset >= self.high_watermark,
                "a high watermark only grows",
                at=self,
                before=self.high_watermark,
                now=offset,
            )
        self.high_watermark_life, self.high_watermark = life, offset

    def on_log_start(self, offset: int, promised: int) -> None:
        """The broker says that the log begins there, and was asked when so much was promised."""
        demand(
            promised <= offset <= self.asked_start,
            "a log start that was told is kept",
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
        newest = max(self.records, default=-1)
        if loss == Loss.NOTHING or self.kind.is_durable:
            demand(
                newest < end_offset,
                "what was acknowledged is kept",
                at=self,
                known_to=newest,
                found_end=end_offset,
                durable=self.kind.is_durable,
            )
            return
        demand(
            end_offset >= self.flushed,
            "only a tail that was not flushed is lost",
            at=self,
            flushed=self.flushed,
            found_end=end_offset,
        )
        self.sequences.clear()
        for offset in [each for each in self.records if each >= end_offset]:
            self.lost += 1
            del self.offsets[self.records.pop(offset).name]

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
                "a producer's last sequence is kept",
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
                demand(
                    offset < self.start or at.get(offset) == known,
                    "what was acknowledged is kept",
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
                "the newest record of a key is kept",
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
                    "order of an idempotent writer is kept",
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

    def on_read(self, at: Partition, offset: int, found: Sent) -> None:
        """A reader got this."""
        demand(
            self.sent.get(found.name) == found,
            "only what was sent is served",
            at=at,
            offset=offset,
            found=found,
        )
        self.counts["read"] += 1
        at.learn(offset, found)

    def on_producer_id(self, producer_id: int) -> None:
        demand(producer_id not in self.producer_ids, "a producer id is given once", id=producer_id)
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
                "committed metadata is kept",
                topic=name,
                there=is_there,
            )
            if is_there and topic.may_exist == {True}:
                demand(
                    found[name] == topic.topic_id, "committed metadata is kept", topic_id_of=name
                )
        for name in found:
            demand(name in self.topics, "committed metadata is kept", nobody_made=name)

    def check_settings(self, name: str, found: dict[str, str]) -> None:
        """What the topic's own settings are now."""
        topic = self.topics[name]
        if topic.may_exist != {True}:
            return
        for setting, values in topic.settings.items():
            demand(
                found.get(setting) in values,
                "committed metadata is kept",
                topic=name,
                setting=setting,
                found=found.get(setting),
                allowed=sorted(map(str, values)),
            )
