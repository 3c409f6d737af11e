"""Replays a topic: to its end, and then what is appended to it.

Invariants: `replay` is called for each committed record, in the order of its partition. On return
from `catch_up` it was called for all that was committed before the call. Where other processes
write in transactions, the end is that of the log, behind transactions that are open, and so their
end is waited for: a record that was acknowledged to another process is never missed.

After an election a leader does not know the end for a moment. It says so (OFFSET_NOT_AVAILABLE,
KIP-207), and the client asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

from moldau.client import Admin, Consumer, KafkaError, Sent, TopicPartition
from moldau.client.base.offsets import LATEST
from moldau.errors.amounts import counted
from moldau.folds.progress import FoldProgress
from moldau.folds.topic import FoldTopic, ensure_topic
from moldau.logging import Logger
from moldau.records import ConsumerRecord
from moldau.runtime import Runtime
from moldau.runtime.timeouts import timeout

Record: TypeAlias = ConsumerRecord[bytes | None, bytes | None]
Replay: TypeAlias = Callable[[Record], Any]
Ends: TypeAlias = Mapping[TopicPartition, int]

_PATIENCE_S: Final = 60.0
_TRANSACTIONS_S: Final = 150.0
"""How long to wait if a transaction of a killed process may be open, which the cluster aborts after
the minute of its timeout, or the interval of its boundary more."""
_POLL_S: Final = 5.0
_LOOK_S: Final = 0.2
"""A position that moves behind a marker wakes no poll."""
_READER: Final = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
    "isolation.level": "read_committed",
    "max.poll.records": "100",  # of one turn: others share the event loop
}


class TopicFold:
    """The fold of one topic: `start` reads it and follows it. Without `start`, `connect` and
    `assign` open it, and it is read only within `catch_up`."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Mapping[str, object],
        topic: FoldTopic,
        replay: Replay,
        log: Logger | None = None,
        admin_settings: Mapping[str, object] | None = None,
    ) -> None:
        """`log` is for the errors of a fold that is followed. Without `admin_settings`, `settings`
        are those of all its clients."""
        self._runtime = runtime
        self.topic = topic
        self._replay = replay
        self._log = log
        self._consumer = Consumer({**settings, **_READER}, runtime=runtime)
        # A connection of its own: on the consumer's an answer waits until a fetch returns records.
        self.admin = Admin(settings if admin_settings is None else admin_settings, runtime=runtime)
        self._progress = FoldProgress()
        self._partitions: list[TopicPartition] = []
        self._follower: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()

    async def start(self) -> None:
        """Make or check the topic, read it, and follow it. On return `replay` was called for each
        record that was committed before. Raise ConfigError, KafkaError or TimeoutError."""
        await self.connect()
        await ensure_topic(self.admin, self.topic)
        await self.assign()
        name = f"follow {self.topic.name}"
        self._follower = self._runtime.spawn(self._follow(), name=name)
        # A killed process may have left a transaction open, which its next run ends. That run may
        # wait for this start, so this start does not wait for the transaction.
        await self.read_to(await self._ends(is_committed=True))

    async def connect(self) -> None:
        """Connect the clients."""
        await self.admin.start()
        await self._consumer.start()

    async def assign(self) -> None:
        """Read the topic, which exists, from its beginning."""
        self._partitions = await self._consumer.partitions(self.topic.name)
        self._consumer.assign(self._partitions)
        await self._consumer.seek_to_beginning()

    @property
    def is_assigned(self) -> bool:
        return bool(self._partitions)

    def followed(self) -> asyncio.Task[None]:
        """Return the task that follows the topic. It ends by `aclose`, or by a record that cannot
        be read or replayed."""
        assert self._follower is not None, "not started"
        return self._follower

    async def _follow(self) -> None:
        while True:
            try:
                await self._read(_POLL_S)
            except KafkaError as error:
                pause_s = self._progress.on_error(self._runtime.random)
                if self._log is not None:
                    warning = f"{self.topic.title} cannot be read, trying on"
                    self._log.warn(warning, error=str(error))
                await asyncio.sleep(pause_s)
            self._moved.set()
            await asyncio.sleep(0)

    async def _read(self, timeout_s: float) -> None:
        replay = self._replay
        for part in await self._consumer.poll(timeout_s):
            for record in part.records:
                replay(record)
        self._progress.on_read(self._positions())

    def _positions(self) -> dict[TopicPartition, int | None]:
        return {where: self._consumer.position(where) for where in self._partitions}

    async def catch_up(self) -> None:
        """Read all that was appended before this call. Raise KafkaError or TimeoutError."""
        await self.read_to(await self._ends(is_committed=not self.topic.has_transactions))

    async def read_back(self, sent: Sequence[Sent]) -> None:
        """Read to behind these records, which were acknowledged."""
        ends = {TopicPartition(each.topic, each.partition): each.offset + 1 for each in sent}
        if 0 in ends.values():  # the broker had it from an earlier attempt, and names no offset
            await self.catch_up()
        else:
            await self.read_to(ends)

    async def _ends(self, *, is_committed: bool) -> Ends:
        wanted = dict.fromkeys(self._partitions, LATEST)
        found = await self.admin.list_offsets(wanted, is_committed=is_committed)
        return {where: end.offset for where, end in found.items()}

    async def read_to(self, ends: Ends) -> None:
        """Read all below these offsets. Raise TimeoutError if that takes too long, and what has
        ended the following task."""
        patience_s = _TRANSACTIONS_S if self.topic.has_transactions else _PATIENCE_S
        try:
            async with timeout(patience_s):
                while self._progress.unread(ends):
                    await self._read_on()
                    self._progress.note(self._positions())
        except TimeoutError:
            left = sum(self._progress.unread(ends).values())
            troubles = "".join(f": {each}" for each in self._consumer.troubles().values())
            raise TimeoutError(
                f"{self.topic.title} ({self.topic.name}) was not read to its end within "
                f"{patience_s:g} s, left: {counted(left, 'offset')}{troubles}"
            ) from None

    async def _read_on(self) -> None:
        """Read, or wait for the task that does."""
        if self._follower is None:
            await self._read(_LOOK_S)
            return
        if self._follower.done():
            self._follower.result()
        self._moved.clear()
        with suppress(TimeoutError):
            async with timeout(_LOOK_S):
                await self._moved.wait()

    async def aclose(self) -> None:
        """Close all connections. May be called again."""
        follower, self._follower = self._follower, None
        if follower is not None:
            follower.cancel()
            await asyncio.wait([follower])
        await self.admin.aclose()
        await self._consumer.aclose()
