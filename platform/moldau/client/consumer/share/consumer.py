"""The share consumer: reads topics as queues (KIP-932).

    async with ShareConsumer("orders", group="mailer", bootstrap_servers="h:9092") as queue:
        async for message in queue:
            await send(message.value)        # the lock is renewed while this runs
            message.ack()                    # or .release(delay="30s"), .reject("why")

Any number of consumers of a group read the same partitions; each message is given to one of them at
a time. A message that is not acknowledged before its lock ends, or the consumer of which is
gone, is delivered again; `message.delivery_count` says how often it was.

In implicit mode (the default) taking the next messages acknowledges those that were returned before
and not answered. Several tasks that share one consumer need `map`, or
share_acknowledgement_mode="explicit".

Invariants: a message is returned once by one consumer, unless it is delivered again. Closing sends
what was acknowledged and gives back everything else.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, Generic, Protocol, Self, Unpack

from moldau.client.base.given import GivenSettings, resolve
from moldau.client.base.lifecycle import Lifecycle, comes_with_start, reach
from moldau.client.base.notices import not_hiding
from moldau.client.base.user_code import LOG
from moldau.client.consumer.decoding import RecordDecoder
from moldau.client.consumer.share.member import ShareMember
from moldau.client.consumer.share.message import Message
from moldau.client.consumer.share.metrics import ShareMetrics
from moldau.client.consumer.share.options import ShareOptions
from moldau.client.consumer.share.reader import ReaderOptions, ShareReader, Window
from moldau.client.consumer.share.session import FetchLimits
from moldau.client.group.member import MemberSettings
from moldau.client.group.subscription import Interest, interest
from moldau.client.serdes.contract import DeserializerTo
from moldau.client.settings import consumer as consumer_rows
from moldau.client.settings import group as group_rows
from moldau.client.settings import rows
from moldau.client.settings import serdes as serde_rows
from moldau.client.settings import share as own_rows
from moldau.client.settings.every_client import (
    WITHOUT_MEANING_TO_CONSUMERS,
    metrics_num_samples,
    metrics_sample_window_ms,
)
from moldau.errors import ConfigError
from moldau.errors.codes import KafkaError
from moldau.ids import format_uuid, new_uuid
from moldau.link.arguments import seconds
from moldau.link.cluster import Cluster
from moldau.link.lifetime import closed
from moldau.link.metadata import TopicPartition
from moldau.metrics import Registry
from moldau.records import K, V
from moldau.runtime import Runtime

_CLOSE_S: Final = 30.0
_HOLDS_MAX: Final = {"record_limit": 2000, "batch_optimized": 1000}
"""How many messages a consumer holds at most by its share_acquire_mode, unless max.poll.records is
given. With one poll it would wait for the broker between any two. Whole batches come beside what is
asked for; with as many as a partition has locks, none would be free for the next fetch."""
_ATTEMPTS: Final = 5
"""Kafka's default of share.delivery.count.limit."""

_OWN: Final = (own_rows.share_acknowledgement_mode.name, own_rows.share_acquire_mode.name)
_OF_GROUP: Final = {
    name: f"for a queue it is a setting of the group, share.{name} (moldau config set group)"
    for name in (
        *("auto.offset.reset", "isolation.level"),
        *("session.timeout.ms", "heartbeat.interval.ms"),
    )
}
_WITHOUT_MEANING: Final = {
    name: why
    for name, why in {
        **WITHOUT_MEANING_TO_CONSUMERS,
        **serde_rows.WITHOUT_MEANING,
        **_OF_GROUP,
    }.items()
    if name not in _OWN
}


class ShareConsumerOptions(ShareOptions, total=False):
    """The keywords of `ShareConsumer`."""

    group: str | None
    """The same as `group_id`."""


