"""A store of sessions: values by key, end and start.

Time is divided into slices of the retention, so that the sessions which a record can reach end in
at most two of them. The sessions of a slice are in memory while the cache has room; then keys of
the oldest slices are dropped from memory, and read from the rows again when needed.

Invariants:
* `SessionSlice.rows[k]` has all sessions of a key that end in the slice. If a slice `is_complete`,
  keys that are not in `rows` have none.
* `dirty` has the value at the last flush of each session that has changed since; each such session
  is in memory.

Rows are slice (8) + length of the key (4) + key + end (8) + start (8) -> value, so that the
sessions of a key are one range. A timed store has an empty row end + start + key beside each, in
the order of ends. The changelog has Kafka's layout: key + end + start, the plain value.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

from moldau.streams.serdes.types import UNREADABLE
from moldau.streams.state.agenda import Agenda
from moldau.streams.state.backing import Backing, PrefixedBacking, Row, first_numbers, first_rows
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.journal import MISSING, StoreClock, UndoLog
from moldau.streams.state.keyvalue import KeyCoding, unreadable
from moldau.streams.state.spec import StoreSpec

_SPAN = Struct(">QQ")
_SLICE = Struct(">Q")
_KEY = Struct(">QI")
_SPAN_END = b"\xff" * 17
# The prefix byte of the rows in the order of ends, and the row that holds the highest end.
_TIMES = 0xF0
_CLOCK_ROW = b"\xff"
# The rough cost in bytes of a session or a key in memory, besides its encoded bytes.
_SESSION_BYTES = 300

# (end, start) of a session.
Span = tuple[int, int]
Sessions = dict[Span, Any]
# A session: key, span, value.
SessionRow = tuple[Any, Span, Any]


class SessionSlice:
    """The part of the sessions that end in one slice of time which is in memory."""

    __slots__ = ("is_complete", "rows")

    def __init__(self, *, is_complete: bool) -> None:
        self.is_complete = is_complete
        self.rows: dict[Any, Sessions] = {}

    def count(self) -> int:
        """Return the number of keys and sessions in memory."""
        return sum(len(sessions) + 1 for sessions in self.rows.values())


class SessionStore(StoreClock):
    """The sessions of one partition. `clock` is the highest end that was put: only sessions with an
    end above clock - retention are found."""

    def __init__(self, spec: StoreSpec, backing: Backing) -> None:
        assert spec.retention_ms is not None
        self.spec = spec
        self.keys = KeyCoding(spec.key)
        self.clock = -1
        # The values at the last flush of all sessions that have changed since.
        self.dirty: dict[tuple[Any, Span], Any] = {}
        self._retention_ms = spec.retention_ms
        self._slice_ms = spec.slice_ms or spec.retention_ms
        self._backing = backing
        self._times = PrefixedBacking(backing, _TIMES)
        self._agenda: Agenda | None = None
        self._slices: dict[int, SessionSlice] = {}
        self._stored: set[int] | None = None
        self._is_loaded = False
        # The number of keys and sessions in memory.
        self._count = 0
        self.undo: UndoLog | None = None
        self._row_bytes = 64.0
        self._trim_at = 0

    def load(self) -> None:
        """Read the clock from the backing, once."""
        if self._is_loaded:
            return
        self._is_loaded = True
        row = self._backing.get(_CLOCK_ROW)
        if row is not None:
            self.clock = max(self.clock, _SLICE.unpack(row)[0])

    def find(
        self, name: Any, first_end: int, last_start: int, *, keep: bool = True
    ) -> list[tuple[Span, Any]]:
        """Return the sessions that end at `first_end` or later and start at `last_start` or
        earlier. With `keep`, sessions that are read stay in memory."""
        first_end = max(first_end, self.first_end)
        found = []
        for at in range(first_end // self._slice_ms, self.clock // self._slice_ms + 1):
            sessions = self._sessions(at, name, keep=keep)
            if sessions:
                found += [
                    (span, value)
                    for span, value in sessions.items()
                    if span[0] >= first_end and span[1] <= last_start
                ]
        if len(found) > 1:
            found.sort(key=lambda each: each[0])
        return found

    @property
    def first_end(self) -> int:
        """The lowest end of the sessions that are still found."""
        return max(self.clock - self._retention_ms + 1, 0)

    def put(self, name: Any, span: Span, value: Any) -> None:
        at = span[0] // self._slice_ms
        sessions = self._sessions(at, name)
        if sessions is None:
            sessions = self._opened(at).rows[name] = {}
            self._count += 1
        if self.undo is not None:
            self._log(self.undo, name, span, sessions)
        if span not in sessions:
            self._count += 1
            if self._agenda is not None:
                self._agenda.add(_SPAN.pack(*span) + self.keys.encoded(name))
        self.dirty.setdefault((name, span), sessions.get(span))
        sessions[span] = value
        self.advance(span[0])

    def remove(self, name: Any, span: Span) -> None:
        sessions = self._sessions(span[0] // self._slice_ms, name)
        if sessions is None or span not in sessions:
            return
        if self.undo is not None:
            self._log(self.undo, name, span, sessions)
        self._count -= 1
        self.dirty.setdefault((name, span), sessions.pop(span))

    def _log(self, undo: UndoLog, name: Any, span: Span, sessions: Sessions) -> None:
        undo.append((self._put_back, sessions, span, sessions.get(span, MISSING)))
        if (name, span) not in self.dirty:
            undo.append((self.dirty.pop, (name, span), None))

    def _put_back(self, sessions: Sessions, span: Span, value: Any) -> None:
        self._count -= span in sessions
        if value is MISSING:
            sessions.pop(span, None)
        else:
            sessions[span] = value
            self._count += 1

    def value(self, name: Any, span: Span) -> Any:
        sessions = self._sessions(span[0] // self._slice_ms, name)
        return None if sessions is None else sessions.get(span)

    def _sessions(self, at: int, name: Any, *, keep: bool = True) -> Sessions | None:
        """Return all sessions of a key that end in slice `at`; None if there is none."""
        part = self._slices.get(at)
        if part is None:
            if at not in self._stored_slices():
                return None
            part = self._opened(at)
        sessions = part.rows.get(name)
        if sessions is None and not part.is_complete:
            sessions = self._read(at, name)
            if keep:
                part.rows[name] = sessions
                self._count += len(sessions) + 1
        return sessions

    def _read(self, at: int, name: Any) -> Sessions:
        key = self.keys.encoded(name)
        prefix = _KEY.pack(at, len(key)) + key
        return {
            _SPAN.unpack_from(row, len(prefix)): self._decoded(data)
            for row, data in self._backing.scan(prefix, prefix + _SPAN_END)
        }

    def _decoded(self, data: bytes) -> Any:
        try:
            return self.spec.value.decode(data)
        except UNREADABLE as error:
            raise unreadable(self.spec, data, error) from None

    def _opened(self, at: int) -> SessionSlice:
        part = self._slices.get(at)
        if part is None:
            part = self._slices[at] = SessionSlice(is_complete=at not in self._stored_slices())
        return part

    def _stored_slices(self) -> set[int]:
        """Return the slices that have rows in the backing."""
        if self._stored is None:
            self._stored = first_numbers(self._backing, bytes([_TIMES]))
        return self._stored

    def items(self) -> Iterator[SessionRow]:
        """Yield the sessions that `find` finds, by end, start and the bytes of the key."""
        self.load()
        first_end = self.first_end
        for at in sorted(self._slices.keys() | self._stored_slices()):
            found: dict[tuple[Span, bytes], Any] = {}
            for row, data in self._backing.scan(_SLICE.pack(at), _SLICE.pack(at + 1)):
                length = _KEY.unpack_from(row)[1]
                span = _SPAN.unpack_from(row, 12 + length)
                found[span, row[12 : 12 + length]] = data
            for name, span in self.dirty:
                if span[0] // self._slice_ms == at:
                    found[span, self.keys.encoded(name)] = None
            for span, key in sorted(found):
                if span[0] < first_end:
                    continue
                original = self.spec.key.decode(key)
                data = found[span, key]
                if data is not None:
                    yield original, span, self._decoded(data)
                elif (value := self.value(self.keys.name(original), span)) is not None:
                    yield original, span, value

    def approximate_count(self) -> int:
        """Return about how many sessions there are."""
        below = max(0, self._backing.approximate_count() - 1)
        fresh = sum(1 for old in self.dirty.values() if old is None)
        return (below // 2 if self.spec.is_timed else below) + fresh

    # In the order of ends

    def follow_ends(self, first_end: int) -> None:
        """Make `next_end` and `take_over` return the sessions that end at `first_end` or later."""
        assert self.spec.is_timed
        self._agenda = Agenda(self._first_ends, _SLICE.pack(max(0, first_end)))

    def next_end(self) -> int | None:
        """Return the lowest end of a session not taken yet; that session may be gone already."""
        assert self._agenda is not None
        entry = self._agenda.first()
        return None if entry is None else _SLICE.unpack_from(entry)[0]

    def take_over(self, below: int) -> Iterator[SessionRow]:
        """Yield the sessions that end before `below`, each once, by end, start and key bytes."""
        agenda, last = self._agenda, b""
        assert agenda is not None
        while (entry := agenda.first()) is not None and _SLICE.unpack_from(entry)[0] < below:
            agenda.pop()
            if self.undo is not None:
                self.undo.append((agenda.add, entry))
            if entry == last:
                continue
            last = entry
            span, key = _SPAN.unpack_from(entry), self.spec.key.decode(entry[16:])
            value = self.value(self.keys.name(key), span)
            if value is not None:
                yield key, span, value

    def _first_ends(self, first: bytes, limit: int) -> list[bytes]:
        changed = {
            _SPAN.pack(*span) + self.keys.encoded(name): self.value(name, span) is not None
            for name, span in self.dirty
        }
        return first_rows(self._times, first, limit, changed)

    # What a commit does

    def expire(self) -> None:
        """Drop the slices that are out of retention. Nothing may be dirty.

        A session that ends exactly at the edge is no longer found, but its result may still be due.
        """
        end = max(0, self.clock - self._retention_ms) // self._slice_ms
        for at in [at for at in self._slices if at < end]:
            self._count -= self._slices.pop(at).count()
        stored = self._stored_slices()
        old = [at for at in stored if at < end]
        if old:
            self._backing.delete_range(b"", _SLICE.pack(end))
            if self.spec.is_timed:
                self._times.delete_range(b"", _SLICE.pack(end * self._slice_ms))
            stored.difference_update(old)

    def flush(self) -> ChangelogRecords:
        changes = ChangelogRecords()
        rows: list[Row] = []
        times: list[Row] = []
        size_bytes = 0
        for (name, span), old in self.dirty.items():
            value = self.value(name, span)
            if value is None and old is None:
                continue
            key, place, at = self.keys.encoded(name), _SPAN.pack(*span), span[0] // self._slice_ms
            data = None if value is None else self.spec.value.encode(value)
            rows.append((_KEY.pack(at, len(key)) + key + place, data))
            changes.add(key + place, data, span[0])
            self._stored_slices().add(at)
            size_bytes += len(key) + len(data or b"")
            if data is None or old is None:
                times.append((place + key, None if data is None else b""))
        self.dirty.clear()
        if rows:
            self._row_bytes = 0.5 * self._row_bytes + 0.5 * size_bytes / len(rows)
            rows.append((_CLOCK_ROW, _SLICE.pack(self.clock)))
        if self.spec.is_timed:
            self._times.write(times)
        self._trim_at = 0
        self._backing.write(rows)
        return changes

    def restore(self, changes: ChangelogRecords) -> None:
        """Apply records of the changelog. Nothing may be in memory yet."""
        self._is_loaded = False
        self.load()
        rows: dict[bytes, bytes | None] = {}
        times: dict[bytes, bytes | None] = {}
        for changed, value in zip(changes.keys, changes.values, strict=True):
            key, place = changed[:-16], changed[-16:]
            end: int = _SLICE.unpack_from(place)[0]
            rows[_KEY.pack(end // self._slice_ms, len(key)) + key + place] = value
            times[place + key] = None if value is None else b""
            self.clock = max(self.clock, end)
        if rows and self.clock >= 0:
            rows[_CLOCK_ROW] = _SLICE.pack(self.clock)
        if self.spec.is_timed:
            self._times.write(sorted(times.items()))
        self._backing.write(sorted(rows.items()))
        self._stored = None

    def size_bytes(self) -> int:
        """Estimate the size of what is in memory from the rows of the last flush."""
        return int(self._count * (self._row_bytes + _SESSION_BYTES))

    def unflushed_bytes(self) -> int:
        """Estimate, as `size_bytes` does, the size of what has changed since the last flush."""
        return int(len(self.dirty) * (self._row_bytes + _SESSION_BYTES))

    def trim(self, budget_bytes: int) -> None:
        """Drop keys of the oldest slices from memory until the rest fits. Changed ones stay."""
        limit = int(budget_bytes / (self._row_bytes + _SESSION_BYTES))
        if self._count <= limit or self._count < self._trim_at:
            return
        changed = {(span[0] // self._slice_ms, name) for name, span in self.dirty}
        for at in sorted(self._slices):
            part = self._slices[at]
            for name in list(part.rows):
                if self._count <= limit * 9 // 10:
                    break
                if (at, name) not in changed:
                    part.is_complete = False
                    self._count -= len(part.rows.pop(name)) + 1
            if not part.rows:
                del self._slices[at]
        # All sessions left are changed: try again when there are a quarter more, or after a flush.
        self._trim_at = self._count * 5 // 4 if self._count > limit else 0
