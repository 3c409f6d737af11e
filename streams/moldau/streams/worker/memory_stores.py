"""Stores of a task in memory, beside those on disk. Their changelogs make them again after a stop.

Invariants: rows are read in the order of their keys, as those of RocksDB are. What a commit has not
covered is gone when the task closes, with all other rows; until then a question of what is
committed sees the rows as the last commit left them. A store in memory has no position when its
database is opened, so it is restored from the beginning of its changelog.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from moldau.streams.rocks import ChangelogPosition, StoreSize
from moldau.streams.rocks.backing import merged_rows
from moldau.streams.state.backing import Backing, MemoryBacking, Row
from moldau.streams.worker.tasks import Database


class StagedMemory:
    """Rows in memory that know what they were at the last commit."""

    def __init__(self) -> None:
        self._rows = MemoryBacking()
        self._before: dict[bytes, bytes | None] = {}
        """What the last commit left of the keys that have changed since."""
        self.staged_bytes = 0

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if there is no row."""
        return self._rows.get(key)

    def scan(
        self, first: bytes, end: bytes | None, *, is_reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows with first <= key < end, ordered by key."""
        return self._rows.scan(first, end, is_reverse=is_reverse)

    def approximate_count(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)

    def write(self, rows: Sequence[Row]) -> None:
        """Put rows; a value of None deletes the row."""
        get, before = self._rows.get, self._before
        for key, value in rows:
            if key not in before:
                before[key] = get(key)
            self.staged_bytes += len(key) + len(value or b"")
        self._rows.write(rows)

    def delete_range(self, first: bytes, end: bytes) -> None:
        """Delete the rows with first <= key < end."""
        for key, value in self._rows.scan(first, end):
            self._before.setdefault(key, value)
        self._rows.delete_range(first, end)

    def committed(self) -> None:
        """A commit covers all rows now."""
        self._before.clear()
        self.staged_bytes = 0

    def size_bytes(self) -> int:
        """Return the bytes of all keys and values."""
        return sum(len(key) + len(value) for key, value in self._rows.scan(b"", None))

    def get_committed(self, key: bytes) -> bytes | None:
        """Return the value of a key at the last commit."""
        return self._before[key] if key in self._before else self._rows.get(key)

    def scan_committed(
        self, first: bytes, end: bytes | None, *, is_reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of the last commit with first <= key < end, ordered by key."""
        before = [
            row for row in self._before.items() if row[0] >= first and (end is None or row[0] < end)
        ]
        before.sort(reverse=is_reverse)
        rows = self._rows.scan(first, end, is_reverse=is_reverse)
        return merged_rows(rows, before, is_reverse=is_reverse)


class CommittedMemory:
    """The rows of the last commit, as a `Backing` that is only read."""

    def __init__(self, rows: StagedMemory) -> None:
        self.get = rows.get_committed
        self.scan = rows.scan_committed
        self.approximate_count = rows.approximate_count

    def write(self, rows: Sequence[Row]) -> None:
        """Never called: queries only read."""
        raise AssertionError("committed rows are only read")

    def delete_range(self, first: bytes, end: bytes) -> None:
        """Never called: queries only read."""
        raise AssertionError("committed rows are only read")


class StoresInMemory:
    """A database of which some stores are in memory; the others are on disk."""

    def __init__(self, disk: Database, kinds: Mapping[str, str]) -> None:
        """`kinds` has the kinds of the stores in memory, by name."""
        self._disk = disk
        self._kinds = kinds
        self._stores = {name: StagedMemory() for name in kinds}
        self._positions: dict[str, ChangelogPosition] = {}

    @property
    def path(self) -> str:
        """The path of the stores on disk."""
        return self._disk.path

    @property
    def staged_bytes(self) -> int:
        """The approximate size of what waits for a commit."""
        return self._disk.staged_bytes + sum(each.staged_bytes for each in self._stores.values())

    def backing(self, store: str) -> Backing:
        """Return the rows of this store."""
        return self._stores[store] if store in self._stores else self._disk.backing(store)

    def committed(self, store: str) -> Backing:
        """Return the rows of this store as the last commit left them."""
        if store in self._stores:
            return CommittedMemory(self._stores[store])
        return self._disk.committed(store)

    def position(self, store: str) -> ChangelogPosition | None:
        """Return the changelog position of the committed rows; None if nothing was committed."""
        return self._positions.get(store) if store in self._stores else self._disk.position(store)

    def commit(self, positions: Mapping[str, ChangelogPosition]) -> None:
        """Store all rows written since the last commit, and these positions."""
        self._disk.commit({name: at for name, at in positions.items() if name not in self._stores})
        self._positions |= {name: at for name, at in positions.items() if name in self._stores}
        for each in self._stores.values():
            each.committed()

    def clear(self, store: str) -> None:
        """Delete all rows of the store and forget its changelog position."""
        if store not in self._stores:
            self._disk.clear(store)
            return
        raise AssertionError("a store in memory has no position that does not fit its changelog")

    def flush(self) -> None:
        """Write what is committed of the stores on disk to it."""
        self._disk.flush()

    def sizes(self) -> list[StoreSize]:
        """Return the size of each store."""
        found = self._disk.sizes()
        for name, store in self._stores.items():
            at = self._positions.get(name)
            offset = -1 if at is None else at.offset
            count = store.approximate_count()
            found.append(StoreSize(name, self._kinds[name], count, store.size_bytes(), offset))
        return sorted(found)

    def close(self) -> None:
        """Close the stores on disk; those in memory are gone."""
        self._stores.clear()
        self._disk.close()
