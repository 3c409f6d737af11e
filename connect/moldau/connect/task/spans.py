"""The spans of a task: `process` of a sink's records, `send` of a source's.

A sink's span is a child of the record's own context, from its conversion to the end of the `put`
that had it; a batch has no span of its own, as a trace would end there. All spans of a `put` end at
once, so only so many are open as the tracer's queue takes. A record that is dropped before the
`put`, by a rebalance or a seek, has no span: it is read again. A source begins the traces
of its records, unless they come with a `traceparent` header.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from moldau.client.base.columns import PartitionColumns
from moldau.client.consumer.records import PartitionRecords
from moldau.connect.task.messages import TaskSpec
from moldau.errors import ConfigError
from moldau.link.metadata import TopicPartition
from moldau.link.telemetry.traces import ThreadTraces, TraceSettings, trace_settings
from moldau.records import HeadersGiven
from moldau.runtime.children import process_environment
from moldau.tracing import Kind, Span, Tracer, about, with_context
from moldau.tracing.context import Headers
from moldau.tracing.sampling import NO_HEADERS, Choice

ENDPOINT: Final = "moldau.traces.otlp.endpoint"
RATIO: Final = "moldau.traces.ratio"


def traces_of(worker: dict[str, str]) -> TraceSettings | None:
    """Return where spans go by the worker's settings and the variables of OpenTelemetry. Raise
    ConfigError."""
    text = worker.get(RATIO, "").strip()
    try:
        ratio = float(text) if text else None
    except ValueError:
        ratio = -1.0
    if ratio is not None and not 0.0 <= ratio <= 1.0:
        raise ConfigError("must be a number from 0 to 1", setting=RATIO, value=text)
    endpoint = worker.get(ENDPOINT, "").strip() or None
    return trace_settings(endpoint, ratio, process_environment(), ENDPOINT)


def task_traces(settings: TraceSettings, spec: TaskSpec) -> ThreadTraces:
    """Return the traces of one task, pushed on the loop of the task's clients."""
    resource = {"service.name": spec.connector, "service.instance.id": str(spec.id)}
    return ThreadTraces(settings, resource)


class SinkSpans:
    """The spans of the records that a sink task has polled and not put yet."""

    def __init__(self, tracer: Tracer, group: str, connector: str) -> None:
        self._tracer = tracer
        self._own = {"messaging.consumer.group.name": group, "moldau.connector": connector}
        self._choice = Choice(tracer.sampler)
        self._open: list[tuple[TopicPartition, Span]] = []

    def begin(self, part: PartitionRecords | PartitionColumns) -> None:
        """Begin the spans of a polled part."""
        offsets: Sequence[int]
        headers: Sequence[Headers] | None
        if isinstance(part, PartitionColumns):
            offsets = part.offsets
            headers = None if part.headers is None else part.headers.tolist()
        else:
            offsets = part.offsets()
            headers = [each.headers for each in part.records]
        where = TopicPartition(part.topic, part.partition)
        index, count = 0, len(offsets)
        while (index := self._choice.next(headers, index, count)) < count:
            parent = self._choice.take(NO_HEADERS if headers is None else headers[index])
            if self._tracer.has_room(len(self._open)):
                attributes = about(part.topic, "process", "process", part.partition) | self._own
                attributes["messaging.kafka.offset"] = offsets[index]
                name = f"process {part.topic}"
                span = self._tracer.begin(name, Kind.CONSUMER, parent, attributes)
                self._open.append((where, span))
            index += 1

    def drop(self, gone: Collection[TopicPartition]) -> None:
        """Forget the spans of these partitions: their records are not put here."""
        self._open = [each for each in self._open if each[0] not in gone]

    def end(self, error: Exception | None = None) -> None:
        """End them: the records were put, or the task fails."""
        ended, self._open = self._open, []
        end_all(self._tracer, (span for _, span in ended), error)


class SourceSpans:
    """The spans of the records that a source task sends."""

    def __init__(self, tracer: Tracer, connector: str) -> None:
        self.tracer = tracer
        self._own = {"moldau.connector": connector}
        self._choice = Choice(tracer.sampler)

    def begin(self, topic: str, headers: HeadersGiven) -> tuple[HeadersGiven, list[Span]]:
        """Return the headers to send, and the span of the record, if it has one."""
        if self._choice.next((headers,), 0, 1):
            return headers, []
        span = self._begin(topic, headers)
        return with_context(headers, span.context), [span]

    def begin_many(self, topic: str, count: int) -> tuple[list[HeadersGiven] | None, list[Span]]:
        """Return the headers of so many records without any, and the spans; None without spans."""
        found: list[HeadersGiven] | None = None
        spans = []
        index = 0
        while (index := self._choice.next(None, index, count)) < count:
            span = self._begin(topic, NO_HEADERS)
            found = found or [()] * count
            found[index] = with_context(NO_HEADERS, span.context)
            spans.append(span)
            index += 1
        return found, spans

    def _begin(self, topic: str, headers: Headers) -> Span:
        attributes = about(topic, "send", "send") | self._own
        parent = self._choice.take(headers)
        return self.tracer.begin(f"send {topic}", Kind.PRODUCER, parent, attributes)


def end_all(tracer: Tracer, spans: Iterable[Span], error: Exception | None) -> None:
    """End spans, with the reason why their records failed."""
    for span in spans:
        if error is not None:
            span.attributes["error.type"] = type(error).__name__
        tracer.end(span, None if error is None else str(error))
