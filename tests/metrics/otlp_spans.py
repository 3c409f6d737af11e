"""The traces of an OTLP receiver, decoded with OpenTelemetry's own classes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

pytest.importorskip("opentelemetry.proto.collector.trace.v1", reason="opentelemetry-proto")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2


@dataclass(frozen=True)
class Arrived:
    """A span, and the service that made it."""

    service: str
    span: trace_pb2.Span

    @property
    def name(self) -> str:
        return self.span.name

    @property
    def facts(self) -> dict[str, str | int]:
        """Its attributes."""
        return {
            pair.key: pair.value.string_value or pair.value.int_value
            for pair in self.span.attributes
        }

    @property
    def parent(self) -> bytes:
        return self.span.parent_span_id


def spans_of(body: bytes) -> list[Arrived]:
    """The spans of one request."""
    request = ExportTraceServiceRequest()
    request.ParseFromString(body)
    found = []
    for each in request.resource_spans:
        has = {pair.key: pair.value.string_value for pair in each.resource.attributes}
        for scope in each.scope_spans:
            found += [Arrived(has.get("service.name", ""), span) for span in scope.spans]
    return found
