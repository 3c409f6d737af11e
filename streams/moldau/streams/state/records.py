"""A store of records by key and time that keeps equal ones apart: one side of a windowed join.

Time is divided into slices. The records of a slice are in memory while the cache has room; then
keys of the oldest slices are dropped from memory, and read from the rows again when needed.

Invariants:
* `TimeSlice.rows[k]` has all records of a key in the slice, in the order of time. The records of a
  key that is not in it are in the backing, and in `TimeSlice.added` until a flush has written them.
* A slice that `is_complete` has all of its records in `rows`, so that a miss needs no read.
* A record that expires before the next flush is never written.

Rows are slice (8) + length of the key (4) + key + time (8) + sequence (4) -> value, so that the
records of a key in a stretch of time are one range, and so is a slice that has expired. The
changelog has Kafka's layout: key + time + sequence, in the same bytes.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from struct import Struct
from typing import Any

from moldau.streams.serdes.types import UNREADABLE
from moldau.streams.serdes.windowed import START_AND_SEQUENCE
from moldau.streams.state.backing import Backing, Row, first_numbers
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.journal import UndoLog
from moldau.streams.state.keyvalue import KeyCoding, unreadable
from moldau.streams.state.spec import StoreSpec

_SLICE = Struct(">Q")
_KEY = Struct(">QI")
_PLACE = Struct(">Qi")
_PLACE_END = b"\xff" * 13
# The row that holds the highest time and the last sequence. Slices never begin with this byte.
_CLOCK_ROW = b"\xff"
_CLOCK = Struct(">qi")
_SEQUENCE_MAX = 0x7FFFFFFF
# The rough cost in bytes of a record or a key in memory, besides its encoded bytes.
_RECORD_BYTES = 200

# (time, sequence, value): the sequence orders records of one time, so values are never compared.
TimedRecord = tuple[int, int, Any]
_NOTHING: tuple[TimedRecord, ...] = ()


class TimeSlice:
    """The part of one slice of time that is in memory."""

    __slots__ = ("added", "is_complete", "rows")

    def __init__(self, *, is_complete: bool) -> None:
        self.is_complete = is_complete
        self.rows: dict[Any, list[TimedRecord]] = {}
        self.added: dict[Any, list[TimedRecord]] = {}

    def count(self) -> int:
        """Return the number of keys and records in memory."""
        return sum(sum(map(len, part.values())) + len(part) for part in (self.rows, self.added))


class RecordStore:
    """The records of one partition. `clock` is the highest time that was put: only records with a
    time above clock - retention are visible."""

    def __init__(self, spec: StoreSpec, backing: Backing) -> None:
        assert spec.retention_ms is not None
        self.spec = spec
        self.keys = KeyCoding(spec.key)
        self._named = self.keys.cached
        self.clock = -1
        self._retention_ms = spec.retention_ms
        self._slice_ms = spec.slice_ms or spec.retention_ms
        self._backing = backing
        self._slices: dict[int, TimeSlice] = {}
        # Slices that have rows in the backing; None until it is read.
        self._stored: set[int] | None = None
        self._fresh: list[tuple[Any, TimedRecord]] = []
        # The number of keys and records in memory.
        self._count = 0
        self._sequence = 0
        self.undo: UndoLog | None = None
        self._row_bytes = 64.0
        self._trim_at = 0

    def put(self, key: Any, value: Any, time: int) -> None:
        """Add a record, unless it is older than the retention."""
        before = None if self.undo is None else (self.clock, self._sequence)
        if time > self.clock:
            self.clock = time
        elif time <= self.clock - self._retention_ms:
            return
        self._sequence = sequence = (self._sequence + 1) & _SEQUENCE_MAX
        record = (time, sequence, value)
        name = key if self._named is None else self._named(key)
        at = time // self._slice_ms
        part = self._slices.get(at) or self._opened(at)
        kept = part.rows.get(name)
        if kept is None and not part.is_complete:
            kept = part.added.get(name)
        if kept is None:
            (part.rows if part.is_complete else part.added)[name] = [record]
            self._count += 2
        else:
            if not kept or kept[-1][0] <= time:
                kept.append(record)
            else:
                insort(kept, record)
            self._count += 1
        self._fresh.append((name, record))
        if self.undo is not None:
            self.undo.append((self._take_back, name, record, before))

    def _take_back(self, name: Any, record: TimedRecord, before: tuple[int, int]) -> None:
        """Remove the record that was put last."""
        self.clock, self._sequence = before
        del self._fresh[-1]
        part = self._slices[record[0] // self._slice_ms]
        rows = part.rows if name in part.rows else part.added
        kept = rows[name]
        del kept[bisect_left(kept, record[:2])]
        self._count -= 1
        if not kept and (part.is_complete or rows is part.added):
            del rows[name]
            self._count -= 1

    def fetch(self, key: Any, first: int, last: int) -> Sequence[TimedRecord]:
        """Return the records of a key from `first` to `last`, both included, in the order of time.
        The sequence may be the store's own: do not change it."""
        clock = self.clock
        if last > clock:
            last = clock
        if first <= clock - self._retention_ms:
            first = clock - self._retention_ms + 1
        if last < first:
            return _NOTHING
        name = key if self._named is None else self._named(key)
        at, end = first // self._slice_ms, last // self._slice_ms
        found: Sequence[TimedRecord] = _NOTHING
        while at <= end:
            part = self._slices.get(at)
            # Most slices have nothing of a key: that is found here, without another call.
            if part is None or not part.is_complete or name in part.rows:
                more = self._within(at, name, first, last)
                found = [*found, *more] if found else more
            at += 1
        return found

    def _within(self, at: int, name: Any, first: int, last: int) -> Sequence[TimedRecord]:
        """Return the records of a key in one slice, as `fetch` does."""
        part = self._slices.get(at)
        if part is None:
            if at not in self._stored_slices():
                return _NOTHING
            part = self._opened(at)
        kept = part.rows.get(name)
        if kept is None:
            if part.is_complete:
                return _NOTHING
            kept = self._read(at, part, name)
        if kept and first <= kept[0][0] and kept[-1][0] <= last:
            return kept
        low = bisect_left(kept, (first,))
        return kept[low : bisect_left(kept, (last + 1,), low)]

    def _opened(self, at: int) -> TimeSlice:
        part = self._slices.get(at)
        if part is None:
            part = self._slices[at] = TimeSlice(is_complete=at not in self._stored_slices())
        return part

    def _stored_slices(self) -> set[int]:
        if self._stored is None:
            self._stored = first_numbers(self._backing, _CLOCK_ROW)
        return self._stored

    def _read(self, at: int, part: TimeSlice, name: Any) -> list[TimedRecord]:
        """Read the records of a key in a slice, and keep them in memory."""
        key, decode = self.keys.encoded(name), self.spec.value.decode
        prefix = _KEY.pack(at, len(key)) + key
        kept: list[TimedRecord] = []
        for row, data in self._backing.scan(prefix, prefix + _PLACE_END):
            time, sequence = _PLACE.unpack_from(row, len(prefix))
            try:
                kept.append((time, sequence, decode(data)))
            except UNREADABLE as error:
                raise unreadable(self.spec, data, error) from None
        self._count += len(kept)
        added = part.added.pop(name, None)
        if added is None:
            self._count += 1
        else:
            kept += added
            kept.sort(key=lambda record: record[:2])
        part.rows[name] = kept
        return kept

    def load(self) -> None:
        """Read the clock and the last sequence from the backing."""
        row = self._backing.get(_CLOCK_ROW)
        if row is not None:
            clock, self._sequence = _CLOCK.unpack(row)
            self.clock = max(self.clock, clock)

    def expire(self) -> None:
        """Delete the slices that are wholly out of retention, in memory and in the backing."""
        self._forget_expired()
        end = self._first_slice()
        stored = self._stored_slices()
        old = [at for at in stored if at < end]
        if old:
            self._backing.delete_range(b"", _SLICE.pack(end))
            stored.difference_update(old)

    def _first_slice(self) -> int:
        """Return the number of the first slice that is not wholly out of retention."""
        return max(0, self.clock - self._retention_ms + 1) // self._slice_ms

    def _forget_expired(self) -> None:
        end = self._first_slice()
        for at in [at for at in self._slices if at < end]:
            self._count -= self._slices.pop(at).count()

    def flush(self) -> ChangelogRecords:
        end, slice_ms = self.clock - self._retention_ms, self._slice_ms
        fresh = [each for each in self._fresh if each[1][0] > end]
        encode, pack_place, pack_key = self.spec.value.encode, _PLACE.pack, _KEY.pack
        # Much is written here in each commit, so a step for all records instead of all for each.
        keys = list(map(self.keys.encoder, [name for name, _ in fresh]))
        values = [encode(value) for _, (_, _, value) in fresh]
        times = [time for _, (time, _, _) in fresh]
        slices = [time // slice_ms for time in times]
        places = [pack_place(time, sequence) for _, (time, sequence, _) in fresh]
        rows: list[Row] = [
            (pack_key(at, len(key)) + key + place, data)
            for at, key, place, data in zip(slices, keys, places, values, strict=True)
        ]
        size_bytes = sum(map(len, keys)) + sum(map(len, values))
        self._stored_slices().update(slices)
        self._fresh.clear()
        for part in self._slices.values():
            if part.added:
                self._count -= sum(len(kept) + 1 for kept in part.added.values())
                part.added.clear()
        if rows:
            self._row_bytes = 0.5 * self._row_bytes + 0.5 * size_bytes / len(rows)
            rows.append((_CLOCK_ROW, _CLOCK.pack(self.clock, self._sequence)))
        self._trim_at = 0
        self._backing.write(rows)
        changed = [key + place for key, place in zip(keys, places, strict=True)]
        return ChangelogRecords(changed, list(values), times)

    def restore(self, changes: ChangelogRecords) -> None:
        """Apply records of the changelog. Nothing may be in memory yet."""
        self.load()
        rows: dict[bytes, bytes | None] = {}
        for changed, value in zip(changes.keys, changes.values, strict=True):
            key = changed[:-12]
            time, sequence = START_AND_SEQUENCE.unpack_from(changed, len(key))
            rows[_KEY.pack(time // self._slice_ms, len(key)) + key + changed[-12:]] = value
            self.clock, self._sequence = max(self.clock, time), sequence
        if rows:
            rows[_CLOCK_ROW] = _CLOCK.pack(self.clock, self._sequence)
        self._backing.write(sorted(rows.items()))
        self._stored = None

    def size_bytes(self) -> int:
        """Estimate the size of what is in memory from the rows of the last flush."""
        return int(self._count * (self._row_bytes + _RECORD_BYTES))

    def unflushed_bytes(self) -> int:
        """Estimate, as `size_bytes` does, the size of what no flush has written."""
        return int(len(self._fresh) * (self._row_bytes + _RECORD_BYTES))

    def trim(self, budget_bytes: int) -> None:
        """Drop keys of the oldest slices from memory until the rest fits. Unflushed ones stay."""
        limit = int(budget_bytes / (self._row_bytes + _RECORD_BYTES))
        if self._count <= limit or self._count < self._trim_at:
            return
        self._forget_expired()
        end = self.clock - self._retention_ms
        self._fresh = [each for each in self._fresh if each[1][0] > end]
        fresh = {(record[0] // self._slice_ms, name) for name, record in self._fresh}
        for at in sorted(self._slices):
            if self._count <= limit * 9 // 10:
                break
            self._forget(at, limit * 9 // 10, fresh)
        # All records left are unflushed: try again when there are a quarter more, or after a flush.
        self._trim_at = self._count * 5 // 4 if self._count > limit else 0

    def _forget(self, at: int, limit: int, fresh: set[tuple[int, Any]]) -> None:
        part = self._slices[at]
        for name in list(part.rows):
            if self._count <= limit:
                return
            if (at, name) not in fresh:
                part.is_complete = False
                self._count -= len(part.rows.pop(name)) + 1
        if not part.rows and not part.added:
            del self._slices[at]