class ShareConsumer(Generic[K, V]):
    """A member of a share group, bound to the event loop that starts it."""

    _cluster: Cluster = comes_with_start("share consumer")
    _reader: ShareReader = comes_with_start("share consumer")

    def __init__(
        self,
        topics: Iterable[str] | str | re.Pattern[str],
        settings: Mapping[str, object] | None = None,
        *,
        runtime: Runtime | None = None,
        key_deserializer: DeserializerTo[K] = None,
        value_deserializer: DeserializerTo[V] = None,
        **options: Unpack[ShareConsumerOptions],
    ) -> None:
        """Read these topics as a member of `group`, which is `group.id`. A compiled pattern must
        match the whole name, and also matches topics created later. Take `settings` by Kafka's
        names; `options` (underscores for dots) override them."""
        named = {"group_id" if name == "group" else name: each for name, each in options.items()}
        for name, advice in _OF_GROUP.items():
            if name.replace(".", "_") in named:
                raise ConfigError(advice, setting=name)
        self._given = GivenSettings(
            settings or {},
            named,
            without_meaning=_WITHOUT_MEANING,
            of_others=rows.OF_OTHERS_THAN_SHARE_CONSUMERS,
        )
        self.settings = resolve(rows.SHARE_CONSUMER_SETTINGS, self._given.settings, {})
        self._interest = _interest_of(topics)
        self.topics = self._interest.names
        """The topics that were named; none beside a pattern."""
        self.group_id = self.settings[group_rows.group_id] or ""
        if not self.group_id:
            raise ConfigError("a share consumer needs a group", setting="group.id")
        self._world = Lifecycle("share consumer", runtime)
        self._given_deserializers = (key_deserializer, value_deserializer)
        self._decoding: RecordDecoder | None = None
        self._is_implicit = self.settings[own_rows.share_acknowledgement_mode] == "implicit"
        self._unanswered: list[Message[K, V]] = []
        """What was returned last, in implicit mode."""
        self._is_closing = False
        self._begun: ShareReader | None = None

    def __repr__(self) -> str:
        return self._world.shown(self, self.settings)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with not_hiding(kind, "share consumer"):
            await self.aclose()

    async def start(self) -> None:
        """Connect, and join the group. Raise KafkaError if no bootstrap server can be reached. A
        second call does nothing."""
        async with self._world.opening(self._close) as is_new:
            if is_new:
                self._given.log_notices("share consumer", self.settings)
                await self._begin()

    async def _begin(self) -> None:
        runtime = self._world.enter()
        settings = self.settings
        self._is_closing = False
        self._decoding = RecordDecoder.of(self._given_deserializers, settings, runtime)
        self._cluster = self._world.cluster = Cluster(
            runtime,
            settings,
            creates_topics=False,
            answer_bytes_max=settings[consumer_rows.fetch_max_bytes],
            tokens=self._given.objects.get("oauth"),
            on_update=self._on_metadata,
        )
        member_id = format_uuid(new_uuid(runtime.random))
        terms = MemberSettings(
            group_id=self.group_id,
            rack=settings[consumer_rows.client_rack] or None,
            backoff=self._cluster.backoff,
        )
        limits = FetchLimits(
            terms.group_id,
            member_id,
            settings[consumer_rows.fetch_min_bytes],
            settings[consumer_rows.fetch_max_bytes],
            settings[consumer_rows.fetch_max_wait_ms],
            by_records=settings[own_rows.share_acquire_mode] == "record_limit",
        )
        window_s = settings[metrics_sample_window_ms] / 1000
        self._reader = ShareReader(
            runtime,
            self._cluster,
            ShareMember(terms, self.topics, member_id, runtime.random),
            limits,
            ReaderOptions(
                Window(self._holds_max()),
                self._decoding,
                ShareMetrics(runtime.clock, window_s, settings[metrics_num_samples]),
                check_crcs=settings[consumer_rows.check_crcs],
            ),
        )
        self._begun = self._reader
        self._cluster.watches_all = self._cluster.follows_pattern = self._interest.is_pattern
        self._cluster.watch(self.topics)
        await reach(self._cluster, "share consumer")
        self._on_metadata()
        self._reader.begin()

    def _on_metadata(self) -> None:
        if self._interest.is_pattern:
            self._reader.subscribe(self._interest.wanted(self._cluster.metadata).topics)
        self._reader.retarget()

    def _holds_max(self) -> int:
        row = consumer_rows.max_poll_records
        is_given = row.name in self._given.settings
        if is_given:
            return int(self.settings[row])
        return _HOLDS_MAX[self.settings[own_rows.share_acquire_mode]]

    async def aclose(self, timeout_s: float = _CLOSE_S) -> None:
        """Send what was acknowledged, give back everything else, leave the group and close the
        connections. Messages that were returned last and not answered are given back too."""
        timeout_s = seconds(timeout_s, "timeout_s")
        self._world.is_closed = True
        await self._close(timeout_s)

    async def _close(self, timeout_s: float = _CLOSE_S) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        async with AsyncExitStack() as left:
            left.push_async_callback(self._world.aclose)
            if self._decoding is not None:
                left.push_async_callback(self._decoding.aclose)
            if self._begun is not None:
                left.push_async_callback(self._cluster.aclose)
                await self._begun.aclose(timeout_s)

    # Messages

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[K, V]:
        found = await self._next(1, None)
        if not found:
            raise StopAsyncIteration
        return found[0]

    async def poll(
        self, timeout_s: float = 0.0, *, max_records: int | None = None
    ) -> list[Message[K, V]]:
        """Return up to `max_records` messages (`max.poll.records` by default); wait for the first
        one at most `timeout_s`. In implicit mode this acknowledges what was returned before."""
        count = (
            self.settings[consumer_rows.max_poll_records] if max_records is None else max_records
        )
        if count < 1:
            raise ValueError(f"max_records is {count}: it has to be 1 or more")
        return await self._next(count, seconds(timeout_s, "timeout_s"))

    async def _next(self, count_max: int, timeout_s: float | None) -> list[Message[K, V]]:
        self._check_open()
        self._reader.accept(self._unanswered)
        self._unanswered = []
        found = await self._reader.take(count_max, timeout_s)
        if self._is_implicit:
            self._unanswered = found
        return found

    async def map(
        self, handler: Handler, *, concurrency: int = 50, attempts: int = _ATTEMPTS
    ) -> None:
        """Run `handler(message)` for each message, up to `concurrency` at a time, until closed.

        A message is acknowledged when the handler returns, unless the handler has answered it.
        After an exception it is released: with a delay of 1, 2, 4 .. 60 s if the broker has delays;
        on the `attempts`th delivery it is rejected instead. A group gives a message up after
        `share.delivery.count.limit` deliveries whatever `attempts` says.
        """
        self._check_open()
        if concurrency < 1 or attempts < 1:
            raise ValueError("concurrency and attempts have to be 1 or more")
        self._reader.window.hold_at_least(concurrency)
        await handle_all(self._cluster.runtime, self._reader, handler, concurrency, attempts)

    async def commit(self) -> dict[TopicPartition, KafkaError]:
        """Wait until all that was acknowledged is stored. Return the partitions in which an
        acknowledgement has failed since the last call, each with its error: those messages are
        delivered again."""
        self._check_open()
        await self._reader.settle()
        failures, self._reader.failures = self._reader.failures, {}
        return failures

    # What it is

    @property
    def member_id(self) -> str:
        """This consumer's member id in its group."""
        return self._reader.member.member_id

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that the group has assigned to this consumer."""
        return self._reader.assignment()

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return Kafka's share consumer metrics by group and name."""
        return self._reader.metrics.kafka_metrics()

    @property
    def registry(self) -> Registry:
        """The same metrics for exporters (`moldau.metrics.render_prometheus`)."""
        return self._reader.metrics.registry

    def _check_open(self) -> None:
        if self._world.is_closed:
            raise closed("share consumer")
        self._cluster.check_loop()


