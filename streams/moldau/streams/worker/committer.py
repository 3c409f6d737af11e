"""How what the tasks of a worker did becomes durable: the door between a commit and the client.

`AtLeastOnce` sends outputs as they come and commits offsets afterwards. Invariants of each form:
`send` and `log` return before the records are acknowledged, and `written` afterwards, or raises the
error of what failed; after an error of `commit` nothing that it was given counts as committed.

A move to another engine marks the texts of the offsets, so that no worker goes on where the app was
before.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, NamedTuple, Protocol

from moldau.client import Consumer, Deliveries, KafkaError, OffsetAndMetadata, Producer
from moldau.client import TopicPartition as TopicPartition
from moldau.errors.codes import ErrorCode
from moldau.runtime.timeouts import timeout
from moldau.streams.engine.batches import Outputs
from moldau.streams.state.changes import ChangelogRecords

LOG: Final = logging.getLogger("moldau.streams")
LOST: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_MEMBER_EPOCH,
        # If another member has the name, the next poll says so.
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
_LATER: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH})
QUIET_S: Final = 4.0
"""How long a topic may be looked for without a word: more than a missing output is at the start."""
_MISSING: Final = (
    "streams: output topic %s is not known to the brokers, and nothing goes on until it is: create "
    "it; a topic that is named for each record is not looked for at the start"
)
WITHOUT_TEXTS: Final = (
    "offsets are committed without stream times, so after a restart windows may stay open longer; "
    "raise offset.metadata.max.bytes on the brokers and start the app again"
)

_NOT_SEEN: Final = "which does not exist, or this user has no right to see it"
_MOVED: Final = "moved to Spark "


class CommittedOffset(NamedTuple):
    """The offset at which a group continues, and the text that was kept with it."""

    offset: int
    metadata: str


def marked(text: str) -> str:
    """Return the text of an offset from which no worker goes on."""
    return _MOVED + unmarked(text)


def unmarked(text: str) -> str:
    """Return the text as it was before it was marked."""
    return text.removeprefix(_MOVED)


def is_marked(text: str) -> bool:
    """Whether the app has moved away since this was committed."""
    return text.startswith(_MOVED)


class MembershipLost(Exception):
    """The group has continued without this worker: what it has not committed belongs to others."""


class CommitLater(Exception):
    """The group accepts no commit now, or its coordinator does not answer; nothing is lost."""


class CommitReverted(Exception):
    """Nothing that was sent since the last commit counts: the tasks begin again from there."""


class ExistingTopic(Protocol):
    """What is known of a topic that exists."""

    @property
    def partitions(self) -> int: ...


Existing = Callable[[Collection[str]], Awaitable[Mapping[str, ExistingTopic]]]
"""existing(topics): those of some topics that exist."""


class Committer(Protocol):
    """Writes outputs, changes and offsets of all tasks of one worker."""

    @property
    def is_atomic(self) -> bool:
        """Whether a commit covers all that was sent, so that tasks are committed together or not at
        all."""

    async def start(self) -> None:
        """Connect."""

    async def aclose(self) -> None:
        """Deliver what may be delivered, drop the rest, and disconnect."""

    async def find(self, topic: str) -> None:
        """Wait until the topic exists; a broker that creates topics for producers does so now."""

    async def keep(self, topic: str, key: bytes, value: bytes) -> None:
        """Write one record to partition 0 that belongs to no task, and wait until it is there."""

    async def send(self, outputs: Outputs) -> None:
        """Send the outputs, without waiting until they are acknowledged."""

    async def log(self, where: TopicPartition, changes: ChangelogRecords) -> Deliveries:
        """Send changes of a store to its changelog, without waiting until they are acknowledged."""

    async def written(
        self,
        logged: Mapping[TopicPartition, Deliveries],
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> dict[TopicPartition, int]:
        """Wait until all that was sent is acknowledged. Return the ends of what was logged.

        `offsets` will be given to `commit`; an atomic committer sends them meanwhile.
        """

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit the offsets of the group with their texts, and what was sent before.

        Raise MembershipLost if the group has continued without this worker, CommitLater during a
        rebalance and while brokers are away.
        """

    async def revert(self) -> None:
        """Undo what was sent since the last commit, if that can be done."""


