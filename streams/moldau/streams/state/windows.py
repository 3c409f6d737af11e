"""A store of values by key and window start: one dict for each window in memory, above rows.

Invariants:
* A window is in `open` while it has rows in memory, until it has expired: `clock.time` has reached
  start + retention. Then it is dropped as a whole, and all of its rows with it.
* A window that is `is_complete` has all of its rows in memory, so that a miss needs no read.
* Rows are 8-byte start + key -> 8-byte time + value, so that a window is one range of keys. The
  changelog has Kafka's layout: key + start + sequence, the plain value.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

from moldau.streams.serdes.windowed import START_AND_SEQUENCE
from moldau.streams.state.backing import Backing, Row
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.journal import StoreClock, UndoLog, put_back
from moldau.streams.state.keyvalue import Entry, KeyCoding, timed_entry
from moldau.streams.state.spec import StoreSpec

_TIME = Struct(">q")
_START = Struct(">Q")
_ENTRY_BYTES = 200


class OpenWindow:
    """The rows of one window in memory. `rows` and `dirty` are a cache as in a key-value store."""

    __slots__ = ("deleted", "dirty", "end", "is_complete", "rows", "start")

    def __init__(self, start: int, end: int, *, is_complete: bool) -> None:
        self.start = start
        self.end = end
        self.is_complete = is_complete
        self.rows: dict[Any, Entry | None] = {}
        self.dirty: dict[Any, Entry | None] = {}
        self.deleted: dict[Any, int] = {}


class WindowStore(StoreClock):
    """The windows of one partition. All windows have one size, or none ever ends."""

    def __init__(self, spec: StoreSpec, backing: Backing) -> None:
        self.spec = spec
        self.keys = KeyCoding(spec.key)
        self.open: dict[int, OpenWindow] = {}
        self.clock = -1
        """The highest time seen by the users' operators that share this store."""
        self.undo: UndoLog | None = None
        self._backing = backing
        self._row_bytes = 64.0
        self._trim_at = 0
        # The starts that have rows in the backing, whether in memory or not.
        self._stored: set[int] | None = None

    def window(self, start: int) -> OpenWindow:
        """Return the window that starts at `start`. Open it if it is not in memory."""
        window = self.open.get(start)
        if window is None:
            end = 2**63 - 1 if self.spec.window_ms is None else start + self.spec.window_ms
            window = OpenWindow(start, end, is_complete=start not in self.stored())
            self.open[start] = window
        return window

    def stored(self) -> set[int]:
        """Return the starts of the windows that have rows in the backing."""
        if self._stored is None:
            self._stored = set()
            first = b""
            while (row := next(self._backing.scan(first, None), None)) is not None:
                start: int = _START.unpack_from(row[0])[0]
                self._stored.add(start)
                first = _START.pack(start + 1)
        return self._stored

    def load(self, window: OpenWindow, name: Any) -> Entry | None:
        """Read a key that `window` does not have in memory, and keep it there."""
        row = self._backing.get(_START.pack(window.start) + self.keys.encoded(name))
        entry = None if row is None else timed_entry(self.spec, row)
        window.rows[name] = entry
        return entry

    def fetch(self, key: Any, start: int) -> Entry | None:
        """Return the value of a key in the window that starts at `start`, with its time."""
        name = self.keys.name(key)
        window = self.open.get(start)
        if window is not None and (name in window.rows or window.is_complete):
            return window.rows.get(name)
        if start not in self.stored():
            return None
        row = self._backing.get(_START.pack(start) + self.keys.encoded(name))
        return None if row is None else timed_entry(self.spec, row)

    def put(self, key: Any, start: int, entry: Entry | None) -> None:
        name = self.keys.name(key)
        window = self.window(start)
        old = self.fetch(key, start)
        if self.undo is not None:
            self.undo.append((put_back, window.rows, name, old))
            if name not in window.dirty:
                self.undo.append((window.dirty.pop, name, None))
        window.rows[name] = entry
        window.dirty.setdefault(name, old)

    def starts(self, first: int = 0, last: int = 2**63 - 1) -> list[int]:
        """Return the starts from `first` to `last`, both included, that may have rows."""
        return sorted(start for start in self.open.keys() | self.stored() if first <= start <= last)

    def entries(self, window: OpenWindow) -> list[tuple[bytes, Any, Entry]]:
        """Return all rows of a window: (key bytes, key, entry), in the order of the bytes."""
        found: dict[bytes, Entry | None] = {}
        if not window.is_complete:
            low = _START.pack(window.start)
            for key, row in self._backing.scan(low, _START.pack(window.start + 1)):
                found[key[8:]] = timed_entry(self.spec, row)
        for name, entry in window.rows.items():
            found[self.keys.encoded(name)] = entry
        decode = self.keys.codec.decode
        return [
            (key, decode(key), entry)
            for key, entry in sorted(found.items(), key=lambda item: item[0])
            if entry is not None
        ]

    def items(self) -> Iterator[tuple[Any, int, Entry]]:
        """Yield all rows: (key, start, entry), by start, then by the bytes of the key."""
        for start in self.starts():
            window = self.open.get(start) or OpenWindow(start, start, is_complete=False)
            for _, key, entry in self.entries(window):
                yield key, start, entry

    def approximate_count(self) -> int:
        """Return about how many rows there are."""
        fresh = sum(
            1
            for window in self.open.values()
            for name, old in window.dirty.items()
            if old is None and window.rows[name] is not None
        )
        return self._backing.approximate_count() + fresh

    def expire(self, before: int) -> None:
        """Drop the windows with start < `before`, and their rows."""
        stored = self.stored()
        for start in [start for start in self.open if start < before]:
            del self.open[start]
        old = [start for start in stored if start < before]
        if old:
            self._backing.delete_range(b"", _START.pack(before))
            stored.difference_update(old)

    def flush(self) -> ChangelogRecords:
        """Write the changes to the backing, and return them for the changelog."""
        changes = ChangelogRecords()
        rows: list[Row] = []
        for window in self.open.values():
            if window.dirty:
                self._flush_window(window, changes, rows)
        if rows:
            size = sum(len(key) + len(value or b"") for key, value in rows)
            self._row_bytes = 0.5 * self._row_bytes + 0.5 * size / len(rows)
        self._backing.write(rows)
        self._trim_at = 0
        return changes

    def _flush_window(self, window: OpenWindow, changes: ChangelogRecords, rows: list[Row]) -> None:
        self.stored().add(window.start)
        start = _START.pack(window.start)
        suffix = START_AND_SEQUENCE.pack(window.start, 0)
        encode, encoded = self.spec.value.encode, self.keys.encoded
        for name in window.dirty:
            entry = window.rows[name]
            key = encoded(name)
            if entry is None:
                rows.append((start + key, None))
                changes.add(key + suffix, None, window.deleted.get(name, window.start))
            else:
                value = encode(entry[0])
                rows.append((start + key, _TIME.pack(entry[1]) + value))
                changes.add(key + suffix, value, entry[1])
        window.dirty.clear()
        window.deleted.clear()

    def restore(self, changes: ChangelogRecords) -> None:
        """Apply records of the changelog. Nothing may be in memory yet."""
        rows: dict[bytes, bytes | None] = {}
        for key, value, timestamp in zip(
            changes.keys, changes.values, changes.timestamps, strict=True
        ):
            row = key[-12:-4] + key[:-12]
            self.clock = max(self.clock, _START.unpack_from(row)[0])
            rows[row] = None if value is None else _TIME.pack(timestamp) + value
        self._backing.write(sorted(rows.items()))
        self._stored = None

    def size_bytes(self) -> int:
        """Estimate the size of what is in memory from the rows of the last flush."""
        count = sum(len(window.rows) for window in self.open.values())
        return int(count * (3 * self._row_bytes + _ENTRY_BYTES))

    def unflushed_bytes(self) -> int:
        """Estimate, as `size_bytes` does, the size of what has changed since the last flush."""
        count = sum(len(window.dirty) for window in self.open.values())
        return int(count * (3 * self._row_bytes + _ENTRY_BYTES))

    def trim(self, budget_bytes: int) -> None:
        """Drop clean rows of the oldest windows from memory until the rest fits."""
        limit = int(budget_bytes / (3 * self._row_bytes + _ENTRY_BYTES))
        count = sum(len(window.rows) for window in self.open.values())
        if count <= limit or count < self._trim_at:
            return
        for start in sorted(self.open):
            window = self.open[start]
            clean = [name for name in window.rows if name not in window.dirty]
            if clean:
                window.is_complete = False
            for name in clean:
                del window.rows[name]
            if not window.rows and start in self.stored():
                del self.open[start]
            count -= len(clean)
            if count <= limit * 9 // 10:
                break
        # All rows left are changed: try again when there are a quarter more, or after a flush.
        self._trim_at = count * 5 // 4 if count > limit else 0
