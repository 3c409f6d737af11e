"""A task's database in a simulated world: what RocksDB without a write-ahead log promises.

Invariant: commits reach the disk in their order and whole; a death loses some of the last ones, a
clean close none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from moldau.streams.rocks import ChangelogPosition, StoreSize
from moldau.streams.state.backing import MemoryBacking, Row


class Commit(NamedTuple):
    """Rows of stores, None for deleted ones, and positions, which came together."""

    rows: dict[str, dict[bytes, bytes | None]]
    positions: dict[str, ChangelogPosition | None]


class Files:
    """The databases of one machine: what is on disk by their paths."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.commits: dict[str, list[Commit]] = {}

    def open(self, path: str, stores: Mapping[str, str]) -> SimulatedDatabase:
        return SimulatedDatabase(path, stores, self.commits.setdefault(path, []))

    def die(self) -> None:
        """kill -9: what was not flushed is gone."""
        for commits in self.commits.values():
            del commits[self._random.randint(0, len(commits)) :]


class SimulatedDatabase:
    """Satisfies the worker's `Database`."""

    staged_bytes = 0

    def __init__(self, path: str, stores: Mapping[str, str], commits: list[Commit]) -> None:
        self.path = path
        self._commits = commits
        self._backings = {name: StagedBacking() for name in stores}
        self._positions: dict[str, ChangelogPosition] = {}
        for commit in commits:
            for name, rows in commit.rows.items():
                if name in self._backings:
                    self._backings[name].write(list(rows.items()))
            for name, position in commit.positions.items():
                if position is None:
                    self._positions.pop(name, None)
                else:
                    self._positions[name] = position
        for backing in self._backings.values():
            backing.staged.clear()

    def backing(self, store: str) -> StagedBacking:
        return self._backings[store]

    def committed(self, store: str) -> MemoryBacking:
        found = MemoryBacking()
        for commit in self._commits:
            found.write(list(commit.rows.get(store, {}).items()))
        return found

    def position(self, store: str) -> ChangelogPosition | None:
        return self._positions.get(store)

    def commit(self, positions: Mapping[str, ChangelogPosition | None]) -> None:
        rows = {name: dict(each.staged) for name, each in self._backings.items()}
        self._commits.append(Commit(rows, dict(positions)))
        for backing in self._backings.values():
            backing.staged.clear()
        for name, position in positions.items():
            if position is not None:
                self._positions[name] = position

    def clear(self, store: str) -> None:
        backing = self._backings[store]
        backing.write([(key, None) for key, _ in list(backing.scan(b"", None))])
        self.commit({store: None})
        self._positions.pop(store, None)

    def flush(self) -> None: ...

    def sizes(self) -> list[StoreSize]:
        return []

    def close(self) -> None: ...


class StagedBacking(MemoryBacking):
    """Knows which rows were written since the last commit."""

    def __init__(self) -> None:
        super().__init__()
        self.staged: dict[bytes, bytes | None] = {}

    def write(self, rows: Sequence[Row]) -> None:
        self.staged.update(rows)
        super().write(rows)

    def delete_range(self, first: bytes, end: bytes) -> None:
        self.write([(key, None) for key, _ in list(self.scan(first, end))])

    def scan(
        self, first: bytes, end: bytes | None, *, is_reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return super().scan(first, end, is_reverse=is_reverse)
