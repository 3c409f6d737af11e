"""What `send` gives: something to await for who wants to know where a record went.

A record costs no future: the batch it is in has one outcome for all, and a future is made only for
who awaits it. A failure that nobody awaits is not lost: the producer's next `flush` raises it.
That is counted by records: who awaits one of a batch does not answer for the others, and who awaits
it when the batch has failed already has heard of it all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Generator, Iterator
from contextlib import ExitStack
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from moldau.client.producer.batch import NO_OFFSET, NO_TIMESTAMP, Batch
from moldau.errors.codes import KafkaError
from moldau.link.lifetime import wrong_loop
from moldau.link.metadata import TopicPartition
from moldau.records import BatchBuilder, Slot

_Part = tuple[Batch, int, int]


class Sent(NamedTuple):
    """Where a record is. The offset is -1 if the broker did not say it (acks=0, or the record had
    been stored at an earlier try). The timestamp is the broker's where the topic goes by that and
    the broker told it, else the record's own."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class SentRange(NamedTuple):
    """Where some records are that follow one another."""

    topic: str
    partition: int
    base_offset: int
    records: int


async def decided(batch: Batch, records: int = 0) -> None:
    """Returns when the batch is acknowledged or has failed.

    `records`: how many of the batch's records the caller answers for, so that their failure needs
    not be told by `flush`.
    """
    if not batch.is_done:
        loop = asyncio.get_running_loop()
        if isinstance(batch, AwaitedBatch) and loop is not batch.home:
            raise wrong_loop(batch.home)
        future: asyncio.Future[None] = loop.create_future()
        batch.when_done(lambda: None if future.done() else future.set_result(None), records)
        try:
            await future
        finally:
            batch.told -= records


def error_of(batch: Batch, first: int, count: int = 1) -> KafkaError | None:
    """What the first that failed of some records of a batch failed with; it is done."""
    if batch.parts is None:
        return batch.error
    errors = (part.error for part, _, _ in batch.pieces(first, count))
    return next((each for each in errors if each is not None), None)


def again(error: KafkaError) -> KafkaError:
    """The same to be raised for one of those who share it: raised for each, one error would gather
    what all of them were doing."""
    another = copy(error)
    another.__cause__ = error.__cause__
    another.__suppress_context__ = error.__suppress_context__
    return another


def sent_of(batch: Batch, index: int, timestamp_ms: int = NO_TIMESTAMP) -> Sent:
    """Where a record of that time is that was acknowledged with its batch."""
    if batch.parts is not None:
        batch, index, _ = next(batch.pieces(index, 1))
    offset = NO_OFFSET if batch.base_offset < 0 else batch.base_offset + index
    if batch.timestamp != NO_TIMESTAMP:
        timestamp_ms = batch.timestamp
    return Sent(batch.where.topic, batch.where.partition, offset, timestamp_ms)


def ranges_of(batch: Batch, first: int, count: int) -> Iterator[SentRange]:
    """Where some records are that were acknowledged with their batch."""
    for part, index, records in batch.pieces(first, count):
        sent = sent_of(part, index)
        yield SentRange(sent.topic, sent.partition, sent.offset, records)


class AwaitedBatch(Batch):
    """A batch whose records can be awaited one by one, in the loop that sends it."""

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
        """Where a record is, as soon as that is decided; KafkaError when it has failed."""
        await decided(self, 1)
        if self.error is not None:
            self.hear(index)
            error = error_of(self, index)
            if error is not None:
                raise again(error)
        return sent_of(self, index, timestamp_ms)


if TYPE_CHECKING:

    class Delivery:
        """One record on its way: `await` it for its `Sent`, or for the KafkaError it failed with.

        One is made for every record, so it comes out of the kernel: see `moldau.records.Slot`.
        """

        batch: AwaitedBatch
        index: int
        timestamp: int

        def __init__(self, batch: Batch, index: int, timestamp: int = -1) -> None: ...

        @property
        def is_done(self) -> bool:
            """Whether it is decided."""

        def __await__(self) -> Generator[Any, None, Sent]: ...

else:
    Delivery = Slot


class Deliveries:
    """Many records on their way: `await` them for their ranges, or for the first failure."""

    __slots__ = ("count", "parts")

    def __init__(self, parts: list[_Part]) -> None:
        """`parts`: a batch, the index of the first of its records, how many of them."""
        self.parts = parts
        self.count = sum(part[2] for part in parts)

    def __await__(self) -> Generator[Any, None, list[SentRange]]:
        return self._settled().__await__()

    async def _settled(self) -> list[SentRange]:
        ranges: list[SentRange] = []
        undecided = {part for part in self.parts if not part[0].is_done}
        for batch, _, count in undecided:
            batch.told += count
        for at, part in enumerate(self.parts):
            batch, first, count = part
            with ExitStack() as gives_up:
                gives_up.callback(self._forget, undecided, at)
                await decided(batch)
                gives_up.pop_all()
            error = error_of(batch, first, count)
            # With the first failure he has heard of those behind it, whenever they come.
            for each in (part,) if error is None else self.parts[at:]:
                _hear_at_end(*each, was_told=each in undecided)
            if error is not None:
                raise again(error)
            ranges += ranges_of(batch, first, count)
        return ranges

    def _forget(self, undecided: Container[_Part], at: int) -> None:
        """Who waited for these gave up at that one, and will not hear of a failure, though some may
        have failed by now."""
        for part in self.parts[at:]:
            if part in undecided:
                part[0].told -= part[2]


def _hear_at_end(batch: Batch, first: int, count: int, *, was_told: bool) -> None:
    """Somebody hears what becomes of these; `was_told`: he was counted there until now."""
    hear = partial(batch.waiter_hears if was_told else batch.hear, first, count)
    if batch.is_done:
        hear()
    else:
        batch.when_done(hear, 0)
