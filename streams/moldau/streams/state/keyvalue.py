"""A key-value store with timestamps: decoded objects in a cache above rows of bytes.

The engine's generated loop uses `cache` and `dirty` directly and calls `load` only on a miss.

Invariants:
* `cache[k]` is the newest entry (value, timestamp) of a key, or None if the key is known to be
  absent. A key that is not in it must be loaded.
* `dirty[k]` is the entry at the last flush; every key that has changed since is in it.
* A row is key -> 8-byte time + value. The changelog has the plain value.
* A store that `is_complete` has all of its rows in the cache, so that a miss needs no read.
* A timed store has its rows below one prefix byte. For each row it has an empty row time + key
  below another prefix byte.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from struct import Struct
from typing import Any

from moldau.streams.problems import StateError
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.types import INTERNAL_ANY, UNREADABLE
from moldau.streams.state.backing import Backing, PrefixedBacking, Row, after_prefix, first_rows
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.journal import MISSING, UndoLog, put_back
from moldau.streams.state.spec import StoreSpec

Entry = tuple[Any, int]

_TIME = Struct(">q")

# The prefix bytes of the two kinds of rows of a timed store.
_ROWS, _TIMES = 0x6B, 0x74

# About this many rows of a flush are measured, to estimate the size of a row.
_SAMPLE = 100

# The rough cost in bytes of an object in the cache, besides its encoded bytes.
_ENTRY_BYTES = 200


def cache_key_of(codec: Codec) -> Callable[[Any], Any] | None:
    """Return the function from keys to their names in a cache; None if a key is its own name."""
    if codec.is_hashable:
        return None
    if codec is INTERNAL_ANY:
        return lambda key: key if key.__class__ is str else codec.encode(key)
    return codec.encode


class KeyCoding:
    """The three forms of a key: the user's object, its name in the cache, its bytes in a row."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.cached = cache_key_of(codec)
        # The same as `encoded`, but a direct call where the cache uses the user's keys.
        self.encoder = codec.encode if self.cached is None else self.encoded

    def name(self, key: Any) -> Any:
        """Return the cache's name of `key`."""
        return key if self.cached is None else self.cached(key)

    def original(self, name: Any) -> Any:
        """Return the key that the cache calls `name`."""
        if self.cached is None or name.__class__ is str:
            return name
        return self.codec.decode(name)

    def encoded(self, name: Any) -> bytes:
        """Return the bytes of the key that the cache calls `name`."""
        if self.cached is None or name.__class__ is str:
            return self.codec.encode(name)
        return name  # type: ignore[no-any-return]


