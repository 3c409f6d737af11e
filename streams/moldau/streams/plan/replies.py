"""The headers of a request that wants a reply, and those of the reply. Pure.

They are those of Spring's ReplyingKafkaTemplate. The writer of a request says where its reply
goes, so an app sends replies only to topics that it allows: a header must not lead it to write to
any topic that it has a right to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from moldau.streams.problems import ReplyFailed, StreamsError
from moldau.streams.serdes.types import LENIENT_JSON, UNREADABLE, codec_for

REPLY_TOPIC: Final = "kafka_replyTopic"
REPLY_PARTITION: Final = "kafka_replyPartition"
CORRELATION_ID: Final = "kafka_correlationId"
ERROR: Final = "moldau.error."
"""The prefix of the headers that say why a function has failed."""

REPLY_TOPICS: Final = r".+-replies"
"""The names of the topics that an app sends replies to, unless it says others."""
_PARTITION_BYTES: Final = 4

Pairs = Iterable[tuple[str, bytes | None]]


class ReplyAddress(NamedTuple):
    """Where the reply to a request goes. None leaves the partition to the key."""

    topic: str
    partition: int | None
    correlation_id: bytes | None

    @classmethod
    def of(cls, headers: Pairs | None) -> ReplyAddress | None:
        """Return the address in the headers of a request. None if it wants no reply, or if they
        cannot be read."""
        found = {name: value for name, value in headers or () if value is not None}
        topic, partition = found.get(REPLY_TOPIC), found.get(REPLY_PARTITION)
        if topic is None or (partition is not None and len(partition) != _PARTITION_BYTES):
            return None
        try:
            name = topic.decode()
        except UnicodeDecodeError:
            return None
        number = None if partition is None else int.from_bytes(partition, signed=True)
        if number is not None and number < 0:
            return None
        return cls(name, number, found.get(CORRELATION_ID))

    def request_headers(self) -> tuple[tuple[str, bytes], ...]:
        """Return the headers of a request that wants its reply here."""
        assert self.partition is not None
        assert self.correlation_id is not None
        return (
            (REPLY_TOPIC, self.topic.encode()),
            (REPLY_PARTITION, self.partition.to_bytes(_PARTITION_BYTES)),
            (CORRELATION_ID, self.correlation_id),
        )

    def reply_headers(self) -> tuple[tuple[str, bytes], ...]:
        """Return the headers of the reply."""
        return () if self.correlation_id is None else ((CORRELATION_ID, self.correlation_id),)


def encoded(topic: str, name: str, part: Any) -> bytes | None:
    """Return the "key" or the "value" of a request to a topic, by its own type: a str as text,
    bytes as they are, anything else as JSON. Raise StreamsError if it cannot be that."""
    if part is None:
        return None
    try:
        return codec_for(type(part)).encode(part)
    except (TypeError, ValueError) as error:
        what = f"topic={topic}: {name} of type {type(part).__name__} cannot be sent as JSON"
        raise StreamsError(f"{what}: {error}") from None


def result_of(topic: str, headers: Pairs, value: bytes | None, kind: Any) -> Any:
    """Return the value of a reply, of this type; JSON or else text for Any. Raise ReplyFailed for a
    reply that is an error, StreamsError for one of another type."""
    if (problem := _error_of(headers)) is not None:
        raise ReplyFailed(f"topic={topic}: the request failed: {problem}")
    codec = LENIENT_JSON if kind is Any else codec_for(kind)
    if value is None:
        return None
    try:
        return codec.decode(value)
    except UNREADABLE as error:
        raise StreamsError(
            f"topic={topic}: the reply is no {codec.name}: {error}: {value[:80]!r}: give ask(...) "
            "the type=... that the app replies with"
        ) from error


def _error_of(headers: Pairs) -> str | None:
    """Return why a function has failed, in words; None for a reply that is a result."""
    found = {
        name.removeprefix(ERROR): (value or b"").decode(errors="replace")
        for name, value in headers
        if name.startswith(ERROR)
    }
    if "exception" not in found:
        return None
    where = " ".join(f"{name}={found[name]}" for name in ("app", "operator") if found.get(name))
    return f"{where}: {found['exception']}: {found.get('message', '')}"
