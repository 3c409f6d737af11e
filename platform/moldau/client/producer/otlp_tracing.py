"""Spans of a client's records without a library of OpenTelemetry's: pushed by OTLP/HTTP.

    tracing = OtlpTracing("http://localhost:4318", ratio=0.1, service="shop")
    async with Producer(..., interceptors=[tracing]) as producer: ...

    interceptor.classes=moldau.client.OtlpTracing         # in a file of settings: OTEL_* count

A `send` span ends when the broker has answered; its parent is the current span of the process, if
that uses OpenTelemetry, else the context that the record's headers have. A consumer makes one
`receive` span for the records of a partition of each poll, with links to theirs. `Tracing` does the
same through OpenTelemetry's own provider.

Invariants: a client without this interceptor runs none of this code. The pushes are on the client's
event loop, that of the blocking clients included; the last one follows the close.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from moldau.client.base.interceptor import ConsumerInterceptor
from moldau.client.producer.record import ProducerInterceptor, ProducerRecord
from moldau.errors import ConfigError
from moldau.link.telemetry.traces import Traces, TraceSettings, trace_settings, traces_here
from moldau.runtime.children import process_environment
from moldau.tracing import Kind, Span, SpanContext, Tracer, about, read_context, with_context
from moldau.tracing.sampling import Choice
from moldau.tracing.spans import LINKS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moldau.client.consumer.records import PartitionRecords
    from moldau.client.producer.delivery import Sent
    from moldau.errors import MoldauError

_API: Final = "opentelemetry.trace"
_SERVICE: Final = "moldau-client"
_OPEN_MAX: Final = 16_384
"""How many sends have a span at the same time. One more ends the wait for the oldest."""


class OtlpTracing(ProducerInterceptor, ConsumerInterceptor):
    """An interceptor for producers and consumers."""

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        ratio: float | None = None,
        service: str = _SERVICE,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Without arguments the variables of OpenTelemetry say where spans go, and which are
        recorded. Raise ConfigError if they do not."""
        given = process_environment() if environment is None else environment
        asked = {"OTEL_TRACES_EXPORTER": "otlp", **given}
        settings = trace_settings(endpoint, ratio, asked, "the endpoint of OtlpTracing")
        if ratio is not None and not 0.0 <= ratio <= 1.0:
            raise ConfigError("the ratio of OtlpTracing must be a number from 0 to 1", ratio=ratio)
        self._settings: TraceSettings | None = settings
        self._service = service
        self._traces: Traces | None = None
        self._choice: Choice | None = None
        self._sending: dict[bytes, Span] = {}
        """By span id: an interceptor after this one may add headers to those of the context."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Begin the span of a record of a recorded trace, and put its context into the headers."""
        tracer = self._tracer()
        if tracer is None or self._choice is None:
            return record
        parent = _current() or read_context(record.headers)
        if parent is None and self._choice.next(None, 0, 1):
            return record
        if parent is None:
            self._choice.take(())
        elif not tracer.sampler.takes(parent):
            return replace(record, headers=with_context(record.headers, parent))
        attributes = about(record.topic, "send", "send")
        span = tracer.begin(f"send {record.topic}", Kind.PRODUCER, parent, attributes)
        headers = with_context(record.headers, span.context)
        if len(self._sending) >= _OPEN_MAX:
            self._give_up_oldest(tracer)
        self._sending[span.context.span_id] = span
        return replace(record, headers=headers)

    def on_outcome(self, record: ProducerRecord, sent: Sent, error: MoldauError | None) -> None:
        """End the record's span."""
        context = read_context(record.headers) if self._sending else None
        span = None if context is None else self._sending.pop(context.span_id, None)
        tracer = self._tracer()
        if span is None or tracer is None:
            return
        if sent.partition >= 0:
            span.attributes["messaging.destination.partition.id"] = str(sent.partition)
        if error is None:
            span.attributes["messaging.kafka.offset"] = sent.offset
        else:
            code = getattr(error, "code", None)
            span.attributes["error.type"] = type(error).__name__ if code is None else code.name
        tracer.end(span, None if error is None else str(error))

    def on_consume(self, parts: list[PartitionRecords]) -> list[PartitionRecords]:
        """Record one span for the records of each partition that have a recorded trace."""
        tracer = self._tracer()
        for part in parts if tracer is not None else ():
            assert tracer is not None
            contexts = [read_context(each.headers) for each in part.records if each.headers]
            links = [each for each in contexts if each is not None and tracer.sampler.takes(each)]
            if links:
                attributes = about(part.topic, "poll", "receive", part.partition)
                attributes["messaging.batch.message_count"] = len(part.records)
                some = links[:LINKS_MAX]
                name = f"poll {part.topic}"
                tracer.end(tracer.begin(name, Kind.CLIENT, _current(), attributes, some))
        return parts

    def close(self) -> None:
        """End the spans that are still open, and push what is left soon."""
        traces, self._traces = self._traces, None
        if traces is None:
            return
        for span in self._sending.values():
            traces.tracer.end(span, "the client was closed")
        self._sending.clear()
        traces.close()

    def _give_up_oldest(self, tracer: Tracer) -> None:
        """Forget the span of a send without an outcome, or with one without its context."""
        with suppress(RuntimeError, StopIteration, KeyError):  # another thread takes spans, too
            del self._sending[next(iter(self._sending))]
            tracer.drop()

    def _tracer(self) -> Tracer | None:
        """Return the tracer; the first call, where the client runs, starts to push."""
        if self._traces is None:
            if self._settings is None:
                return None
            self._traces = traces_here(self._settings, {"service.name": self._service})
            self._choice = Choice(self._traces.tracer.sampler)
        return self._traces.tracer


def _current() -> SpanContext | None:
    """Return the current span of the process by OpenTelemetry's API, if the process uses that."""
    api: Any = sys.modules.get(_API)
    if api is None:
        return None
    found = api.get_current_span().get_span_context()
    if not found.is_valid:
        return None
    state = found.trace_state.to_header().encode() or None
    return SpanContext(
        found.trace_id.to_bytes(16), found.span_id.to_bytes(8), found.trace_flags.sampled, state
    )
