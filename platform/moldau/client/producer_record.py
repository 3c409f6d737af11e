"""A record before it is sent, and who is told of it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypedDict

from moldau.client.delivery import Sent
from moldau.errors import MoldauError
from moldau.errors.codes import KafkaError
from moldau.records import Headers

OnDelivery: TypeAlias = Callable[[Sent | None, KafkaError | None], None]
"""Called once with where the record is, or with why it is nowhere. Must neither block nor raise:
it runs inside the event loop."""


class SendOptions(TypedDict, total=False):
    """What a record seldom needs."""

    timestamp_ms: int | None
    on_delivery: OnDelivery | None


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """What the application wants to send. Key and value are as it gave them: serializers come
    later. An interceptor that changes a record makes another (`dataclasses.replace`)."""

    topic: str
    value: Any
    key: Any = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


class ProducerInterceptor:
    """Sees what goes through a producer; what is not overridden changes nothing.

    Whatever it raises is logged and otherwise passed over.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """A record is about to be serialized; gives the one to send instead, or the same."""
        return record

    def on_acknowledgement(self, sent: Sent, error: MoldauError | None) -> None:
        """What became of a record. With an `error` the offset is -1, and the partition too if none
        had been chosen yet. Must not block: it runs inside the event loop."""
        return

    def close(self) -> None:
        """The producer is closed."""
        return
