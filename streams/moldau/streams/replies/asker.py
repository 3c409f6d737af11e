"""A client that asks apps: it sends requests to topics, and waits for the replies.

Invariants: the replies to an asker come to one partition that it chose, outside any consumer group,
so no rebalance can lose one; the partition is read from its end as it was before the first request,
and only what is committed, so that an app with exactly-once replies once.

Why one topic for all askers of a name, and not one for each: topics of processes that are gone
would stay for ever. Replies to others in the same partition are ignored by their correlation id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Final, NamedTuple, Self

from moldau.client import LATEST, Admin, KafkaError, NewTopic, Producer, Topic, TopicPartition
from moldau.errors.codes import ErrorCode
from moldau.runtime import Runtime
from moldau.runtime.timeouts import timeout as within
from moldau.streams.durations import Duration, in_words, milliseconds
from moldau.streams.engine.batches import Chunk, Headers
from moldau.streams.plan.replies import CORRELATION_ID, ReplyAddress, encoded, result_of
from moldau.streams.problems import ReplyTimeout, StreamsError
from moldau.streams.worker.reader import Reader
from moldau.streams.worker.settings import AppSettings, app_settings, replication_factor

_PARTITIONS: Final = 4
_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": "3600000"}
"""Settings of a topic of replies: no request waits longer than an hour."""
_ID_BYTES: Final = 16
_POLL_S: Final = 10.0
_AGAIN_S: Final = 0.05
_CLOSE_S: Final = 5.0


class ReceivedReply(NamedTuple):
    """A reply as it came."""

    headers: Headers
    value: bytes | None


class _Connection(NamedTuple):
    """What an asker has while it is connected."""

    runtime: Runtime
    where: TopicPartition
    producer: Producer
    reading: asyncio.Task[None]


class Asker:
    """Asks apps that end in `Stream.reply()`, from a program that is none: it sends requests to
    their topics, and waits for the replies in a partition of the topic NAME-replies.

    The topic is created where it does not exist, with replies kept for an hour. `settings` have
    Kafka's names, and may come in the place of `bootstrap`. It belongs to one event loop: `async
    with Asker("shop", "localhost:9092") as asker`, and any number of tasks ask at a time. It
    connects at its first request.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str | Mapping[str, object] = "",
        *,
        settings: Mapping[str, object] | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        given = dict(settings or {})
        if isinstance(bootstrap, Mapping):
            given = {**bootstrap, **given}
        elif bootstrap:
            given["bootstrap.servers"] = bootstrap
        self.topic = f"{name}-replies"
        """Where replies come."""
        self._settings = app_settings(given)
        self._runtime = runtime
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._left = AsyncExitStack()
        self._waiting: dict[bytes, asyncio.Future[ReceivedReply]] = {}

    @classmethod
    def of(cls, name: str, settings: AppSettings, runtime: Runtime) -> Asker:
        """Return the asker of an app that runs with these settings."""
        found = cls(name, runtime=runtime)
        found._settings = settings
        return found

    async def __aenter__(self) -> Self:
        await self._connected()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Disconnect. Requests that wait fail."""
        self._connection = None
        await self._left.aclose()

    async def ask(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        type: Any = Any,
        timeout: Duration = "30s",  # noqa: ASYNC109 - it has its own error
        headers: Headers = (),
    ) -> Any:
        """Send a request to a topic, and return the reply, of this type; JSON or else text if none
        is given. A str is sent as text, bytes as they are, anything else as JSON.

        Raise ReplyTimeout if no reply comes in time, ReplyFailed if the app has failed on the
        request and replies with the error (`on_error="reply"`).
        """
        limit_ms = milliseconds(timeout, "ask timeout")
        record = encoded(topic, "key", key), encoded(topic, "value", value), tuple(headers)
        future: asyncio.Future[ReceivedReply] = asyncio.get_running_loop().create_future()
        sent: list[str] = []
        try:
            async with within(limit_ms / 1000):
                await self._exchange(topic, record, future, sent)
        except TimeoutError:
            raise self._too_late(topic, limit_ms, sent) from None
        reply = future.result()
        return result_of(topic, reply.headers, reply.value, type)

    async def ask_all(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        key: Callable[[Any], Any] | None = None,
        type: Any = Any,
        timeout: Duration = "30s",  # noqa: ASYNC109 - it has its own error
    ) -> list[Any]:
        """Send many requests at once, and return the replies in their order. `key(value)` makes the
        key of each. Raise what `ask` raises for the first that fails."""
        asks = [
            self.ask(
                topic, each, key=None if key is None else key(each), type=type, timeout=timeout
            )
            for each in values
        ]
        return await asyncio.gather(*asks)

    async def _exchange(
        self,
        topic: str,
        record: tuple[bytes | None, bytes | None, Headers],
        future: asyncio.Future[ReceivedReply],
        sent: list[str],
    ) -> None:
        """Send a request, note in `sent` where it is, and wait until `future` has the reply."""
        runtime, where, producer, reading = await self._connected()
        correlation_id = runtime.random.randbytes(_ID_BYTES)
        address = ReplyAddress(where.topic, where.partition, correlation_id)
        key, value, headers = record
        self._waiting[correlation_id] = future
        try:
            found = await producer.send_and_wait(
                topic, value, key=key, headers=(*headers, *address.request_headers())
            )
            sent.append(f"partition={found.partition} offset={found.offset}")
            either: set[asyncio.Future[Any]] = {future, reading}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._waiting[correlation_id]
        if not future.done():
            problem = None if reading.cancelled() else reading.exception()
            why = "the asker was closed" if problem is None else str(problem)
            raise StreamsError(f"topic={self.topic}: replies are not read any more: {why}")

    def _too_late(self, topic: str, limit_ms: int, sent: list[str]) -> ReplyTimeout:
        limit = in_words(limit_ms)
        if not sent:
            return ReplyTimeout(
                f"topic={topic}: the request was not taken within {limit}: see whether the topic "
                "exists and the brokers answer"
            )
        return ReplyTimeout(
            f"topic={topic} {sent[0]}: no reply within {limit}: see that an app reads the topic "
            f"and ends in reply(), and that its reply_topics allow {self.topic}"
        )

    # Connection

    async def _connected(self) -> _Connection:
        """Connect, unless that is done. It is done anew after the reading of replies has failed."""
        async with self._connecting:
            if self._connection is not None and self._connection.reading.done():
                await self.aclose()
            if self._connection is None:
                async with AsyncExitStack() as left:
                    self._connection = await self._connect(left)
                    self._left = left.pop_all()
            return self._connection

    async def _connect(self, left: AsyncExitStack) -> _Connection:
        runtime = self._runtime
        if runtime is None:
            from moldau.runtime.real import RealRuntime

            runtime = await left.enter_async_context(RealRuntime("asker"))
        async with Admin(self._settings.of("admin"), runtime=runtime) as admin:
            where = TopicPartition(
                self.topic, runtime.random.randrange(await self._partitions(admin))
            )
            end = (await admin.list_offsets({where: LATEST}))[where].offset
        of_reader = {
            **self._settings.of("global.consumer"),
            "isolation.level": "read_committed",
        }
        reader = Reader(of_reader, f"{self.topic}-reader", runtime)
        left.push_async_callback(reader.aclose)
        await reader.read_from({where: end})
        producer = Producer(self._settings.of("producer"), runtime=runtime)
        await producer.start()
        left.push_async_callback(_close, producer)
        reading = runtime.spawn(self._read(reader), name="replies", reported=False)
        left.push_async_callback(_cancel, reading)
        return _Connection(runtime, where, producer, reading)

    async def _partitions(self, admin: Admin) -> int:
        """Return the partition count of the topic of replies. It is created if it is missing."""
        while True:
            found = (await admin.describe_topics([self.topic]))[self.topic]
            if isinstance(found, Topic):
                return len(found.partitions)
            if found.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise found
            replicas = self._settings.own[replication_factor]
            try:
                await admin.create_topic(NewTopic(self.topic, _PARTITIONS, replicas, _CONFIGS))
            except KafkaError as error:  # another asker may have created it first
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            await asyncio.sleep(_AGAIN_S)

    async def _read(self, reader: Reader) -> None:
        while True:
            for _, chunk in await reader.read(_POLL_S):
                self._take(chunk)

    def _take(self, chunk: Chunk) -> None:
        """Give replies to the requests that wait for them."""
        for value, headers in zip(chunk.values, chunk.headers or (), strict=False):
            found = dict(headers).get(CORRELATION_ID)
            future = None if found is None else self._waiting.get(found)
            if future is not None and not future.done():
                future.set_result(ReceivedReply(headers, value))


async def _close(producer: Producer) -> None:
    with suppress(KafkaError):  # each request has heard of its own failure
        await producer.aclose(_CLOSE_S)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # those that waited have heard of it
