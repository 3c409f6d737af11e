"""A record before it is sent, and the callbacks that get its outcome."""

from __future__ import annotations

import inspect
from typing import Any, Final, Protocol, TypedDict

from moldau.client.base.arguments import check_number, check_timestamp, name_of
from moldau.client.producer.delivery import Sent
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.errors.codes import KafkaError
from moldau.link.arguments import told
from moldau.records import HeadersGiven
from moldau.values.failures import SerializationFailed


class OnDelivery(Protocol):
    """A callback for the outcome of a record: its place in the log, or its error. Called once,
    inside the event loop, so it must neither block nor raise."""

    def __call__(self, sent: Sent | None, error: KafkaError | None, /) -> None: ...


class SendOptions(TypedDict, total=False):
    """The rarely used arguments of `send`."""

    on_delivery: OnDelivery | None


@dataclass(frozen=True, slots=True)
class ProducerRecord:
    """A record that the application sends, with key and value before serialization. An interceptor
    changes a record by making another (`dataclasses.replace`)."""

    topic: str
    value: Any
    key: Any = None
    headers: HeadersGiven = ()
    timestamp_ms: int | None = None
    partition: int | None = None


NO_RECORD: Final = (TypeError, UnicodeEncodeError)
"""The exceptions that the kernel raises for a record that it cannot write."""
_PAIR: Final = 2
_ARGUMENTS: Final = ("key", "headers", "partition", "timestamp_ms", "on_delivery")


def checked(
    record: ProducerRecord, options: SendOptions
) -> tuple[ProducerRecord, OnDelivery | None]:
    """Return the record and callback of a `send`. Raise TypeError for wrong arguments. The usual
    types are checked inline, as a call for each would be measurable."""
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
    """Return an error with advice for a record that the kernel could not write. `row` is its
    timestamp (checked before), key, value and headers."""
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
        return TypeError(f"{error}, in {told(headers)}")  # `error` says which one is wrong
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
    """Sees a producer's records and their outcomes; methods that are not overridden change nothing.

    An exception from a method is logged and otherwise ignored; so is a return value that is no
    record. The methods are called, not awaited.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord | None:
        """Return the record to send and serialize instead, or None to change nothing."""
        return record

    def on_acknowledgement(self, sent: Sent, error: MoldauError | None) -> None:
        """Called with the outcome of a record. With an `error` the offset is -1, and so is the
        partition if none was chosen yet. Must not block: it runs inside the event loop."""
        return

    def close(self) -> None:
        """Called when the producer is closed."""
        return
