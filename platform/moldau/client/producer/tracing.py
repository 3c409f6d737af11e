"""OpenTelemetry spans of records: `send`, `poll` and `process`, with the context in the headers.

    tracing = Tracing()
    async with Producer(..., interceptors=[tracing]) as producer: ...
    async with Consumer(..., interceptors=[tracing]) as consumer:
        async for record in consumer:
            with tracing.processing(record):
                ...

Names and attributes follow OpenTelemetry's conventions for messaging. A `send` span ends when the
broker has answered, or the record has failed. A `poll` span links to the records of one partition;
a `process` span is a child of the `send`. A later interceptor may add headers; if it takes away
those of the context, the span ends late, with the producer at the latest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from moldau.client.base.interceptor import ConsumerInterceptor
from moldau.client.producer.record import ProducerInterceptor, ProducerRecord
from moldau.plugins.extras import need
from moldau.records import ConsumerRecord

if TYPE_CHECKING:
    from moldau.client.consumer.records import PartitionRecords
    from moldau.client.producer.delivery import Sent
    from moldau.errors import MoldauError

_LINKS_MAX: Final = 128
_OPEN_MAX: Final = 16_384


class Tracing(ProducerInterceptor, ConsumerInterceptor):
    """An interceptor for producers and consumers."""

    def __init__(self, provider: Any = None) -> None:
        """Use this TracerProvider, or the global one. Raise ConfigError with what to install if
        opentelemetry is missing."""
        self._trace = need("opentelemetry.trace", "otel")
        self._propagate = need("opentelemetry.propagate", "otel")
        self._tracer = self._trace.get_tracer("moldau.client", tracer_provider=provider)
        self._sending: dict[tuple[str, bytes | None], Any] = {}
        """By the header of the context: an interceptor after this one may add others."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Begin a span, and put its context into the headers."""
        attributes = _about(record.topic, "send", "send")
        attributes["messaging.kafka.message.tombstone"] = record.value is None
        if isinstance(record.key, str):
            attributes["messaging.kafka.message.key"] = record.key
        span = self._tracer.start_span(
            f"send {record.topic}", kind=self._trace.SpanKind.PRODUCER, attributes=attributes
        )
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier, self._trace.set_span_in_context(span))
        context = tuple((name, value.encode()) for name, value in carrier.items())
        headers = (*record.headers, *context)
        if context:
            if len(self._sending) >= _OPEN_MAX:
                self._give_up_oldest()
            self._sending[context[0]] = span
        else:
            span.end()  # without a context its outcome could not be matched to it
        return replace(record, headers=headers)

    def on_outcome(self, record: ProducerRecord, sent: Sent, error: MoldauError | None) -> None:
        """End the record's span."""
        found = (self._sending.pop(each, None) for each in record.headers if self._sending)
        span = next((each for each in found if each is not None), None)
        if span is None:
            return
        if sent.partition >= 0:
            span.set_attribute("messaging.destination.partition.id", str(sent.partition))
        if error is None:
            span.set_attribute("messaging.kafka.offset", sent.offset)
        else:
            code = getattr(error, "code", None)
            span.set_attribute("error.type", type(error).__name__ if code is None else code.name)
            span.set_status(self._trace.StatusCode.ERROR, str(error))
        span.end()

    def _give_up_oldest(self) -> None:
        """End the span of a send without an outcome, or with one without its context."""
        with suppress(RuntimeError, StopIteration, KeyError):  # another thread takes spans, too
            self._sending.pop(next(iter(self._sending))).end()

    def on_consume(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        """Record one span for the records of each partition."""
        for part in parts:
            attributes = _about(part.topic, "poll", "receive")
            attributes["messaging.destination.partition.id"] = str(part.partition)
            attributes["messaging.batch.message_count"] = len(part.records)
            name, kind = f"poll {part.topic}", self._trace.SpanKind.CLIENT
            links = self._links(part.records)
            self._tracer.start_span(name, kind=kind, attributes=attributes, links=links).end()
        return parts

    @contextmanager
    def processing(self, record: ConsumerRecord) -> Iterator[Any]:
        """Make a span the current one while you process the record. It records exceptions."""
        attributes = _about(record.topic, "process", "process")
        attributes["messaging.destination.partition.id"] = str(record.partition)
        attributes["messaging.kafka.offset"] = record.offset
        name, kind = f"process {record.topic}", self._trace.SpanKind.CONSUMER
        with self._tracer.start_as_current_span(
            name, context=self._context(record), kind=kind, attributes=attributes
        ) as span:
            yield span

    def _context(self, record: ConsumerRecord) -> Any:
        headers = {
            name: (value or b"").decode("utf-8", "replace") for name, value in record.headers
        }
        return self._propagate.extract(headers)

    def _links(self, records: Sequence[ConsumerRecord]) -> list[Any]:
        traced = (each for each in records[:_LINKS_MAX] if each.headers)
        spans = (self._trace.get_current_span(self._context(each)) for each in traced)
        contexts = (each.get_span_context() for each in spans)
        return [self._trace.Link(each) for each in contexts if each.is_valid]

    def close(self) -> None:
        """End the spans that are still open."""
        while self._sending:
            self._sending.popitem()[1].end()


def _about(topic: str, name: str, kind: str) -> dict[str, Any]:
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }
