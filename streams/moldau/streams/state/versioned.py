"""A table's history: the values of each key over time, as far back as `retention_ms`.

A version is valid from its time until that of the next one; a deletion is a version, too. History
reaches back to the highest time put - retention: an earlier put is refused, and versions that
stopped being valid earlier are deleted.

Rows are length of the key (4) + key + time (8) -> 1 + value, or 0 for a deletion. The changelog has
a record for each version: the plain key and value, with the version's time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import Any

from moldau.streams.serdes.types import UNREADABLE
from moldau.streams.state.backing import Backing, Row
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.journal import MISSING, StoreClock, UndoLog, put_back
from moldau.streams.state.keyvalue import Entry, KeyCoding, unreadable
from moldau.streams.state.spec import StoreSpec

_LENGTH = Struct(">I")
_TIME = Struct(">Q")

# (time, value or None), in the order of time.
Versions = list[tuple[int, Any]]


class VersionedStore(StoreClock):
    def __init__(self, spec: StoreSpec, backing: Backing) -> None:
        assert spec.retention_ms is not None
        self.spec = spec
        self.keys = KeyCoding(spec.key)
        self.clock = -1
        self._retention_ms = spec.retention_ms
        self._backing = backing
        self._versions: dict[Any, Versions] = {}
        # The versions put since the last flush: value by (name, time).
        self._fresh: dict[tuple[Any, int], Any] = {}
        self.undo: UndoLog | None = None

    def put(self, key: Any, value: Any, time: int) -> bool:
        """Add a version and return True; return False if it is older than the history."""
        self.advance(time)
        if time < self.clock - self._retention_ms:
            return False
        name = self.keys.name(key)
        versions = self._loaded(name)
        at = bisect_left(versions, time, key=lambda version: version[0])
        is_known = at < len(versions) and versions[at][0] == time
        if self.undo is not None:
            old = versions[at] if is_known else None
            fresh = self._fresh.get((name, time), MISSING)
            self.undo.append((put_back, self._fresh, (name, time), fresh))
            self.undo.append((_put_version_back, versions, at, old))
        if is_known:
            versions[at] = (time, value)
        else:
            versions.insert(at, (time, value))
        self._fresh[name, time] = value
        return True

    def get(self, key: Any) -> Entry | None:
        """Return the newest value of a key and its time."""
        versions = self._loaded(self.keys.name(key))
        if not versions or versions[-1][1] is None:
            return None
        time, value = versions[-1]
        return value, time

    def as_of(self, key: Any, time: int) -> Entry | None:
        """Return the value valid at `time`. Before the history only the newest one is known."""
        versions = self._loaded(self.keys.name(key))
        if time < self.clock - self._retention_ms and versions and versions[-1][0] > time:
            return None
        at = bisect_right(versions, time, key=lambda version: version[0]) - 1
        if at < 0 or versions[at][1] is None:
            return None
        since, value = versions[at]
        return value, since

    def newest_time(self, key: Any) -> int:
        """Return the time of the newest version, deletions included; -1 without any."""
        versions = self._loaded(self.keys.name(key))
        return versions[-1][0] if versions else -1

    def versions(self, key: Any, first: int = 0, last: int = 2**63 - 1) -> Versions:
        """Return the versions of a key with times from `first` to `last`, both included."""
        return [row for row in self._loaded(self.keys.name(key)) if first <= row[0] <= last]

    def items(self) -> Iterator[tuple[Any, Entry]]:
        """Yield the newest value of each key, in the order of the keys' bytes."""
        names = dict.fromkeys(self._versions)
        for row, _ in self._backing.scan(b"", None):
            names[self._name_of(row)] = None
        for name in sorted(names, key=self.keys.encoded):
            key = self.keys.original(name)
            entry = self.get(key)
            if entry is not None:
                yield key, entry

    def approximate_count(self) -> int:
        """Return about how many versions there are."""
        return self._backing.approximate_count() + len(self._fresh)

    def load(self) -> None:
        """Set the clock to the highest time of the rows."""
        for row, _ in self._backing.scan(b"", None):
            self.clock = max(self.clock, _TIME.unpack(row[-8:])[0])

    def expire(self) -> None:
        """Delete versions that stopped being valid before the history, for keys in memory."""
        edge = self.clock - self._retention_ms
        rows: list[Row] = []
        for name, versions in list(self._versions.items()):
            gone = bisect_right(versions, edge, key=lambda version: version[0]) - 1
            if gone >= 0 and versions[gone][1] is None:
                gone += 1
            rows += [(self._row(name, time), None) for time, _ in versions[: max(gone, 0)]]
            del versions[: max(gone, 0)]
            if not versions:
                del self._versions[name]
        self._backing.write(rows)

    def expire_stored(self, edge: int) -> None:
        """Delete versions that stopped being valid at `edge` or before. Nothing may be in memory:
        it is for a store that is only restored."""
        assert not self._versions
        gone: list[Row] = []
        # The last version of the key that is not after the edge, and whether it is a deletion.
        before: tuple[bytes, bool] | None = None
        for row, data in self._backing.scan(b"", None):
            time: int = _TIME.unpack(row[-8:])[0]
            if before is not None and before[0][:-8] != row[:-8]:
                gone += [(before[0], None)] if before[1] else []
                before = None
            if before is not None and (time <= edge or before[1]):
                gone.append((before[0], None))
            before = (row, not data[0]) if time <= edge else None
        if before is not None and before[1]:
            gone.append((before[0], None))
        self._backing.write(gone)

    def flush(self) -> ChangelogRecords:
        changes = ChangelogRecords()
        rows: list[Row] = []
        for (name, time), value in self._fresh.items():
            data = None if value is None else self.spec.value.encode(value)
            rows.append((self._row(name, time), b"\x00" if data is None else b"\x01" + data))
            changes.add(self.keys.encoded(name), data, time)
        self._fresh.clear()
        self._backing.write(rows)
        return changes

    def restore(self, changes: ChangelogRecords) -> None:
        self.clock = max(self.clock, *changes.timestamps, -1)
        rows = {
            _LENGTH.pack(len(key)) + key + _TIME.pack(time): b"\x00"
            if value is None
            else b"\x01" + value
            for key, value, time in zip(
                changes.keys, changes.values, changes.timestamps, strict=True
            )
        }
        self._backing.write(sorted(rows.items()))

    def size_bytes(self) -> int:
        return sum(len(versions) for versions in self._versions.values()) * 300

    def unflushed_bytes(self) -> int:
        """Estimate, as `size_bytes` does, the size of what was put since the last flush."""
        return len(self._fresh) * 300

    def trim(self, budget_bytes: int) -> None:
        """Drop keys with nothing to flush from memory until the rest fits."""
        excess = self.size_bytes() - budget_bytes
        fresh = {name for name, _ in self._fresh}
        for name in [name for name in self._versions if name not in fresh]:
            if excess <= 0:
                return
            excess -= len(self._versions.pop(name)) * 300

    def peek(self, key: Any) -> Versions:
        """Return all versions of a key, without keeping them in memory."""
        name = self.keys.name(key)
        versions = self._versions.get(name)
        return self._stored(name) if versions is None else list(versions)

    def _loaded(self, name: Any) -> Versions:
        versions = self._versions.get(name)
        if versions is None:
            versions = self._versions[name] = self._stored(name)
        return versions

    def _stored(self, name: Any) -> Versions:
        versions: Versions = []
        for row, data in self._backing.scan(self._row(name, 0), self._row(name, 2**64 - 1)):
            try:
                value = self.spec.value.decode(data[1:]) if data[0] else None
            except UNREADABLE as error:
                raise unreadable(self.spec, data, error) from None
            versions.append((_TIME.unpack(row[-8:])[0], value))
        return versions

    def _row(self, name: Any, time: int) -> bytes:
        key = self.keys.encoded(name)
        return _LENGTH.pack(len(key)) + key + _TIME.pack(time)

    def _name_of(self, row: bytes) -> Any:
        return self.keys.name(self.keys.codec.decode(row[4:-8]))


def _put_version_back(versions: Versions, at: int, old: tuple[int, Any] | None) -> None:
    if old is None:
        del versions[at]
    else:
        versions[at] = old
