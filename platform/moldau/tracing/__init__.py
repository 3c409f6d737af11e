"""Traces of records: W3C's context in their headers, spans, and OTLP's form of them. No IO.

    tracer = Tracer(runtime.clock, Sampler(runtime.random, 0.01))
    span = tracer.begin("process orders", Kind.CONSUMER, read_context(headers), attributes)
    headers = with_context(headers, span.context)
    tracer.end(span)                  # waits in a bounded queue for `moldau.link.telemetry.traces`

It needs no library of OpenTelemetry's. Names and attributes follow its conventions for messaging.
"""

from __future__ import annotations

from moldau.tracing.context import SpanContext, read_context, with_context
from moldau.tracing.sampling import Sampler
from moldau.tracing.spans import Attribute, Kind, Span, Tracer, about

__all__ = [
    "Attribute",
    "Kind",
    "Sampler",
    "Span",
    "SpanContext",
    "Tracer",
    "about",
    "read_context",
    "with_context",
]
