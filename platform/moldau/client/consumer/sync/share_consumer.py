"""The share consumer for threads: reads topics as queues (KIP-932).

    with ShareConsumer("orders", group="mailer", bootstrap_servers="h:9092") as queue:
        for message in queue:
            send(message.value)              # the lock is renewed while this runs
            message.ack()                    # or .release(delay="30s"), .reject("why")

Several threads may share one consumer with `share_acknowledgement_mode="explicit"`. In implicit
mode each call acknowledges what the one before has returned, whichever thread works on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic, Self, Unpack

from moldau.client.base.configuration import Configuration
from moldau.client.base.notices import not_hiding
from moldau.client.consumer.share.consumer import ShareConsumer as AsyncShareConsumer
from moldau.client.consumer.share.consumer import ShareConsumerOptions
from moldau.client.consumer.share.message import Delay
from moldau.client.consumer.share.message import Message as AsyncMessage
from moldau.client.consumer.sync.share_consumer_calls import ShareConsumerCalls
from moldau.client.serdes.contract import DeserializerTo
from moldau.link.arguments import seconds
from moldau.records import ConsumerRecord, K, V
from moldau.runtime import Runtime

_CLOSE_S: Final = 30.0
_ATTEMPTS: Final = 5


class Message(Generic[K, V]):
    """A record with its delivery. Say once what becomes of it: `ack`, `release` or `reject`; each
    returns False if the record was not this consumer's any more."""

    __slots__ = ("_message", "_run")

    def __init__(
        self, message: AsyncMessage[K, V], run: Callable[[Callable[[], Any]], Any]
    ) -> None:
        self._message = message
        self._run = run

    @property
    def record(self) -> ConsumerRecord[K, V]:
        """The record itself."""
        return self._message.record

    @property
    def delivery_count(self) -> int:
        """How often it was delivered, this time included."""
        return self._message.delivery_count

    @property
    def is_answered(self) -> bool:
        """Whether it is said what becomes of it."""
        return self._message.is_answered

    @property
    def key(self) -> K:
        """The key, as the key deserializer returned it."""
        return self._message.key

    @property
    def value(self) -> V:
        """The value, as the value deserializer returned it."""
        return self._message.value

    @property
    def headers(self) -> Any:
        """The headers: pairs of name and bytes."""
        return self._message.headers

    @property
    def topic(self) -> str:
        """The topic that it was read from."""
        return self._message.topic

    @property
    def partition(self) -> int:
        """The partition that it was read from."""
        return self._message.partition

    @property
    def offset(self) -> int:
        """The offset that it has there."""
        return self._message.offset

    @property
    def timestamp(self) -> int:
        """The timestamp in milliseconds; -1 without one."""
        return self._message.timestamp

    def __repr__(self) -> str:
        return repr(self._message)

    def ack(self) -> bool:
        """Say that it is done: no consumer gets it again."""
        return bool(self._run(self._message.ack))

    def release(self, delay: Delay = None) -> bool:
        """Give it back, for another delivery to any consumer; with a `delay` (`"30s"`, seconds or a
        timedelta) not before that time. Apache Kafka has no delays."""
        return bool(self._run(lambda: self._message.release(delay)))

    def reject(self, reason: str | None = None) -> bool:
        """Give it up: no consumer gets it again. The `reason` goes into the dead letter, if the
        group has a topic for those; Apache Kafka has none and passes over it."""
        return bool(self._run(lambda: self._message.reject(reason)))


Handler = Callable[[Message[Any, Any]], object]


class ShareConsumer(ShareConsumerCalls, Generic[K, V]):
    """A member of a share group, for threads."""

    kind = "share consumer"

    def __init__(
        self,
        topics: Iterable[str] | str | re.Pattern[str],
        settings: Mapping[str, object] | None = None,
        *,
        key_deserializer: DeserializerTo[K] = None,
        value_deserializer: DeserializerTo[V] = None,
        **options: Unpack[ShareConsumerOptions],
    ) -> None:
        """Read these topics as a member of `group`, which is `group.id`. A compiled pattern must
        match the whole name, and also matches topics created later. Take `settings` by Kafka's
        names; `options` (underscores for dots) override them. Deserializers are called on the
        loop's thread."""
        objects = {
            "topics": topics if isinstance(topics, str | re.Pattern) else tuple(topics),
            "key_deserializer": key_deserializer,
            "value_deserializer": value_deserializer,
        }
        super().__init__(settings, {**objects, **options})
        self._client = self._make()
        self.settings = self._client.settings
        self.topics = self._client.topics
        self.group_id = self._client.group_id

    @classmethod
    def from_config(cls, configuration: Configuration[Self]) -> Self:
        """Return a consumer of this configuration, not started yet."""
        return cls(settings=configuration.settings, **configuration.options)

    def _make(self, runtime: Runtime | None = None) -> AsyncShareConsumer[K, V]:
        settings, options = self._given
        return AsyncShareConsumer(settings=settings, runtime=runtime, **options)

    async def _begin(self, runtime: Runtime) -> None:
        self._client = self._make(runtime)
        await self._client.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with not_hiding(kind, self.kind):
            self.close()

    def close(self, timeout_s: float = _CLOSE_S) -> None:
        """Send what was acknowledged, give back everything else, leave the group and close the
        connections. May be called again, also by several threads at once."""
        timeout_s = seconds(timeout_s, "timeout_s")
        self._check_may_close()
        self._end(self._client.aclose(timeout_s))

    async def _drop(self) -> None:
        await self._client._close(0.0)

    # Messages

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message[K, V]:
        found = self._call(self._client._next(1, None))
        if not found:
            raise StopIteration
        return Message(found[0], self._run)

    def poll(
        self, timeout_s: float = 0.0, *, max_records: int | None = None
    ) -> list[Message[K, V]]:
        """Return up to `max_records` messages (`max.poll.records` by default); wait for the first
        one at most `timeout_s`. In implicit mode this acknowledges what was returned before."""
        found = self._call(self._client.poll(timeout_s, max_records=max_records))
        return [Message(each, self._run) for each in found]

    def map(
        self,
        handler: Handler,
        *,
        concurrency: int = 50,
        attempts: int = _ATTEMPTS,
    ) -> None:
        """Run `handler(message)` for each message, in up to `concurrency` threads, until closed.

        A message is acknowledged when the handler returns, unless the handler has answered it.
        After an exception it is released; on the `attempts`th delivery it is rejected instead.
        """

        async def handle(message: AsyncMessage[K, V]) -> None:
            own = Message(message, self._run)
            await self._client._cluster.runtime.run_blocking(handler, own)

        self._call(self._client.map(handle, concurrency=concurrency, attempts=attempts))
