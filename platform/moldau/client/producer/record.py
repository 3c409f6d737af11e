"""A record before it is sent, and the callbacks that get its outcome."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypedDict

from moldau.client.producer.delivery import Sent
from moldau.client.serdes.contract import SerializationFailed
from moldau.client.settings.arguments import check_number, check_timestamp, name_of
from moldau.errors import MoldauError
from moldau.errors.codes import KafkaError
from moldau.link.arguments import told
from moldau.records import HeadersGiven


class OnDelivery(Protocol):
    """Called once with where the record is, or with why it is nowhere. Must neither block nor
    raise: it runs inside the event loop."""

    def __call__(self, sent: Sent | None, error: KafkaError | None, /) -> None: ...


class SendOptions(TypedDict, total=False):
    """What a record seldom needs."""

    on_delivery: OnDelivery | None


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """What the application wants to send. Key and value are as it gave them: serializers come
    later. An interceptor that changes a record makes another (`dataclasses.replace`)."""

    topic: str
    value: Any
    key: Any = None
    headers: HeadersGiven = ()
    timestamp_ms: int | None = None
    partition: int | None = None


NO_RECORD: Final = (TypeError, UnicodeEncodeError)
"""What the kernel raises for a record that it cannot write."""
_PAIR: Final = 2
_ARGUMENTS: Final = ("key", "headers", "partition", "timestamp_ms", "on_delivery")


def checked(
    record: ProducerRecord, options: SendOptions
) -> tuple[ProducerRecord, OnDelivery | None]:
    """What `send` was given; TypeError for what cannot be sent. What is usual is looked at here,
    because a call for each would be felt."""
    partition, stamp = record.partition, record.timestamp_ms
    if type(record.topic) is not str:
        name_of(record.topic, "topic")
    if partition is not None and type(partition) is not int:
        check_number(partition)
    if stamp is not None:
        check_timestamp(stamp)
    if not options:
        return record, None
    on_delivery = options.get("on_delivery")
    if len(options) != (on_delivery is not None):
        _check_names(options)
    if on_delivery is not None:
        code = getattr(on_delivery, "__code__", None)
        if code is None or code.co_flags & inspect.CO_COROUTINE:
            _check_callback(on_delivery)
    return record, on_delivery


def _check_names(options: SendOptions) -> None:
    unknown = options.keys() - SendOptions.__optional_keys__
    if unknown:
        raise TypeError(f"send has no argument {min(unknown)!r}: it has {', '.join(_ARGUMENTS)}")


def _check_callback(on_delivery: object) -> None:
    if not callable(on_delivery):
        raise TypeError(
            f"on_delivery is called with (sent, error): a function, not {told(on_delivery)}"
        )
    if inspect.iscoroutinefunction(on_delivery):
        raise TypeError(
            "on_delivery is called and not awaited, so it cannot be a coroutine function: await "
            "what send gives instead, in a task of its own if need be"
        )


def no_record(
    error: TypeError | UnicodeEncodeError, topic: str, row: tuple[object, object, object, object]
) -> TypeError | SerializationFailed:
    """Says what would help where the kernel could not write a record: its timestamp (which was
    looked at where it came in), key, value and headers."""
    _, key, value, headers = row
    if isinstance(error, UnicodeEncodeError):
        return SerializationFailed(
            "a header's key cannot be sent: UTF-8 has no lone surrogates; leave them out, as "
            "key.encode(errors='replace').decode() does",
            topic=topic,
            header=told(error.object),
        )
    if any(each is not None and not isinstance(each, bytes) for each in (key, value)):
        advice = "give bytes, or set key.serializer and value.serializer (string, json, ...)"
        return TypeError(f"{error}: {advice}")
    if _are_headers(headers):
        return error
    if isinstance(headers, list | tuple):
        return TypeError(f"{error}, in {told(headers)}")  # which of them is wrong
    pairs = "a list or tuple of pairs of str and bytes, as [('trace', b'1')]"
    return TypeError(f"headers must be {pairs}, not {told(headers)}")


def _are_headers(given: object) -> bool:
    return isinstance(given, list | tuple) and all(
        isinstance(each, tuple)
        and len(each) == _PAIR
        and isinstance(each[0], str)
        and (each[1] is None or isinstance(each[1], bytes))
        for each in given
    )


class ProducerInterceptor:
    """Sees what goes through a producer; what is not overridden changes nothing.

    Whatever it raises is logged and otherwise passed over; so is what it returns, if that is no
    record. Its methods are called and not awaited.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        """A record is about to be serialized; gives the one to send instead, or None for the
        same."""
        return record

    def on_acknowledgement(self, sent: Sent, error: MoldauError | None) -> None:
        """What became of a record. With an `error` the offset is -1, and the partition too if none
        had been chosen yet. Must not block: it runs inside the event loop."""
        return

    def close(self) -> None:
        """The producer is closed."""
        return
