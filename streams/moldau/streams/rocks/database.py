"""The RocksDB of one task: a column family for each store, and the position in each changelog.

Invariants: rows and their changelog offset reach RocksDB in one batch, and the disk in one flush,
so that after a crash the offset is that of the rows, however old both are. A damaged database is
renamed and a new one made; the damaged one is never opened again. Stores that the topology no
longer has stay on disk, unread, until the application is reset.

All stores of a process share one cache of blocks and one budget of write buffers: RocksDB's own
default, 64 MiB of write buffer for each store, is the usual reason why stream applications run out
of memory.
"""

from __future__ import annotations

import logging
import posixpath
import struct
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Final, NamedTuple, Self

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from moldau.ids import ZERO_UUID, Uuid
from moldau.runtime.files import Files
from moldau.streams.rocks.backing import CommittedRows, RocksBacking
from moldau.streams.rocks.failures import StoreCorrupted, StoreFailed, rocks_errors

LOG: Final = logging.getLogger("moldau.streams")
ASIDE: Final = ".damaged"
"""The end of the path of damaged files that were set aside."""
_DEFAULT: Final = "default"
_POSITION: Final = struct.Struct(">Bq16s")
_POSITION_FORMAT: Final = 1
_PART: Final = "/"
_TIMED: Final = "/timed"
_LINE: Final = "\n"
_ANEW: Final = "they are deleted, and restored from the changelog if it has one"

CACHE_BYTES_DEFAULT: Final = 64 << 20
WRITE_BUFFER_BYTES_DEFAULT: Final = 8 << 20
_BLOOM_BITS: Final = 10
_BUFFERS_OF_ALL: Final = 8
"""All stores together hold at most this many full write buffers."""
_WRITE_BUFFER_BLOOM: Final = 0.02
"""The share of a write buffer for its bloom filter: about 16 bits a key."""
_LOG_FILES: Final = 2


class RocksMemory:
    """The memory shared by all stores of a worker. Made once for each worker."""

    def __init__(
        self,
        cache_bytes: int = CACHE_BYTES_DEFAULT,
        write_buffer_bytes: int = WRITE_BUFFER_BYTES_DEFAULT,
    ) -> None:
        self._cache = Cache(cache_bytes)
        self._write_buffer_bytes = write_buffer_bytes
        self._buffers = WriteBufferManager(write_buffer_bytes * _BUFFERS_OF_ALL, False)

    def options(self) -> Options:
        """Return the options of a database or one of its column families.

        Flushes are atomic over the column families: without a write-ahead log, rows and the
        changelog offset beside them would otherwise reach the disk at different times.
        """
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_atomic_flush(True)
        options.set_write_buffer_size(self._write_buffer_bytes)
        options.set_max_write_buffer_number(3)
        # With this, a key that was never written costs a quarter of a search in the write buffer.
        options.set_memtable_whole_key_filtering(True)
        options.set_memtable_prefix_bloom_ratio(_WRITE_BUFFER_BLOOM)
        options.set_write_buffer_manager(self._buffers)
        options.set_keep_log_file_num(_LOG_FILES)
        table = BlockBasedOptions()
        table.set_bloom_filter(_BLOOM_BITS, False)
        table.set_block_cache(self._cache)
        options.set_block_based_table_factory(table)
        return options


class ChangelogPosition(NamedTuple):
    """A position: the rows hold everything below `offset` of the changelog topic with this id."""

    offset: int
    topic_id: Uuid = ZERO_UUID


class StoreSize(NamedTuple):
    """The approximate size of a store; `offset` is -1 if nothing was ever committed."""

    name: str
    kind: str
    rows: int
    size_bytes: int
    offset: int


