"""A store of records by key and time that keeps equal ones apart: one side of a join in windows.

All records in retention are in memory, by key and in the order of time; the backing has them for a
restart. A record that is over before the next flush is never written.

Rows are time (8) + sequence (4) + key -> value, so that expiry is one range of keys. The changelog
has Kafka's layout: key + time + sequence.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from struct import Struct
from typing import Any

from moldau.streams.serdes.types import UNREADABLE
from moldau.streams.serdes.windowed import START_AND_SEQUENCE
from moldau.streams.state.backing import Backing, Row
from moldau.streams.state.changes import Changes
from moldau.streams.state.keyvalue import KeyCoding, unreadable
from moldau.streams.state.spec import StoreSpec

_ROW = Struct(">Qi")

# (time, sequence, value): the sequence keeps values from being compared.
Timed = tuple[int, int, Any]


class RecordStore:
    """`clock` is the highest time that was put: only later times than it - retention are seen."""

    def __init__(self, spec: StoreSpec, backing: Backing) -> None:
        assert spec.retention_ms is not None
        self.spec = spec
        self.keys = KeyCoding(spec.key)
        self.clock = -1
        self._retention_ms = spec.retention_ms
        self._backing = backing
        self._records: dict[Any, list[Timed]] = {}
        self._fresh: list[tuple[Any, Timed]] = []
        self._sequence = 0
        self._is_loaded = False

    def put(self, key: Any, value: Any, time: int) -> None:
        """Keep a record, unless it is older than the retention."""
        self.clock = max(self.clock, time)
        if time <= self.clock - self._retention_ms:
            return
        self._sequence += 1
        record = (time, self._sequence, value)
        name = self.keys.name(key)
        kept = self._records.get(name)
        if kept is None:
            self._records[name] = [record]
        elif kept[-1][0] <= time:
            kept.append(record)
        else:
            insort(kept, record)
        self._fresh.append((name, record))

    def fetch(self, key: Any, first: int, last: int) -> list[Timed]:
        """The records of a key from `first` to `last`, both included, by time."""
        kept = self._records.get(self.keys.name(key))
        if kept is None:
            return []
        first = max(first, self.clock - self._retention_ms + 1)
        low = bisect_left(kept, (first,))
        high = bisect_left(kept, (last + 1,), low)
        return kept[low:high]

    def load(self) -> None:
        """Read all rows into memory, once."""
        if self._is_loaded:
            return
        self._is_loaded = True
        decode, original = self.spec.value.decode, self.keys
        for row, data in self._backing.scan(b"", None):
            time, sequence = _ROW.unpack_from(row)
            try:
                key, value = self.spec.key.decode(row[12:]), decode(data)
            except UNREADABLE as error:
                raise unreadable(self.spec, data, error) from None
            self._records.setdefault(original.name(key), []).append((time, sequence, value))
            self.clock = max(self.clock, time)
            self._sequence = max(self._sequence, sequence)

    def expire(self) -> None:
        """Forget what is out of retention."""
        end = self.clock - self._retention_ms + 1
        if end <= 0:
            return
        for name, kept in list(self._records.items()):
            if kept[0][0] < end:
                del kept[: bisect_left(kept, (end,))]
                if not kept:
                    del self._records[name]
        self._backing.delete_range(b"", _ROW.pack(end, 0))

    def flush(self) -> Changes:
        changes = Changes()
        rows: list[Row] = []
        end = self.clock - self._retention_ms
        for name, (time, sequence, value) in self._fresh:
            if time > end:
                key, data = self.keys.encoded(name), self.spec.value.encode(value)
                rows.append((_ROW.pack(time, sequence) + key, data))
                changes.add(key + START_AND_SEQUENCE.pack(time, sequence), data, time)
        self._fresh.clear()
        self._backing.write(rows)
        return changes

    def restore(self, changes: Changes) -> None:
        rows = {
            key[-12:] + key[:-12]: value
            for key, value in zip(changes.keys, changes.values, strict=True)
        }
        self._backing.write(sorted(rows.items()))

    def size_bytes(self) -> int:
        return sum(len(kept) for kept in self._records.values()) * 200

    def trim(self, budget_bytes: int) -> None:
        """Records in retention stay in memory; the retention bounds them."""
