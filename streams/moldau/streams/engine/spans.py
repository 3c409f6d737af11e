"""The spans of a task: one `process` span for each record of a recorded trace.

Such a record runs alone, so its span has its own time, and its `traceparent` becomes that of the
span: the operators pass headers on, so outputs, repartition topics and dead letters carry it. All
other records run in batches as ever. Why no span for a batch with links: a trace would end there,
and the records of a batch have nothing in common.

An update that a cache holds back keeps the headers of the last record that made it.
"""

from __future__ import annotations

from moldau.streams.engine.batches import Chunk, Outputs
from moldau.tracing import Kind, Span, Tracer, about, read_context, with_context
from moldau.tracing.sampling import NO_HEADERS, Choice


class TaskSpans:
    """Begins and ends the spans of one task."""

    def __init__(self, tracer: Tracer, app: str, task: str, partition: int) -> None:
        self._tracer = tracer
        self._partition = partition
        self._own = {"messaging.consumer.group.name": app, "moldau.streams.task": task}
        self._span: Span | None = None
        self._choice = Choice(tracer.sampler)

    def begin(self, topic: str, chunk: Chunk, start: int, stop: int) -> int:
        """Return where a run from `start` on ends, `stop` at most: before the next recorded record;
        after it, if it is the first: then its span begins now."""
        index = self._choice.next(chunk.headers, start, stop)
        if index > start or start == stop:
            return index
        self._begin(topic, chunk, start)
        return start + 1

    def _begin(self, topic: str, chunk: Chunk, index: int) -> None:
        headers = chunk.headers
        if headers is None:
            headers = [NO_HEADERS] * len(chunk)
        elif not isinstance(headers, list):
            headers = list(headers)
        parent = self._choice.take(headers[index])
        attributes = about(topic, "process", "process", self._partition) | self._own
        attributes["messaging.kafka.offset"] = chunk.offsets[index]
        span = self._tracer.begin(f"process {topic}", Kind.CONSUMER, parent, attributes)
        headers[index] = with_context(headers[index], span.context)
        chunk.headers = headers
        self._span = span

    def end(self, failure: Exception | None) -> None:
        """End the span of the record that has run, if it has one."""
        span, self._span = self._span, None
        if span is not None:
            if failure is not None:
                span.attributes["error.type"] = type(failure).__name__
            self._tracer.end(span, None if failure is None else str(failure))


class SendSpans:
    """The `send` spans of outputs with a recorded trace: from the send to the acknowledgement of
    all that was sent. They end at once, so only so many are begun as the tracer's queue takes;
    other outputs keep the context of the `process` span."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._open: list[Span] = []

    def begin(self, outputs: Outputs) -> None:
        """Begin a span for each such record, and put its context into its headers."""
        for index, headers in enumerate(outputs.headers):
            parent = read_context(headers) if headers else None
            if parent is None or not self._tracer.sampler.takes(parent):
                continue
            if self._tracer.has_room(len(self._open)):
                attributes = about(outputs.topic, "send", "send")
                name = f"send {outputs.topic}"
                span = self._tracer.begin(name, Kind.PRODUCER, parent, attributes)
                outputs.headers[index] = with_context(headers, span.context)
                self._open.append(span)

    def end(self, error: str | None = None) -> None:
        """End them all."""
        ended, self._open = self._open, []
        for span in ended:
            self._tracer.end(span, error)