class KeyValueStore:
    """The rows of one partition of a table."""

    def __init__(self, spec: StoreSpec, backing: Backing) -> None:
        self.spec = spec
        self.keys = KeyCoding(spec.key)
        self.cache: dict[Any, Entry | None] = {}
        self.dirty: dict[Any, Entry | None] = {}
        # Times of deletions since the last flush.
        self.deleted: dict[Any, int] = {}
        self.undo: UndoLog | None = None
        # The highest stream time of the operators that write to it, for rows with a time to live.
        self.time = -1
        self._backing = PrefixedBacking(backing, _ROWS) if spec.is_timed else backing
        self._times = PrefixedBacking(backing, _TIMES) if spec.is_timed else None
        self._row_bytes = 64.0
        self._trim_at = 0
        # None: unknown, because nothing was read yet.
        self._is_complete: bool | None = None

    def load(self, name: Any) -> Entry | None:
        """Read a key that is not in the cache, and keep it there."""
        if self._is_complete is None:
            self._is_complete = next(iter(self._backing.scan(b"", None)), None) is None
        row = None if self._is_complete else self._backing.get(self.keys.encoder(name))
        entry = None if row is None else timed_entry(self.spec, row)
        self.cache[name] = entry
        return entry

    def get(self, key: Any) -> Entry | None:
        name = self.keys.name(key)
        try:
            return self.cache[name]
        except KeyError:
            return self.load(name)

    def peek(self, key: Any) -> Entry | None:
        """Return the entry of a key as `get` does, without adding it to the cache."""
        name = self.keys.name(key)
        if name in self.cache:
            return self.cache[name]
        row = self._backing.get(self.keys.encoded(name))
        return None if row is None else timed_entry(self.spec, row)

    def peek_range(
        self, first: Any, last: Any, *, limit: int | None = None, is_reverse: bool = False
    ) -> list[tuple[Any, Entry]]:
        """Return at most `limit` rows as `items` does, without reading the whole range."""
        low = b"" if first is None else self.keys.codec.encode(first)
        high = None if last is None else self.keys.codec.encode(last) + b"\x00"
        changed = {
            key: self.cache[name]
            for name in self.dirty
            if (key := self.keys.encoded(name)) >= low and (high is None or key < high)
        }
        scan = self._backing.scan(low, high, is_reverse=is_reverse)
        most = None if limit is None else limit + len(changed)
        rows: dict[bytes, Entry | None] = {
            key: timed_entry(self.spec, row) for key, row in islice(scan, most)
        }
        if most is not None and len(rows) == most and rows:
            edge = next(reversed(rows))
            changed = {
                key: entry
                for key, entry in changed.items()
                if (key >= edge if is_reverse else key <= edge)
            }
        rows |= changed
        found = [(key, entry) for key in sorted(rows, reverse=is_reverse) if (entry := rows[key])]
        return [(self.keys.codec.decode(key), entry) for key, entry in found[:limit]]

    def approximate_count(self) -> int:
        """Return about how many rows there are."""
        fresh = sum(1 for name, old in self.dirty.items() if old is None and self.cache[name])
        below = self._backing.approximate_count()
        return (below if self._times is None else below // 2) + fresh

    def first_keys(
        self, first: bytes, limit: int, wanted: Callable[[bytes], bool] = lambda _: True
    ) -> list[bytes]:
        """Return the bytes of the first `limit` keys from `first` on for which `wanted` is true."""
        encoded, cache = self.keys.encoded, self.cache
        changed = {encoded(name): cache[name] is not None for name in self.dirty}
        found: list[bytes] = []
        while len(found) < limit:
            some = first_rows(self._backing, first, limit, changed)
            found += [key for key in some if wanted(key)]
            if len(some) < limit:
                break
            first = some[-1] + b"\x00"
        return found[:limit]

    def first_times(self, first: bytes, limit: int) -> list[bytes]:
        """Return the first `limit` entries time + key from `first` on, in the order of times."""
        assert self._times is not None, "the store is not timed"
        changed: dict[bytes, bool] = {}
        for name, old in self.dirty.items():
            key, new = self.keys.encoded(name), self.cache[name]
            if old is not None:
                changed[_TIME.pack(old[1]) + key] = False
            if new is not None:
                changed[_TIME.pack(new[1]) + key] = True
        return first_rows(self._times, first, limit, changed)

    def put(self, key: Any, value: Any, timestamp: int) -> Entry | None:
        """Set the value of a key, or delete the key with None. Return the previous entry."""
        name = self.keys.name(key)
        old = self.get(key)
        if self.undo is not None:
            self._log(self.undo, name, old)
        self.cache[name] = None if value is None else (value, timestamp)
        if value is None:
            self.deleted[name] = timestamp
        self.dirty.setdefault(name, old)
        return old

    def advance(self, time: int) -> int:
        """Set the highest time, if this one is higher, and return it."""
        if time > self.time:
            if self.undo is not None:
                self.undo.append((setattr, self, "time", self.time))
            self.time = time
        return self.time

    def delete_before(self, time: int, limit: int) -> None:
        """Delete the oldest rows of a timed store with a time before this one, `limit` at most."""
        for each in self.first_times(b"", limit):
            if _TIME.unpack_from(each)[0] >= time:
                return
            self.put(self.keys.codec.decode(each[_TIME.size :]), None, self.time)

    def _log(self, undo: UndoLog, name: Any, old: Entry | None) -> None:
        undo.append((put_back, self.cache, name, old))
        undo.append((put_back, self.deleted, name, self.deleted.get(name, MISSING)))
        if name not in self.dirty:
            undo.append((self.dirty.pop, name, None))

    def items(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Entry]]:
        """Yield rows with keys from `first` to `last`, both included, in the order of bytes."""
        low = b"" if first is None else self.keys.codec.encode(first)
        high = None if last is None else self.keys.codec.encode(last) + b"\x00"
        return self._range(low, high)

    def with_prefix(self, prefix: bytes) -> Iterator[tuple[Any, Entry]]:
        """Yield the rows with keys that begin with `prefix`, in the order of their bytes."""
        return self._range(prefix, after_prefix(prefix))

    def _range(self, low: bytes, high: bytes | None) -> Iterator[tuple[Any, Entry]]:
        decode = self.keys.codec.decode
        changed = {
            key: self.cache[name]
            for name in self.dirty
            if (key := self.keys.encoded(name)) >= low and (high is None or key < high)
        }
        waiting = deque(sorted(changed))
        for key, row in self._backing.scan(low, high):
            while waiting and waiting[0] < key:
                if (entry := changed[changed_key := waiting.popleft()]) is not None:
                    yield decode(changed_key), entry
            if key not in changed:
                yield decode(key), timed_entry(self.spec, row)
        for key in waiting:
            if (entry := changed[key]) is not None:
                yield decode(key), entry

    def flush(self) -> ChangelogRecords:
        """Write the changes to the backing, and return them for the changelog."""
        changes = ChangelogRecords()
        rows: list[Row] = []
        if self._times is not None:
            self._times.write(self._changed_times())
        encode, encoded, pack, cache = (
            self.spec.value.encode,
            self.keys.encoder,
            _TIME.pack,
            self.cache,
        )
        keys, values, times = changes.keys, changes.values, changes.timestamps
        for name, old in self.dirty.items():
            entry = cache[name]
            if entry is None:
                if old is None:
                    continue
                key, time, value = encoded(name), self.deleted.get(name, 0), None
                rows.append((key, None))
            else:
                key, time, value = encoded(name), entry[1], encode(entry[0])
                rows.append((key, pack(time) + value))
            keys.append(key)
            values.append(value)
            times.append(time)
        if rows:
            some = rows[:: len(rows) // _SAMPLE + 1]
            size = sum(len(key) + len(value or b"") for key, value in some)
            self._row_bytes = 0.5 * self._row_bytes + 0.5 * size / len(some)
        self.dirty.clear()
        self.deleted.clear()
        self._trim_at = 0
        self._backing.write(rows)
        return changes

    def restore(self, changes: ChangelogRecords) -> None:
        """Apply records of the changelog. The cache must be empty."""
        entries = zip(changes.values, changes.timestamps, strict=True)
        newest = dict(zip(changes.keys, entries, strict=True))
        self._is_complete = None
        if self._times is not None:
            self._times.write(self._restored_times(newest))
        self._backing.write(
            [
                (key, None if value is None else _TIME.pack(timestamp) + value)
                for key, (value, timestamp) in sorted(newest.items())
            ]
        )

    def _changed_times(self) -> list[Row]:
        rows: list[Row] = []
        for name, old in self.dirty.items():
            key, new = self.keys.encoded(name), self.cache[name]
            if old is not None:
                rows.append((_TIME.pack(old[1]) + key, None))
            if new is not None:
                rows.append((_TIME.pack(new[1]) + key, b""))
        return rows

    def _restored_times(self, newest: dict[bytes, tuple[bytes | None, int]]) -> list[Row]:
        rows: list[Row] = []
        for key, (value, timestamp) in newest.items():
            if (old := self._backing.get(key)) is not None:
                rows.append((old[:8] + key, None))
            if value is not None:
                rows.append((_TIME.pack(timestamp) + key, b""))
        return rows

    def size_bytes(self) -> int:
        """Estimate the size of the cache from the rows of the last flush."""
        return int(len(self.cache) * (3 * self._row_bytes + _ENTRY_BYTES))

    def unflushed_bytes(self) -> int:
        """Estimate, as `size_bytes` does, the size of what has changed since the last flush."""
        return int(len(self.dirty) * (3 * self._row_bytes + _ENTRY_BYTES))

    def trim(self, budget_bytes: int) -> None:
        """Drop the oldest clean entries until the cache fits. Changed ones stay until a flush."""
        cache, dirty = self.cache, self.dirty
        limit = int(budget_bytes / (3 * self._row_bytes + _ENTRY_BYTES))
        if len(cache) <= limit or len(cache) < self._trim_at:
            return
        # To 90 %, so that the next record does not trim again.
        excess = len(cache) - limit * 9 // 10
        clean = list(islice((name for name in cache if name not in dirty), excess))
        for name in clean:
            del cache[name]
        if clean:
            self._is_complete = False
        # All entries left are changed: try again when there are a quarter more, or after a flush.
        self._trim_at = len(cache) * 5 // 4 if len(cache) > limit else 0


def unreadable(spec: StoreSpec, data: bytes, error: Exception) -> StateError:
    return StateError(
        f"store={spec.name}: a value is no {spec.value.name}: {error}: {data[:80]!r}; "
        "the app's types have changed: declare a type that reads both, or rename the store "
        "so that it is built anew"
    )


def timed_entry(spec: StoreSpec, row: bytes) -> Entry:
    """Return the value and the time of a row, which is 8 bytes of time + value."""
    try:
        return spec.value.decode(row[8:]), _TIME.unpack_from(row)[0]
    except UNREADABLE as error:
        raise unreadable(spec, row[8:], error) from None
