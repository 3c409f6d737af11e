"""Spans, and the queue in which ended ones wait to be pushed.

Invariants: the queue is bounded, and what finds no room is counted and gone: a receiver that is
away costs neither memory nor time of the records. A keeper of open spans that end all at once asks
`has_room` first, and keeps no more than the queue can take. Any thread may begin and end spans.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.deferred import dataclass
from moldau.metrics.protobuf import message, signed64, text, unsigned
from moldau.tracing.context import SpanContext

if TYPE_CHECKING:
    from moldau.runtime.interface import Clock
    from moldau.tracing.sampling import Sampler

Attribute: TypeAlias = str | int | bool
QUEUE_MAX: Final = 2_048
LINKS_MAX: Final = 128
_NS_PER_MS: Final = 1_000_000


class Kind(IntEnum):
    """OpenTelemetry's kinds, by their numbers in OTLP."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


@dataclass(slots=True)
class Span:
    """A piece of work on a record; `begin` and `end` of the tracer fill it."""

    name: str
    kind: Kind
    context: SpanContext
    parent_id: bytes
    begun_ns: int
    attributes: dict[str, Attribute] = field(default_factory=dict)
    links: Sequence[SpanContext] = ()
    ended_ns: int = 0
    error: str | None = None


class Tracer:
    """Makes the spans of one node."""

    def __init__(self, clock: Clock, sampler: Sampler, queue_max: int = QUEUE_MAX) -> None:
        self.sampler = sampler
        self.dropped = 0
        """How many spans found no room."""
        self.ended = 0
        """How many spans ended, with the dropped ones."""
        self._clock = clock
        self._queue: deque[Span] = deque()
        self._queue_max = queue_max
        # Spans have one clock: nanoseconds that only go forward, counted from the wall clock.
        self._epoch_ns = clock.wall_ms() * _NS_PER_MS - clock.monotonic_ns()

    def begin(
        self,
        name: str,
        kind: Kind,
        parent: SpanContext | None,
        attributes: Mapping[str, Attribute],
        links: Sequence[SpanContext] = (),
    ) -> Span:
        """Begin a recorded span, a child of `parent`, or a trace of its own. Ask the sampler
        first."""
        sampler = self.sampler
        trace_id = sampler.new_trace_id() if parent is None else parent.trace_id
        state = None if parent is None else parent.state
        context = SpanContext(trace_id, sampler.new_span_id(), True, state)
        parent_id = b"" if parent is None else parent.span_id
        now_ns = self._epoch_ns + self._clock.monotonic_ns()
        return Span(name, kind, context, parent_id, now_ns, dict(attributes), links[:LINKS_MAX])

    def end(self, span: Span, error: str | None = None) -> None:
        """End a span, once. `error` says why its work failed."""
        span.ended_ns = self._epoch_ns + self._clock.monotonic_ns()
        span.error = error
        self.ended += 1
        if len(self._queue) < self._queue_max:
            self._queue.append(span)
        else:
            self.dropped += 1

    def has_room(self, count: int) -> bool:
        """Whether a span may be begun beside `count` that are open. If not, it counts as dropped:
        its record goes on with the context that it has."""
        if count < self._queue_max:
            return True
        self.drop()
        return False

    def drop(self) -> None:
        """Count a span that is given up."""
        self.ended += 1
        self.dropped += 1

    @property
    def waiting(self) -> int:
        """How many ended spans wait."""
        return len(self._queue)

    def take(self, count: int) -> list[Span]:
        """Return the next spans to push, and forget them."""
        queue = self._queue
        return [queue.popleft() for _ in range(min(count, len(queue)))]

    def put_back(self, spans: Sequence[Span]) -> None:
        """Take spans back that could not be pushed, as many as there is room for."""
        room = max(0, self._queue_max - len(self._queue))
        kept = spans[len(spans) - room :] if room < len(spans) else spans
        self.dropped += len(spans) - len(kept)
        self._queue.extendleft(reversed(kept))


def about(topic: str, name: str, kind: str, partition: int = -1) -> dict[str, Attribute]:
    """Return the attributes that all spans of a topic's records have."""
    found: dict[str, Attribute] = {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }
    if partition >= 0:
        found["messaging.destination.partition.id"] = str(partition)
    return found


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
