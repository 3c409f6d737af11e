"""The topic of remote segments, `__remote_log_metadata`, as one node follows it and writes to it.

    topic = MetadataTopic(runtime, access, log)
    topic.follow(key, receiver)              # each record of the partition, from the first one on
    await topic.read_to_end(key)             # all is read that the topic has now
    await topic.append(event)

Invariants:
- A receiver gets each record of its partition once, in the topic's order, from the first record
  on. One that comes late is read from the beginning, while the others wait for new records.
- After `read_to_end` the receiver has every record that was acknowledged before the call: the end
  is that of the partition's leader, and not the high watermark of a follower.
- A topic that was deleted and made again is another topic: what was read of the first one says
  nothing about it. Then nothing is read any more, until the node starts again.

A record that is malformed is reported and left out: it may be of a later version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from moldau.broker.tiered.metadata_records import decode, encode, metadata_partition
from moldau.broker.tiered.remote_segment import PartitionDeletion, RemoteEvent
from moldau.errors import MalformedMessage, MoldauError
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging.gathering import GatheredWarnings
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from moldau.ids import Uuid
    from moldau.logging import Logger
    from moldau.runtime import Runtime

_RETRY: Final = Backoff(100, 5_000)
_FAILURES_UNTIL_LINE: Final = 6
"""In a row: an election lasts no longer."""


class PartitionKey(NamedTuple):
    """A partition with remote segments. A topic of the same name that is made later has another
    id."""

    topic_id: Uuid
    partition: int


class TopicRead(NamedTuple):
    """Some records of a metadata partition."""

    values: Sequence[tuple[int, bytes]]
    """Offsets and values."""
    next_offset: int


class TopicAccess(Protocol):
    """The metadata partitions, on this node or another. What fails is a KafkaError."""

    @property
    def topic_id(self) -> Uuid | None:
        """The id of the topic; None if it does not exist."""

    @property
    def partition_count(self) -> int:
        """The number of its partitions; 0 if it does not exist."""

    @property
    def missing_replicas(self) -> int | None:
        """How many replicas each partition should have; None if all have that many, or more."""

    @property
    def unsafe_settings(self) -> Mapping[str, str]:
        """The settings of the topic with which it may lose records, and values that are safe."""

    def create(self) -> None:
        """Ask for the topic to be created."""

    def led(self) -> Collection[int]:
        """Return the metadata partitions that this node leads."""

    async def read(self, partition: int, offset: int) -> TopicRead:
        """Return committed records from `offset` on. Without any, wait for a while."""

    async def end(self, partition: int) -> int:
        """Return the end of the partition: every acknowledged record lies before it."""

    async def append(self, partition: int, value: bytes) -> None:
        """Append a record. Return when all replicas in sync have it."""


class Receiver(Protocol):
    """Takes the records of one partition."""

    def on_record(self, event: RemoteEvent) -> None: ...


class TopicMadeAnew(KafkaError):
    """The topic is not the one that was read before."""

    def __init__(self) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_ID,
            "the topic of remote segments was deleted and made again; bring its records back from "
            "a backup, or remove what is in remote.storage, and start this broker again",
        )


def key_of(event: RemoteEvent) -> PartitionKey:
    """Return the partition that a record is about."""
    if isinstance(event, PartitionDeletion):
        return PartitionKey(event.topic_id, event.partition)
    return PartitionKey(event.id.topic_id, event.id.partition)


class MetadataTopic:
    """The topic from the view of one node; see the module."""

    def __init__(self, runtime: Runtime, access: TopicAccess, log: Logger) -> None:
        self.access: Final = access
        self._runtime = runtime
        self._log = log
        self._tails: dict[int, _Tail] = {}
        self._topic_id: Uuid | None = None
        self._warnings = GatheredWarnings(log, lines=1)

    def warn(self, partition: int, error: Exception) -> None:
        """Report that a metadata partition cannot be read for a while. All of them share lines."""
        self._warnings.warn(
            "the topic of remote segments cannot be read, and is tried again",
            self._runtime.clock.monotonic(),
            partition=partition,
            error=str(error),
        )

    async def found(self) -> Uuid:
        """Return the topic's id when it exists. It is created if it does not."""
        failures = 0
        while not self.access.partition_count:
            self.access.create()
            failures += 1
            await asyncio.sleep(_RETRY.wait_s(failures, self._runtime.random))
        return self.checked_id()

    def checked_id(self) -> Uuid:
        """Return the id of the topic, which exists. Raise TopicMadeAnew if it was another one."""
        topic_id = self.access.topic_id
        if topic_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic of remote segments")
        if self._topic_id is None:
            self._topic_id = topic_id
        elif topic_id != self._topic_id:
            raise TopicMadeAnew
        return topic_id

    def follow(self, key: PartitionKey, receiver: Receiver) -> None:
        """Let `receiver` have the records of a partition, until `unfollow`. The topic exists."""
        self._tail(self._partition_of(key)).add(key, receiver)

    def unfollow(self, key: PartitionKey) -> None:
        """Let the receiver of a partition have no more records."""
        tail = self._tails.get(self._partition_of(key))
        if tail is not None:
            tail.remove(key)

    def follow_whole(self, partition: int, receiver: Receiver) -> None:
        """Let `receiver` have all records of a metadata partition, until `unfollow_whole`."""
        self._tail(partition).add(None, receiver)

    def unfollow_whole(self, partition: int) -> None:
        """Let the receiver of a whole metadata partition have no more records."""
        tail = self._tails.get(partition)
        if tail is not None:
            tail.remove(None)

    async def read_to_end(self, key: PartitionKey) -> None:
        """Wait until the receiver of a partition has all records that the topic has now."""
        await self._tail(self._partition_of(key)).read_to_end(key)

    async def whole_read_to_end(self, partition: int) -> None:
        """Do the same for the receiver of a whole metadata partition."""
        await self._tail(partition).read_to_end(None)

    async def has_records(self) -> bool:
        """Whether anything was ever written to the topic. Raise KafkaError if that is not known."""
        for partition in range(self.access.partition_count):
            if await self.access.end(partition):
                return True
        return False

    async def append(self, event: RemoteEvent) -> None:
        """Append a record. Raise KafkaError if that failed, or if it is not known."""
        self.checked_id()
        await self.access.append(self._partition_of(key_of(event)), encode(event))

    async def aclose(self) -> None:
        """Follow nothing any more."""
        tails = list(self._tails.values())
        self._tails.clear()
        for each in tails:
            await each.aclose()

    def _partition_of(self, key: PartitionKey) -> int:
        return metadata_partition(key.topic_id, key.partition, self.access.partition_count)

    def _tail(self, partition: int) -> _Tail:
        tail = self._tails.get(partition)
        if tail is None:
            tail = self._tails[partition] = _Tail(self._runtime, self, partition, self._log)
        return tail


