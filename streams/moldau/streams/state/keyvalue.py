"""A key-value store with timestamps: decoded objects in a cache above rows of bytes.

The engine's generated loop works on `cache` and `dirty` directly and calls `load` on a miss only.

Invariants:
* `cache[k]` is the newest entry (value, timestamp) of a key, or None if the key is known to be
  absent. A key that is not in it must be loaded.
* `dirty[k]` is the entry as it was at the last flush; every key that changed since is in it.
* A row is key -> 8-byte time + value. The changelog has the plain value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from struct import Struct
from typing import Any

from moldau.streams.problems import StateError
from moldau.streams.serdes.codec import Codec
from moldau.streams.serdes.types import INTERNAL_ANY, UNREADABLE
from moldau.streams.state.backing import Backing, Row
from moldau.streams.state.changes import Changes
from moldau.streams.state.spec import StoreSpec

Entry = tuple[Any, int]

_TIME = Struct(">q")

# What an object in the cache costs beside its bytes, roughly.
_ENTRY_BYTES = 200


def cache_key_of(codec: Codec) -> Callable[[Any], Any] | None:
    """How a cache names keys: None for the key itself, else a function to its bytes (or text)."""
    if codec.is_hashable:
        return None
    if codec is INTERNAL_ANY:
        return lambda key: key if key.__class__ is str else codec.encode(key)
    return codec.encode


class KeyCoding:
    """Keys as users see them, as the cache names them, and as rows hold them."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.cached = cache_key_of(codec)

    def name(self, key: Any) -> Any:
        """What the cache calls `key`."""
        return key if self.cached is None else self.cached(key)

    def original(self, name: Any) -> Any:
        """The key that the cache calls `name`."""
        if self.cached is None or name.__class__ is str:
            return name
        return self.codec.decode(name)

    def encoded(self, name: Any) -> bytes:
        """The bytes of the key that the cache calls `name`."""
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
        self._backing = backing
        self._row_bytes = 64.0
        self._trim_at = 0

    def load(self, name: Any) -> Entry | None:
        """Read a key that is not in the cache, and keep it there."""
        row = self._backing.get(self.keys.encoded(name))
        entry = None if row is None else self._entry(row)
        self.cache[name] = entry
        return entry

    def get(self, key: Any) -> Entry | None:
        name = self.keys.name(key)
        try:
            return self.cache[name]
        except KeyError:
            return self.load(name)

    def peek(self, key: Any) -> Entry | None:
        """As `get`, without keeping anything in the cache."""
        name = self.keys.name(key)
        if name in self.cache:
            return self.cache[name]
        row = self._backing.get(self.keys.encoded(name))
        return None if row is None else self._entry(row)

    def peek_range(
        self, first: Any, last: Any, *, limit: int | None = None, is_reverse: bool = False
    ) -> list[tuple[Any, Entry]]:
        """At most so many rows as `items` has them, reading no more than these from below."""
        low = b"" if first is None else self.keys.codec.encode(first)
        high = None if last is None else self.keys.codec.encode(last) + b"\x00"
        changed = {
            key: self.cache[name]
            for name in self.dirty
            if (key := self.keys.encoded(name)) >= low and (high is None or key < high)
        }
        scan = self._backing.scan(low, high, is_reverse=is_reverse)
        most = None if limit is None else limit + len(changed)
        rows: dict[bytes, Entry | None] = {key: self._entry(row) for key, row in islice(scan, most)}
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
        """About how many rows there are."""
        fresh = sum(1 for name, old in self.dirty.items() if old is None and self.cache[name])
        return self._backing.approximate_count() + fresh

    def put(self, key: Any, value: Any, timestamp: int) -> Entry | None:
        """Set a value, or delete with None; return what was there."""
        name = self.keys.name(key)
        old = self.get(key)
        self.cache[name] = None if value is None else (value, timestamp)
        if value is None:
            self.deleted[name] = timestamp
        self.dirty.setdefault(name, old)
        return old

    def items(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Entry]]:
        """The rows with keys from `first` to `last`, both included, in the order of their bytes."""
        low = b"" if first is None else self.keys.codec.encode(first)
        high = None if last is None else self.keys.codec.encode(last) + b"\x00"
        return self._range(low, high)

    def with_prefix(self, prefix: bytes) -> Iterator[tuple[Any, Entry]]:
        """The rows whose keys' bytes begin with `prefix`, in the order of their bytes."""
        return self._range(prefix, prefix + b"\xff" * 64)

    def _range(self, low: bytes, high: bytes | None) -> Iterator[tuple[Any, Entry]]:
        rows: dict[bytes, Entry | None] = {}
        for key, row in self._backing.scan(low, high):
            rows[key] = self._entry(row)
        for name in self.dirty:
            key = self.keys.encoded(name)
            if key >= low and (high is None or key < high):
                rows[key] = self.cache[name]
        for key in sorted(rows):
            entry = rows[key]
            if entry is not None:
                yield self.keys.codec.decode(key), entry

    def flush(self) -> Changes:
        """Write what changed to the backing and return it for the changelog."""
        changes = Changes()
        rows: list[Row] = []
        encode, encoded = self.spec.value.encode, self.keys.encoded
        size = 0
        for name, old in self.dirty.items():
            entry = self.cache[name]
            if entry is None and old is None:
                continue
            key = encoded(name)
            if entry is None:
                rows.append((key, None))
                changes.add(key, None, self.deleted.get(name, 0))
            else:
                value = encode(entry[0])
                rows.append((key, _TIME.pack(entry[1]) + value))
                changes.add(key, value, entry[1])
                size += len(key) + len(value)
        if rows:
            self._row_bytes = 0.5 * self._row_bytes + 0.5 * size / len(rows)
        self.dirty.clear()
        self.deleted.clear()
        self._trim_at = 0
        self._backing.write(rows)
        return changes

    def restore(self, changes: Changes) -> None:
        """Apply records of the changelog. The cache must be empty."""
        entries = zip(changes.values, changes.timestamps, strict=True)
        newest = dict(zip(changes.keys, entries, strict=True))
        self._backing.write(
            [
                (key, None if value is None else _TIME.pack(timestamp) + value)
                for key, (value, timestamp) in sorted(newest.items())
            ]
        )

    def size_bytes(self) -> int:
        """What the cache takes, estimated from the rows of the last flush."""
        return int(len(self.cache) * (3 * self._row_bytes + _ENTRY_BYTES))

    def trim(self, budget_bytes: int) -> None:
        """Forget the oldest clean entries until the cache fits. Changed ones stay till a flush."""
        cache, dirty = self.cache, self.dirty
        limit = int(budget_bytes / (3 * self._row_bytes + _ENTRY_BYTES))
        if len(cache) <= limit or len(cache) < self._trim_at:
            return
        # To 90 %, so that the next record does not trim again.
        excess = len(cache) - limit * 9 // 10
        clean = list(islice((name for name in cache if name not in dirty), excess))
        for name in clean:
            del cache[name]
        # What is left is changed: look again when there is a quarter more, or after a flush.
        self._trim_at = len(cache) * 5 // 4 if len(cache) > limit else 0

    def _entry(self, row: bytes) -> Entry:
        try:
            return self.spec.value.decode(row[8:]), _TIME.unpack_from(row)[0]
        except UNREADABLE as error:
            raise unreadable(self.spec, row[8:], error) from None


def unreadable(spec: StoreSpec, data: bytes, error: Exception) -> StateError:
    return StateError(
        f"store={spec.name}: a value is no {spec.value.name}: {error}: {data[:80]!r}; "
        "the app's types have changed: declare a type that reads both, or rename the store "
        "so that it is built anew"
    )