class TaskDatabase:
    """The database of one task. Opened by one worker at a time, used by one thread at a time."""

    def __init__(self, path: str, database: Rdict, stores: Mapping[str, str]) -> None:
        """Use `open` instead."""
        self.path = path
        self._database: Rdict | None = database
        self._unlogged = WriteOptions()
        # An attribute, though rocksdict's own types call it a method.
        self._unlogged.disable_wal = True  # type: ignore[method-assign, assignment]
        self._stores = {name: note.partition(_LINE)[0] for name, note in stores.items()}
        self._facts = {name: _facts_of(note.partition(_LINE)[2]) for name, note in stores.items()}
        self._backings: dict[str, RocksBacking] = {}
        self._positions: dict[str, ChangelogPosition] = {}

    @classmethod
    def open(cls, path: str, stores: Mapping[str, str], memory: RocksMemory, files: Files) -> Self:
        """Open or create the database. `stores` has what `noted` returns for each store, by name.

        Raise StoreFailed if a store had another kind or another fact, StoreCorrupted if the files
        are damaged, StateInUse if they are in use.
        """
        files.make_dirs(path)
        with rocks_errors(path), ExitStack() as on_failure:
            there = Rdict.list_cf(path) if files.exists(posixpath.join(path, "CURRENT")) else []
            families = {name: memory.options() for name in {_DEFAULT, *there, *stores}}
            opened = cls(path, Rdict(path, memory.options(), families), stores)
            on_failure.callback(opened.close)
            opened._begin()
            on_failure.pop_all()
        return opened

    @staticmethod
    def set_aside(path: str, files: Files) -> str:
        """Rename damaged files, delete those that were renamed before, and return the new path."""
        aside = path + ASIDE
        files.remove_tree(aside)
        files.rename(path, aside)
        return aside

    def _begin(self) -> None:
        database = self._database
        assert database is not None
        with rocks_errors(self.path):
            old = [name for name, kind in self._stores.items() if self._is_old(name, kind)]
            for name in self._stores:
                rows = database.get_column_family(name)
                family = database.get_column_family_handle(name)
                self._backings[name] = RocksBacking(self.path, rows, family)
            self.read_positions()
            for name, facts in self._facts.items():
                self._check_facts(name, facts)
            for name in old:
                LOG.warning("streams: the rows of store %s have an earlier layout: %s", name, _ANEW)
                self.clear(name)

    def read_positions(self) -> None:
        """Read the positions of the last commit."""
        assert self._database is not None, "the state is closed"
        for name in self._stores:
            found = self._database.get(_position_key(name))
            if found is not None:
                self._positions[name] = self._read_position(found)

    def _is_old(self, name: str, layout: str) -> bool:
        """Whether the rows have another layout. Raise StoreFailed if they have another kind."""
        database = self._database
        assert database is not None
        found = database.get(_kind_key(name))
        if found is None and _PART in layout:
            # Record the layout now: a store without a changelog never commits a position with it.
            database.put(_kind_key(name), layout.encode(), self._unlogged)
            rows = database.get_column_family(name).iter()
            rows.seek_to_first()
            return rows.valid()
        if found is None or found == layout.encode():
            return False
        kind, wanted = _kind_of(found.decode()), _kind_of(layout)
        if kind != wanted:
            raise self._changed(name, f"{kind} rows", wanted)
        return True

    def _check_facts(self, name: str, facts: Mapping[str, str]) -> None:
        """Raise StoreFailed if a fact has changed, else record the facts.

        Earlier versions recorded none, or not all.
        """
        database = self._database
        assert database is not None
        found = database.get(_facts_key(name))
        before = {} if found is None else _facts_of(found.decode())
        if before == facts:
            return
        rows = database.get_column_family(name).iter()
        rows.seek_to_first()
        if rows.valid() or name in self._positions:
            for fact, value in before.items():
                if facts.get(fact, value) != value:
                    raise self._changed(name, f"{fact}: {value}", f"{fact}: {facts[fact]}")
        database.put(_facts_key(name), _lines({**before, **facts}).encode(), self._unlogged)

    def _changed(self, name: str, there: str, wanted: str) -> StoreFailed:
        return StoreFailed(
            f"the store {name} holds {there} and the topology now wants {wanted}: "
            "give the store another name, or remove this state and its changelog topic",
            path=self.path,
        )

    def _read_position(self, found: bytes) -> ChangelogPosition:
        try:
            layout, offset, topic_id = _POSITION.unpack(found)
        except struct.error as error:
            raise StoreCorrupted("a changelog offset is unreadable", path=self.path) from error
        if layout != _POSITION_FORMAT:
            raise StoreFailed(f"the state has the unknown layout {layout}", path=self.path)
        return ChangelogPosition(offset, topic_id)

    def backing(self, store: str) -> RocksBacking:
        """Return the rows of this store."""
        return self._backings[store]

    def committed(self, store: str) -> CommittedRows:
        """Return the rows of this store as the last commit left them."""
        return self._backings[store].committed_rows()

    def position(self, store: str) -> ChangelogPosition | None:
        """Return the changelog position of the committed rows; None if nothing was ever committed.

        A store of several changelog partitions has one for each: `position_name`.
        """
        found = self._positions.get(store)
        if found is None and _PART in store:
            assert self._database is not None, "the state is closed"
            with rocks_errors(self.path):
                row = self._database.get(_position_key(store))
            found = None if row is None else self._read_position(row)
        return found

    @property
    def staged_bytes(self) -> int:
        """The approximate size of what waits for a commit."""
        return sum(each.staged_bytes for each in self._backings.values())

    def commit(self, positions: Mapping[str, ChangelogPosition]) -> None:
        """Store all rows written since the last commit, and these positions, in one batch."""
        assert self._database is not None, "the state is closed"
        with rocks_errors(self.path):
            batch = WriteBatch(raw_mode=True)
            for name, position in positions.items():
                row = _POSITION.pack(_POSITION_FORMAT, position.offset, position.topic_id)
                batch.put(_position_key(name), row)
                whole = name.partition(_PART)[0]
                batch.put(_kind_key(whole), self._stores[whole].encode())
            for name, backing in self._backings.items():
                if backing.staged_bytes and name not in positions:  # it may have no changelog
                    batch.put(_kind_key(name), self._stores[name].encode())
                backing.stage(batch)
            if not batch.is_empty():
                self._database.write(batch, self._unlogged)
        self._positions.update(positions)
        for backing in self._backings.values():
            backing.committed()

    def clear(self, store: str) -> None:
        """Delete all rows of the store and forget its changelog offset, in one batch."""
        self._backings[store].clear()
        self.commit({store: ChangelogPosition(0)})
        del self._positions[store]

    def flush(self) -> None:
        """Write what is committed to disk; `close` does it too.

        An explicit flush covers one column family. The rows go before the positions: a crash in
        between leaves rows that are newer than their position, and those are read again.
        """
        assert self._database is not None, "the state is closed"
        with rocks_errors(self.path):
            for name in self._stores:
                self._database.get_column_family(name).flush()
            self._database.flush()

    def sizes(self) -> list[StoreSize]:
        """Return the size of each store, estimated from RocksDB's own figures."""
        assert self._database is not None, "the state is closed"
        found = []
        with rocks_errors(self.path):
            for name, kind in sorted(self._stores.items()):
                rows = self._database.get_column_family(name)
                size_bytes = sum(
                    rows.property_int_value(each) or 0
                    for each in ("rocksdb.total-sst-files-size", "rocksdb.cur-size-all-mem-tables")
                )
                count = rows.property_int_value("rocksdb.estimate-num-keys") or 0
                if kind.endswith(_TIMED):  # each row has a second one for its time
                    count //= 2
                offset = self._offset_of(name)
                found.append(StoreSize(name, _kind_of(kind), count, size_bytes, offset))
        return found

    def _offset_of(self, store: str) -> int:
        """Return the changelog offset: -1 before a commit, the sum over several partitions."""
        assert self._database is not None
        if (position := self._positions.get(store)) is not None:
            return position.offset
        first = _position_key(f"{store}{_PART}")
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(first + b"\xff")
        rows = self._database.iter(bounds)
        rows.seek(first)
        offsets = []
        while rows.valid():
            offsets.append(self._read_position(rows.value()).offset)
            rows.next()
        return sum(offsets) if offsets else -1

    def close(self) -> None:
        """Write what is committed to disk and close; what was not committed is dropped.

        It is flushed first: rocksdict gives Python's lock up while it flushes, but keeps it while
        RocksDB does the same as it closes.
        """
        for backing in self._backings.values():
            backing.close()
        is_writable = bool(self._backings)
        self._backings.clear()
        database = self._database
        if database is None:
            return
        with rocks_errors(self.path):
            try:
                if is_writable:
                    self.flush()
            finally:
                self._database = None
                database.close()