def _interest_of(topics: Iterable[str] | str | re.Pattern[str]) -> Interest:
    """Return what a share consumer reads. Raise ValueError if that is nothing."""
    if isinstance(topics, re.Pattern):
        return interest(None, topics, is_remote=False, excludes_internal=True)
    names = frozenset([topics] if isinstance(topics, str) else topics)
    if not names or not all(names):
        raise ValueError("topics is empty: name at least one topic")
    return Interest(names)


Handler = Callable[[Message[Any, Any]], Awaitable[object]]
_FIRST_S: Final = 1.0
_LAST_S: Final = 60.0


class Source(Protocol):
    """Where the messages come from."""

    async def take(self, count_max: int, timeout_s: float | None) -> list[Message[Any, Any]]:
        """Return up to so many messages, none if the queue is closed."""

    def can_delay(self) -> bool:
        """Whether the broker delays a released message."""


async def handle_all(
    runtime: Runtime, source: Source, handler: Handler, concurrency: int, attempts: int
) -> None:
    """Run the handler for each message until the queue is closed.

    A message is acknowledged when the handler returns without having answered it. After an
    exception it is released, after the `attempts`th delivery rejected with the exception's text.
    """
    running: set[asyncio.Task[None]] = set()
    try:
        while True:
            while len(running) >= concurrency:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                running = {each for each in running if not each.done()}
            found = await source.take(concurrency - len(running), None)
            if not found:
                break
            for message in found:
                running.add(_begin(runtime, source, handler, message, attempts))
        if running:
            await asyncio.wait(running)
    finally:
        for each in running:
            each.cancel()


def _begin(
    runtime: Runtime, source: Source, handler: Handler, message: Message[Any, Any], attempts: int
) -> asyncio.Task[None]:
    """Begin to handle a message. Its answer is given when the handler ends; none if the handler is
    cancelled."""

    async def handle() -> None:
        await handler(message)

    def ended(task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if message.is_answered:
            if error is not None:
                LOG.error("share consumer: the handler of %r has failed", message, exc_info=error)
        elif error is None:
            message.ack()
        else:
            _fail(source, message, attempts, error)

    task = runtime.spawn(handle(), name=f"handle {message!r}", reported=False)
    task.add_done_callback(ended)
    return task


def _fail(source: Source, message: Message[Any, Any], attempts: int, error: BaseException) -> None:
    count = message.delivery_count
    if count >= attempts:
        words = "share consumer: %r is rejected after %d deliveries"
        LOG.error(words, message, count, exc_info=error)
        message.reject(f"{type(error).__name__}: {error}")
        return
    delay_s = min(_LAST_S, _FIRST_S * 2 ** (count - 1)) if source.can_delay() else None
    LOG.warning("share consumer: %r is released: %r", message, error)
    message.release(delay_s)
