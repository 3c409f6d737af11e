"""One message of a queue: a record that this consumer holds, until it says what became of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, Generic, Protocol, TypeAlias

from moldau.client.consumer.share.acknowledgements import AcknowledgeType
from moldau.client.consumer.share.session import SharePartition
from moldau.deferred import deferred_pattern
from moldau.records import ConsumerRecord, K, V


class Queue(Protocol):
    """Where messages come from, and where their acknowledgements go."""

    def acknowledge(
        self, message: Message[Any, Any], kind: AcknowledgeType, delay_ms: int, reason: str | None
    ) -> bool:
        """Send what became of the message; return whether it was still this consumer's."""

    def check_offers(self, what: str) -> None:
        """Raise KafkaError if the broker does not have `what`."""


class Message(Generic[K, V]):
    """A record with its delivery. Say once what becomes of it: `ack`, `release` or `reject`.

    Each of the three returns False if the record was not this consumer's any more, because its lock
    had ended or the connection was lost: it is delivered again.
    """

    __slots__ = ("_queue", "delivery_count", "is_answered", "record", "where")

    def __init__(
        self,
        queue: Queue,
        where: SharePartition,
        record: ConsumerRecord[K, V],
        delivery_count: int,
    ) -> None:
        self.record = record
        self.where = where
        self.delivery_count = delivery_count
        """How often it was delivered, this time included."""
        self.is_answered = False
        self._queue = queue

    @property
    def key(self) -> K:
        """The key, as the key deserializer returned it."""
        return self.record.key

    @property
    def value(self) -> V:
        """The value, as the value deserializer returned it."""
        return self.record.value

    @property
    def headers(self) -> Any:
        """The headers: pairs of name and bytes."""
        return self.record.headers

    @property
    def topic(self) -> str:
        """The topic that it was read from."""
        return self.record.topic

    @property
    def partition(self) -> int:
        """The partition that it was read from."""
        return self.record.partition

    @property
    def offset(self) -> int:
        """The offset that it has there."""
        return self.record.offset

    @property
    def timestamp(self) -> int:
        """The timestamp in milliseconds; -1 without one."""
        return self.record.timestamp

    def __repr__(self) -> str:
        where = f"{self.topic}-{self.partition}@{self.offset}"
        return f"<Message {where}, delivery {self.delivery_count}>"

    def ack(self) -> bool:
        """Say that it is done: no consumer gets it again."""
        return self._answer(AcknowledgeType.ACCEPT)

    def release(self, delay: Delay = None) -> bool:
        """Give it back, for another delivery to any consumer; with a `delay` (`"30s"`, seconds or a
        timedelta) not before that time. Apache Kafka has no delays."""
        delay_ms = -1
        if delay is not None:
            self._queue.check_offers("release(delay=...)")
            delay_ms = delay_ms_of(delay)
        return self._answer(AcknowledgeType.RELEASE, delay_ms)

    def reject(self, reason: str | None = None) -> bool:
        """Give it up: no consumer gets it again. The `reason` goes into the dead letter, if the
        group has a topic for those; Apache Kafka has none and passes over it."""
        return self._answer(AcknowledgeType.REJECT, reason=reason)

    def _answer(self, kind: AcknowledgeType, delay_ms: int = -1, reason: str | None = None) -> bool:
        if self.is_answered:
            raise ValueError(f"{self!r}: it is said already what becomes of this message")
        self.is_answered = True
        return self._queue.acknowledge(self, kind, delay_ms, reason)


Delay: TypeAlias = "str | float | timedelta | None"

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT: Final = deferred_pattern(r"(\d{1,12})(ms|s|m|h|d)")
_MS_MAX: Final = 2**62


def delay_ms_of(given: Delay) -> int:
    """Return milliseconds; -1 for None. Raise ValueError for what is no delay."""
    if given is None:
        return -1
    if isinstance(given, str):
        found = _TEXT.fullmatch(given.strip())
        if found is None:
            raise ValueError(f"{given!r} is no delay: write 500ms, 30s, 5m, 2h or 1d")
        return int(found[1]) * _UNITS_MS[found[2]]
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(seconds, bool) or not 0 <= seconds * 1000 <= _MS_MAX:
        raise ValueError(f"{given!r} is no delay: it has to be 0 or more seconds")
    return round(seconds * 1000)