def position_name(store: str, partition: int) -> str:
    """Return the name of the position in one partition of the topic that a store is made from."""
    return f"{store}{_PART}{partition}"


def noted(layout: str, facts: Mapping[str, str]) -> str:
    """Return a store's layout and facts as the text that `TaskDatabase.open` takes."""
    return f"{layout}{_LINE}{_lines(facts)}"


def _lines(facts: Mapping[str, str]) -> str:
    return _LINE.join(f"{name}={value}" for name, value in facts.items())


def _facts_of(lines: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in lines.split(_LINE) if line)
    return {name: value for name, _, value in pairs}


def _kind_of(layout: str) -> str:
    """Return the kind of store in a layout, without the details after it."""
    return layout.partition("/")[0]


def _position_key(store: str) -> bytes:
    return f"position/{store}".encode()


def _facts_key(store: str) -> bytes:
    return f"facts/{store}".encode()


def _kind_key(store: str) -> bytes:
    return f"kind/{store}".encode()


def stores_on_disk(path: str) -> list[StoreSize]:
    """Return the stores of a database, even while a worker uses it: rows that the worker has not
    flushed are missing. Raise StoreFailed if there is no database that can be read."""
    with rocks_errors(path):
        names = Rdict.list_cf(path)
        options = {name: Options(raw_mode=True) for name in names}
        database = Rdict(path, Options(raw_mode=True), options, AccessType.read_only(False))
        kinds = {name: database.get(_kind_key(name)) for name in sorted(names)}
        found = TaskDatabase(
            path, database, {name: kind.decode() for name, kind in kinds.items() if kind}
        )
        try:
            found.read_positions()
            return found.sizes()
        finally:
            found.close()