class RecordSender:
    """The part of a committer that sends records with a producer."""

    def __init__(self, producer: Producer, existing: Existing) -> None:
        self.producer = producer
        self._existing = existing
        self._widths: dict[str, int] = {}
        """The partition counts of topics of replies."""
        self._found: set[str] = set()
        """The topics that are known to exist."""

    async def find(self, topic: str) -> None:
        """Wait until the topic exists. Warn if that takes long: the producer waits in silence."""
        try:
            async with timeout(QUIET_S):
                await self.producer.partitions(topic)
        except TimeoutError:
            LOG.warning(_MISSING, topic)
            await self.producer.partitions(topic)
        self._found.add(topic)

    async def send(self, outputs: Outputs) -> None:
        """Send the outputs, without waiting until they are acknowledged."""
        if outputs.is_reply:
            outputs = await self._receivable(outputs)
        elif outputs.topic not in self._found:
            await self.find(outputs.topic)
        if not len(outputs):
            return
        partitions = outputs.partitions
        if outputs.partitioning is not None:
            partitions = outputs.chosen(len(await self.producer.partitions(outputs.topic)))
        await self.producer.send_many(
            outputs.topic,
            outputs.values,
            keys=outputs.keys,
            headers=outputs.headers or None,
            timestamps_ms=outputs.timestamps,
            partition=partitions or None,
        )

    async def _receivable(self, outputs: Outputs) -> Outputs:
        """Return the replies that have a topic and a partition. Requests name those, so what there
        is not must not stop the app."""
        topic = outputs.topic
        if topic not in self._widths:
            try:
                found = await self._existing([topic])
            except KafkaError as error:
                if error.retriable:
                    raise
                found = {}
            if topic not in found:
                LOG.warning("streams: a request wants its reply in %s, %s", topic, _NOT_SEEN)
                return Outputs(topic)
            self._widths[topic] = found[topic].partitions
        count = self._widths[topic]
        beyond = [each for each in outputs.partitions if each is not None and each >= count]
        if not beyond:
            return outputs
        LOG.warning(
            "streams: a request wants its reply in %s-%d: it has %d partitions",
            topic,
            beyond[0],
            count,
        )
        return outputs.where([each is None or each < count for each in outputs.partitions])

    async def log(self, where: TopicPartition, changes: ChangelogRecords) -> Deliveries:
        """Send changes of a store to its changelog, without waiting until they are acknowledged."""
        return await self.producer.send_many(
            where.topic,
            changes.values,
            keys=changes.keys,
            timestamps_ms=changes.timestamps,
            partition=where.partition,
        )

    async def written(
        self, logged: Mapping[TopicPartition, Deliveries]
    ) -> dict[TopicPartition, int]:
        """Wait until all that was sent is acknowledged. Return the ends of what was logged."""
        await self.producer.flush()
        return {
            where: max(each.base_offset + each.records for each in await deliveries)
            for where, deliveries in logged.items()
        }


class AtLeastOnce:
    """Offsets are committed after everything else: after a crash some records run again."""

    is_atomic = False

    def __init__(self, producer: Producer, consumer: Consumer, existing: Existing) -> None:
        """`existing` returns those of some topics that exist."""
        self._consumer = consumer
        self._sending = RecordSender(producer, existing)
        self._are_texts_refused = False
        self.find = self._sending.find
        self.send = self._sending.send
        self.log = self._sending.log

    async def start(self) -> None:
        """Connect."""
        await self._sending.producer.start()

    async def aclose(self) -> None:
        """Deliver what was sent, and disconnect."""
        await self._sending.producer.aclose()

    async def written(
        self,
        logged: Mapping[TopicPartition, Deliveries],
        offsets: Mapping[TopicPartition, CommittedOffset],
    ) -> dict[TopicPartition, int]:
        """Wait until all that was sent is acknowledged; offsets come after it."""
        return await self._sending.written(logged)

    async def keep(self, topic: str, key: bytes, value: bytes) -> None:
        """Write one record to partition 0, and wait until it is there."""
        await self._sending.producer.send_and_wait(topic, value, key=key, partition=0)

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit the offsets of the group with their texts, or without if those are refused."""
        if not offsets:
            return
        wanted = {
            where: OffsetAndMetadata(each.offset, "" if self._are_texts_refused else each.metadata)
            for where, each in offsets.items()
        }
        try:
            await self._consumer.commit(wanted)
        except KafkaError as error:
            if error.code is ErrorCode.OFFSET_METADATA_TOO_LARGE and not self._are_texts_refused:
                self._are_texts_refused = True
                LOG.warning("streams: %s: %s", error, WITHOUT_TEXTS)
                await self.commit(offsets)
                return
            if error.code in LOST:
                raise MembershipLost(str(error)) from error
            if error.code in _LATER or error.retriable:
                raise CommitLater(str(error)) from error
            raise

    async def revert(self) -> None:
        """What was sent stays: the records that made it run again."""
