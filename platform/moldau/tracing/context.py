"""W3C Trace Context in the headers of a record: `traceparent` and `tracestate`.

Invariant: what is malformed counts as absent, as W3C says: a bad header never stops a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

PARENT: Final = "traceparent"
STATE: Final = "tracestate"
Headers = Sequence[tuple[str, bytes | None]]
_SAMPLED: Final = 1
_SIZE: Final = 55
_TRACE: Final = slice(3, 35)
_SPAN: Final = slice(36, 52)
_FLAGS: Final = slice(53, 55)
_DIGITS: Final = frozenset(b"0123456789abcdef")


class SpanContext(NamedTuple):
    """What names a span, in any process."""

    trace_id: bytes
    span_id: bytes
    is_sampled: bool
    state: bytes | None = None
    """The value of `tracestate`, which is passed on unread."""

    @property
    def parent(self) -> bytes:
        """The value of `traceparent`."""
        flags = b"01" if self.is_sampled else b"00"
        ids = self.trace_id.hex().encode(), self.span_id.hex().encode()
        return b"-".join((b"00", *ids, flags))


def read_context(headers: Iterable[tuple[str, bytes | None]]) -> SpanContext | None:
    """Return the context in the headers of a record; None if there is none, or no valid one."""
    parent = state = None
    for name, value in headers:
        if name == PARENT:
            parent = value
        elif name == STATE:
            state = value
    return None if parent is None else _parsed(parent, state)


def _parsed(parent: bytes, state: bytes | None) -> SpanContext | None:
    """Read `VERSION-TRACE-SPAN-FLAGS`. Later versions may have more after that."""
    version = parent[:2]
    if len(parent) != _SIZE and (version == b"00" or parent[_SIZE : _SIZE + 1] != b"-"):
        return None
    trace, span, flags = parent[_TRACE], parent[_SPAN], parent[_FLAGS]
    if version == b"ff" or parent[2:3] + parent[35:36] + parent[52:53] != b"---":
        return None
    if not _DIGITS.issuperset(version + trace + span + flags):
        return None
    trace_id, span_id = bytes.fromhex(trace.decode()), bytes.fromhex(span.decode())
    if not any(trace_id) or not any(span_id):
        return None
    return SpanContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED), state)


def with_context(headers: Headers, context: SpanContext) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers with this context instead of the one that they have."""
    others = (each for each in headers if each[0] not in (PARENT, STATE))
    state = () if context.state is None else ((STATE, context.state),)
    return (*others, (PARENT, context.parent), *state)
