"""Spans as OTLP's protobuf messages, by hand as those of metrics are (`moldau.metrics.otlp`).

`moldau.metrics.otlp.Requests` packs them: resource, scope and items stand in the same fields in
requests of both signals.
"""

from __future__ import annotations

from typing import Final

from moldau.metrics.protobuf import message, signed64, text, unsigned
from moldau.tracing.context import SpanContext
from moldau.tracing.spans import Attribute, Span

_ERROR: Final = 2
_STATUS: Final = 15


def span_message(span: Span) -> bytes:
    """Return a Span message."""
    parts = [
        _named(span.context),
        message(4, span.parent_id) if span.parent_id else b"",
        text(5, span.name),
        unsigned(6, span.kind),
        signed64(7, span.begun_ns),
        signed64(8, span.ended_ns),
    ]
    parts += (_attribute(9, name, value) for name, value in span.attributes.items())
    parts += (message(13, _named(each)) for each in span.links)
    if span.error is not None:
        parts.append(message(_STATUS, text(2, span.error) + unsigned(3, _ERROR)))
    return b"".join(parts)


def _named(context: SpanContext) -> bytes:
    named = message(1, context.trace_id) + message(2, context.span_id)
    return named if context.state is None else named + message(3, _readable(context.state))


def _readable(state: bytes) -> bytes:
    """Return the text as UTF-8, which protobuf wants."""
    return state.decode("utf-8", "replace").encode()


def _attribute(number: int, name: str, value: Attribute) -> bytes:
    if isinstance(value, bool):
        found = unsigned(2, value)
    elif isinstance(value, int):
        found = unsigned(3, value & 0xFFFF_FFFF_FFFF_FFFF)
    else:
        found = text(1, value)
    return message(number, text(1, name) + message(2, found))
