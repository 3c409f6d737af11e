"""One task of a user's program that goes through what a consumer reads, in all ways in turn, and
what it does meanwhile with what it has in hand.

A stream is an `async for` taken step by step: each wait may be cut off, what comes between two of
them is the body of the loop, and a loop that is left in the middle may be taken up again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from random import Random
from typing import Final

from moldau.broker.log.rounds import rest
from moldau.client import TopicPartition
from moldau.client.consumer.records import PartitionRecords
from moldau.client.serdes.contract import Place
from moldau.records import ConsumerRecord
from tests.client.group.consumer_book import weighted
from tests.client.group.consumer_lives import Life

PARTS_MAX: Final = (None, 1, 3)
"""What `batches` is asked for."""
WAITS_S: Final = (0.02, 0.1, 0.3, 1.0)


class Schemas:
    """A deserializer that has to fetch something now and then."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def __call__(self, data: bytes, _: Place) -> bytes | Awaitable[bytes]:
        return data if self._random.random() < 0.97 else self._fetched(data)

    async def _fetched(self, data: bytes) -> bytes:
        await rest(self._random.uniform(0.0, 0.1))
        return data


class Stream:
    """`async for` over records, or over parts."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._what = weighted(life.random, {"record": 3, "part": 2})
        self._source: AsyncIterator[ConsumerRecord | PartitionRecords]
        if self._what == "record":
            self._source = aiter(life.consumer)
        else:
            self._source = life.consumer.batches(max_records=life.random.choice(PARTS_MAX))

    async def take(self, within_s: float) -> bool:
        """The next one, if it comes in this time."""
        life = self._life

        async def take() -> int | None:
            try:
                with life.hands.asking():
                    given = await anext(self._source)
            except StopAsyncIteration:
                return None
            life.hands.be_answered()
            records = [given] if isinstance(given, ConsumerRecord) else given.records
            offsets = [each.offset for each in records]
            where = TopicPartition(given.topic, given.partition)
            life.hands.take(where, offsets)
            life.be_given(given.topic, given.partition, offsets)
            return len(offsets)

        ended = await life.read(f"takes a {self._what}", take, within_s, within_s, here=True)
        life.book.counts[f"took a {self._what}"] += bool(ended.result)
        return bool(ended.result)


class Reading:
    """By one task."""

    def __init__(self, life: Life, *, hangs: bool = False) -> None:
        """`hangs` where it works on something now and then until it is cancelled."""
        self._life = life
        self._random = life.random
        self._hangs = hangs
        self._stream: Stream | None = None
        """What it goes through."""
        self._aside: Stream | None = None
        """What it has left in the middle."""

    async def go_on(self, steps: int) -> None:
        """For a while."""
        for _ in range(steps):
            if self._life.closing is not None or self._life.game.is_ending:
                break
            if await self._take():
                await self._work()
            else:
                await rest(0.01)  # also where another task polls, which is told at once
        if self._random.random() < 0.5:
            self._leave()

    async def _take(self) -> bool:
        ways = {"go on": 12, "begin anew": 2, "take up again": 2, "poll": 2}
        within_s = self._random.choice(WAITS_S)
        match weighted(self._random, ways):
            case "begin anew":
                self._leave()
            case "take up again":
                self._stream, self._aside = self._aside, self._stream
                self._life.book.counts["took up again"] += self._stream is not None
            case "poll":
                ended = await self._life.poll(within_s, here=True)
                return bool(ended.result)
        if self._stream is None:
            self._stream = Stream(self._life)
        return await self._stream.take(within_s)

    def _leave(self) -> None:
        """For good, or to go on with it later."""
        if self._random.random() < 0.5:
            self._stream, self._aside = self._aside, self._stream
        if self._stream is not None:
            self._life.book.note(self._life.name, "drops a stream")
            self._stream = None

    async def _work(self) -> None:
        """With something in hand."""
        life, random = self._life, self._random
        works = {"nothing": 12, "rest": 2, "work long": 2, "commit": 3, "commit soon": 2}
        works |= {"seek": 1, "pause": 1, "resume": 2, "unsubscribe": 1}
        if self._hangs:
            works |= {"hang": 10}
        match weighted(random, works):
            case "hang":
                await life.hang()
            case "rest":
                await rest(random.uniform(0.0, 0.3))
            case "work long":
                await self._work_long()
            case "commit":
                await life.commit(0.01 if random.random() < 0.2 else None, here=True)
            case "commit soon":
                await life.commit_soon()
            case "seek":
                for where in sorted(life.told)[:1]:
                    life.seek(where)
            case "pause":
                life.pause(0.3)
            case "resume":
                life.resume()
            case "unsubscribe":
                if random.random() < 0.2:
                    await life.unsubscribe(here=True)

    async def _work_long(self) -> None:
        """Longer than the interval of commits, if that is shorter than what a user may take."""
        life = self._life
        life.book.note(life.name, "works long")
        owed = life.owed_meanwhile()
        seconds = life.interval_s + 1.0
        await rest(min(seconds, 2.0))
        if seconds <= 2.0:
            life.check_committed_meanwhile(owed)