class _Following:
    """A receiver, and up to where it has read."""

    __slots__ = ("position", "receiver")

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.position = 0


class _Tail:
    """Reads one metadata partition for its receivers. None is the key of one that takes all."""

    def __init__(self, runtime: Runtime, topic: MetadataTopic, partition: int, log: Logger) -> None:
        self._runtime = runtime
        self._topic = topic
        self._partition = partition
        self._log = log
        self._following: dict[PartitionKey | None, _Following] = {}
        self._moved = asyncio.Event()
        """Set and replaced by another one whenever positions have moved."""
        self._wanted = asyncio.Event()
        """Set while there is a receiver."""
        self._task = runtime.spawn(self._run(), name=f"remote-segments-{partition}")

    def add(self, key: PartitionKey | None, receiver: Receiver) -> None:
        self._following[key] = _Following(receiver)
        self._wanted.set()

    def remove(self, key: PartitionKey | None) -> None:
        self._following.pop(key, None)
        if not self._following:
            self._wanted.clear()

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def read_to_end(self, key: PartitionKey | None) -> None:
        following = self._following[key]
        self._topic.checked_id()
        end_offset = await self._topic.access.end(self._partition)
        while following.position < end_offset:
            await self._moved.wait()

    async def _run(self) -> None:
        failures = 0
        while True:
            await self._wanted.wait()
            try:
                self._topic.checked_id()
                await self._read()
                failures = 0
            except (MoldauError, OSError) as error:
                failures += 1
                if failures >= _FAILURES_UNTIL_LINE:
                    self._topic.warn(self._partition, error)
                await asyncio.sleep(_RETRY.wait_s(failures, self._runtime.random))

    async def _read(self) -> None:
        """Read on where the receiver is that has read least."""
        start = min(each.position for each in self._following.values())
        found = await self._topic.access.read(self._partition, start)
        # One that came meanwhile has read nothing of what lies before `start`.
        reading = {key: each for key, each in self._following.items() if each.position >= start}
        for offset, value in found.values:
            event = self._decoded(offset, value)
            if event is not None:
                for key in (key_of(event), None):
                    following = reading.get(key)
                    if following is not None and following.position <= offset:
                        following.receiver.on_record(event)
        for following in reading.values():
            following.position = max(following.position, found.next_offset)
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _decoded(self, offset: int, value: bytes) -> RemoteEvent | None:
        try:
            return decode(value)
        except MalformedMessage as error:
            self._log.error(
                "a record of the topic of remote segments is malformed and left out",
                partition=self._partition,
                offset=offset,
                error=str(error),
            )
            return None
