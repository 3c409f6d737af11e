"""The return value of `send`: an awaitable for the place of a record in the log.

A record needs no future: its batch has one outcome for all, and a future is made only for a caller
that waits. Every await of a `Delivery` raises its failure, and the record then counts as awaited; a
cancelled wait does not count. `flush` raises the failures that were not awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.client.producer.batch import NO_OFFSET, NO_TIMESTAMP, Batch
from moldau.errors.codes import KafkaError
from moldau.link.lifetime import wrong_loop
from moldau.link.metadata import TopicPartition
from moldau.records import BatchBuilder, Slot

Part = tuple[Batch, int, int]
"""Consecutive records of a batch: the batch, the index of the first, their number."""


class Sent(NamedTuple):
    """The place of a record in the log. The offset is -1 if the broker did not send it (acks=0, or
    an earlier try had stored the record). The timestamp is the broker's if the topic uses that and
    the broker sent it, else the record's own."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class SentRange(NamedTuple):
    """The place of consecutive records in the log."""

    topic: str
    partition: int
    base_offset: int
    records: int


async def decided(batch: Batch) -> None:
    """Return when the batch is acknowledged or has failed."""
    if not batch.is_done:
        await _end_of(batch)


def _end_of(batch: Batch) -> asyncio.Future[None]:
    """Return a future for the end of a batch. Raise WrongLoop in another loop than its own."""
    loop = asyncio.get_running_loop()
    if isinstance(batch, AwaitedBatch) and loop is not batch.home:
        raise wrong_loop(batch.home)
    future: asyncio.Future[None] = loop.create_future()
    batch.when_done(partial(_wake, future))
    return future


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def error_of(batch: Batch, first: int, count: int = 1) -> KafkaError | None:
    """Return the error of the first failed one of these decided records; None if none failed."""
    if batch.parts is None:
        return batch.error
    errors = (part.error for part, _, _ in batch.pieces(first, count))
    return next((each for each in errors if each is not None), None)


def again(error: KafkaError) -> KafkaError:
    """Return a copy to raise: one error raised in several tasks would collect all tracebacks."""
    another = copy(error)
    another.__cause__ = error.__cause__
    another.__suppress_context__ = error.__suppress_context__
    return another


def sent_of(batch: Batch, index: int, timestamp_ms: int = NO_TIMESTAMP) -> Sent:
    """Return the place of an acknowledged record that had this timestamp."""
    if batch.parts is not None:
        batch, index, _ = next(batch.pieces(index, 1))
    offset = NO_OFFSET if batch.base_offset < 0 else batch.base_offset + index
    if batch.timestamp != NO_TIMESTAMP:
        timestamp_ms = batch.timestamp
    return Sent(batch.where.topic, batch.where.partition, offset, timestamp_ms)


def ranges_of(batch: Batch, first: int, count: int) -> Iterator[SentRange]:
    """Iterate over the places of these acknowledged records."""
    for part, index, records in batch.pieces(first, count):
        sent = sent_of(part, index)
        yield SentRange(sent.topic, sent.partition, sent.offset, records)


class AwaitedBatch(Batch):
    """A batch whose records can be awaited one by one, in the event loop that sends it."""

    __slots__ = ("home",)

    def __init__(
        self,
        home: asyncio.AbstractEventLoop,
        where: TopicPartition,
        builder: BatchBuilder,
        created: float,
    ) -> None:
        super().__init__(where, builder, created)
        self.home = home

    async def outcome(self, index: int, timestamp_ms: int = NO_TIMESTAMP) -> Sent:
        """Wait until a record is decided. Return its place, or raise its KafkaError."""
        if not self.is_done:
            await _end_of(self)
        if self.error is not None:
            error = error_of(self, index)
            if error is not None:
                self.mark_awaited(index)
                raise again(error)
        return sent_of(self, index, timestamp_ms)


if TYPE_CHECKING:

    class Delivery:
        """A record that is being sent: await it for its `Sent`, or for its KafkaError.

        One is made for every record, so the class is in the kernel: see `moldau.records.Slot`.
        """

        batch: AwaitedBatch
        index: int
        timestamp: int

        def __init__(self, batch: Batch, index: int, timestamp: int = -1) -> None: ...

        @property
        def is_done(self) -> bool:
            """Whether the record is acknowledged or has failed."""

        def __await__(self) -> Generator[Any, None, Sent]: ...

else:
    Delivery = Slot


class Deliveries:
    """Many records that are being sent: await them for their ranges, or for the first failure,
    after which all of them count as awaited."""

    __slots__ = ("count", "parts")

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self.count = sum(part[2] for part in parts)

    def __await__(self) -> Generator[Any, None, list[SentRange]]:
        return self._outcome().__await__()

    async def _outcome(self) -> list[SentRange]:
        ranges: list[SentRange] = []
        for at, part in enumerate(self.parts):
            await decided(part[0])
            error = error_of(*part)
            if error is not None:
                for batch, first, count in self.parts[at:]:
                    batch.mark_awaited(first, count)
                raise again(error)
            ranges += ranges_of(*part)
        return ranges
