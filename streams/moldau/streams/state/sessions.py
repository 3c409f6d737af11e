"""A store of sessions: values by key, end and start. All that are in retention are in memory.

Rows are end (8) + start (8) + key -> value, so that expiry is one range of keys and a scan is in
the order of ends. The changelog has Kafka's layout: key + end + start, the plain value.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterator
from struct import Struct
from typing import Any

from moldau.streams.serdes.types import UNREADABLE
from moldau.streams.state.backing import Backing, Row
from moldau.streams.state.changes import Changes
from moldau.streams.state.keyvalue import KeyCoding, unreadable
from moldau.streams.state.spec import StoreSpec

_SPAN = Struct(">QQ")

# (end, start) of a session.
Span = tuple[int, int]


class SessionStore:
    """`clock` is the highest end that was put: only sessions that end after it - retention are
    found."""

    def __init__(self, spec: StoreSpec, backing: Backing) -> None:
        assert spec.retention_ms is not None
        self.spec = spec
        self.keys = KeyCoding(spec.key)
        self.clock = -1
        # Values as they were at the last flush, of all sessions that changed since.
        self.dirty: dict[tuple[Any, Span], Any] = {}
        self._retention_ms = spec.retention_ms
        self._backing = backing
        self._spans: dict[Any, list[Span]] = {}
        self._values: dict[tuple[Any, Span], Any] = {}
        self._order: list[tuple[Span, bytes, Any]] = []
        self._is_loaded = False

    def load(self) -> None:
        """Read all rows into memory, once."""
        if self._is_loaded:
            return
        self._is_loaded = True
        for row, data in self._backing.scan(b"", None):
            try:
                key, value = self.spec.key.decode(row[16:]), self.spec.value.decode(data)
            except UNREADABLE as error:
                raise unreadable(self.spec, data, error) from None
            self._insert(self.keys.name(key), _SPAN.unpack_from(row), value)

    def _insert(self, name: Any, span: Span, value: Any) -> None:
        self.clock = max(self.clock, span[0])
        if (name, span) not in self._values:
            insort(self._spans.setdefault(name, []), span)
            heapq.heappush(self._order, (span, self.keys.encoded(name), name))
        self._values[name, span] = value

    def find(self, name: Any, first_end: int, last_start: int) -> list[tuple[Span, Any]]:
        """The sessions that end at `first_end` or later and start at `last_start` or earlier."""
        spans = self._spans.get(name)
        if spans is None:
            return []
        first_end = max(first_end, self.clock - self._retention_ms + 1)
        return [
            (span, self._values[name, span])
            for span in spans[bisect_left(spans, (first_end, 0)) :]
            if span[1] <= last_start
        ]

    def put(self, name: Any, span: Span, value: Any) -> None:
        self.dirty.setdefault((name, span), self._values.get((name, span)))
        self._insert(name, span, value)

    def remove(self, name: Any, span: Span) -> None:
        value = self._values.pop((name, span), None)
        if value is None:
            return
        self.dirty.setdefault((name, span), value)
        spans = self._spans[name]
        del spans[bisect_left(spans, span)]
        if not spans:
            del self._spans[name]

    def value(self, name: Any, span: Span) -> Any:
        return self._values.get((name, span))

    def items(self) -> Iterator[tuple[Any, Span, Any]]:
        """All sessions: (key, span, value), by end, start and the bytes of the key."""
        rows = [(span, self.keys.encoded(name), name) for name, span in self._values]
        for span, _, name in sorted(rows, key=lambda row: row[:2]):
            yield self.keys.original(name), span, self._values[name, span]

    def approximate_count(self) -> int:
        return len(self._values)

    def between(self, above: int, below: int) -> list[tuple[Any, Span, Any]]:
        """The sessions with above < end < below, in the order of `items`."""
        spans = [
            (span, self.keys.encoded(name), name)
            for name, span in self._values
            if above < span[0] < below
        ]
        return [
            (self.keys.original(name), span, self._values[name, span])
            for span, _, name in sorted(spans, key=lambda row: row[:2])
        ]

    def expire(self) -> None:
        """Forget the sessions that are out of retention. Nothing may be dirty.

        One that ends just at the edge is found no more, but its result may still be due.
        """
        end = self.clock - self._retention_ms
        if end <= 0:
            return
        while self._order and self._order[0][0][0] < end:
            span, _, name = heapq.heappop(self._order)
            if self._values.pop((name, span), None) is not None:
                spans = self._spans[name]
                spans.remove(span)
                if not spans:
                    del self._spans[name]
        self._backing.delete_range(b"", _SPAN.pack(end, 0))

    def flush(self) -> Changes:
        changes = Changes()
        rows: list[Row] = []
        for (name, span), old in self.dirty.items():
            value = self._values.get((name, span))
            if value is None and old is None:
                continue
            key, place = self.keys.encoded(name), _SPAN.pack(*span)
            data = None if value is None else self.spec.value.encode(value)
            rows.append((place + key, data))
            changes.add(key + place, data, span[0])
        self.dirty.clear()
        self._backing.write(rows)
        return changes

    def restore(self, changes: Changes) -> None:
        rows = {
            key[-16:] + key[:-16]: value
            for key, value in zip(changes.keys, changes.values, strict=True)
        }
        self._backing.write(sorted(rows.items()))

    def size_bytes(self) -> int:
        return len(self._values) * 300

    def trim(self, budget_bytes: int) -> None:
        """Sessions in retention stay in memory; the retention bounds them."""
