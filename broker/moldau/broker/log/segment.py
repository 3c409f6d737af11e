"""One segment: a file of batches from `base_offset` on, and its indexes.

Invariants: bytes are appended and never changed. Offsets are at most 2**31 - 1 above the base
offset. `size_bytes` is the end of a whole batch. `next_offset` follows the last batch. The newest
entry of an index never points beyond the log.

A fetch at the log's end wants the batch that was written last. The segment remembers that batch (it
holds all offsets from `_tail_offset`), and finds it without reading index or log.

Up to `_usual_end` and `_usual_timestamp` an append is only a write, and now and then an index entry
(`append_usual`). Every operation that changes these limits computes them again (`_foresee`).

Indexes are opened at first use, since most segments of a log are never read. A damaged index is
rebuilt at once by a walk through the log.

The log's file is opened at first use too (`log_file`). A segment that is neither written nor read
holds no file and no mapping.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.broker.log import names
from moldau.broker.log.file_pool import NO_POOL, FilePool
from moldau.broker.log.log_file import LogFile
from moldau.broker.log.offset_index import OffsetIndex
from moldau.broker.log.open_files import may_pass
from moldau.broker.log.scan import FoundBatch, batches, find_batch
from moldau.broker.log.time_index import TimeIndex, TimestampOffset
from moldau.broker.log.transaction_index import TransactionIndex
from moldau.errors import CorruptLog, CorruptRecord
from moldau.records import Batch, BatchHeader, Buffer
from moldau.records.header import NO_TIMESTAMP

if TYPE_CHECKING:
    from moldau.broker.log.log_config import LogConfig
    from moldau.runtime.files import Files

RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1
_RESERVE_FROM_BYTES: Final = 1 << 20
_RESERVE_BYTES_MAX: Final = 8 << 20
_NEW: Final = ".new"
_NOWHERE: Final = 1 << 63
"""Beyond every offset."""
_new_found: Final = partial(tuple.__new__, FoundBatch)
_new_newest: Final = partial(tuple.__new__, TimestampOffset)
INDEX_KINDS: Final = (names.INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX)


class Segment:
    """A segment on disk. `is_sealed` is True once nothing more will be appended."""

    __slots__ = (
        "_config",
        "_damaged_at",
        "_directory",
        "_files",
        "_index_due_at",
        "_is_index_open_to_more",
        "_offset_index",
        "_reserved_bytes",
        "_suffix",
        "_tail_offset",
        "_tail_position",
        "_time_index",
        "_transaction_index",
        "_usual_end",
        "_usual_timestamp",
        "are_indexes_durable",
        "base_offset",
        "created_ms",
        "first_timestamp",
        "is_sealed",
        "log_file",
        "newest",
        "next_offset",
        "pool",
        "size_bytes",
    )

    def __init__(
        self, files: Files, directory: str, base_offset: int, config: LogConfig, suffix: str = ""
    ) -> None:
        """Open the existing files, without checking them. `create` makes a new segment."""
        self._files = files
        self._directory = directory
        self._config = config
        self._suffix = suffix
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._transaction_index: TransactionIndex | None = None
        self._index_due_at = config.index_interval_bytes
        self._is_index_open_to_more = False
        self._reserved_bytes = 0
        self._usual_end = 0
        self._usual_timestamp = NO_TIMESTAMP
        self._tail_offset = _NOWHERE
        self._tail_position = 0
        self._damaged_at = _NOWHERE
        """The first offset that a rebuild of the indexes did not reach: offsets from there cannot
        be found."""
        self.base_offset = base_offset
        self.log_file = LogFile(files, self.log_path)
        self.pool: FilePool = NO_POOL
        """Closes files that are not used. See `Segments`."""
        self.size_bytes = self.log_file.file.size
        self.next_offset = base_offset
        self.newest = TimestampOffset(NO_TIMESTAMP, base_offset)
        self.first_timestamp: int | None = None
        self.created_ms = 0
        self.is_sealed = False
        self.are_indexes_durable = False

    @classmethod
    def create(
        cls, files: Files, directory: str, base_offset: int, config: LogConfig, suffix: str = ""
    ) -> Segment:
        """Create an empty segment. Files of the same names from an earlier run are removed."""
        for kind in (names.LOG, *INDEX_KINDS):
            path = f"{directory}/{names.segment_file_name(base_offset, kind, suffix)}"
            if files.exists(path):
                files.remove(path)
        segment = cls(files, directory, base_offset, config, suffix)
        segment._make_indexes(are_empty=True)
        if config.preallocate:
            segment._reserve(config.segment_bytes)
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.log_path!r}, next_offset={self.next_offset})"

    # Files and indexes.

    def path(self, kind: str) -> str:
        return f"{self._directory}/{names.segment_file_name(self.base_offset, kind, self._suffix)}"

    @property
    def log_path(self) -> str:
        return self.path(names.LOG)

    @property
    def offset_index(self) -> OffsetIndex:
        index = self._offset_index
        return self._open_indexes()[0] if index is None else index

    @property
    def time_index(self) -> TimeIndex:
        index = self._time_index
        return self._open_indexes()[1] if index is None else index

    @property
    def transaction_index(self) -> TransactionIndex:
        """The aborted transactions whose markers are in this segment."""
        if self._transaction_index is None:
            path = self.path(names.TRANSACTION_INDEX)
            self._transaction_index = TransactionIndex(self._files, path, self.base_offset)
        return self._transaction_index

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp of its batches, or -1 if it has none."""
        if self._time_index is None:
            self._open_indexes()
        return self.newest.timestamp

    @property
    def modified_ms(self) -> int:
        """The time of the last write to its log, from the file system."""
        return self._files.stat(self.log_path).modified_ms

    # Writing.

    def has_room_for(self, size: int, last_offset: int, pending: int = 0) -> bool:
        """Whether a batch fits behind `pending` more bytes. An empty segment takes a batch of any
        size."""
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return False
        used = self.size_bytes + pending
        if used > self._config.segment_bytes - size and used:
            return False
        if self._is_index_open_to_more:
            return True
        is_full = self.offset_index.is_full or self.time_index.is_full
        self._is_index_open_to_more = not is_full
        return not is_full

    def append_usual(self, data: Buffer, last_offset: int, max_timestamp: int) -> bool:
        """Append like `append`, if the segment has room for the batch and is not due for a roll by
        age. Otherwise do nothing and return False: call `has_room_for` then."""
        position = self.size_bytes
        end = position + len(data)
        if end > self._usual_end or max_timestamp > self._usual_timestamp:
            return False
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return False
        opened = self.log_file.opened
        if opened is None:
            return False
        try:
            opened.file.append(data)
        except OSError:
            opened.file.truncate(position)
            raise
        self.size_bytes = end
        self._tail_offset, self._tail_position = self.next_offset, position
        self.next_offset = last_offset + 1
        if max_timestamp > self.newest[0]:
            self.newest = _new_newest((max_timestamp, last_offset))
        if position > self._index_due_at:
            self._index(last_offset, position)
        return True

    def append(self, data: Buffer, last_offset: int, max_timestamp: int) -> int:
        """Write one batch that is stamped already and ends with `last_offset`. Return its position.

        After an OSError the file is as before, or the segment must not be used any more.
        """
        self.pool.make_room()
        position = self.size_bytes
        end = position + len(data)
        if end > self._reserved_bytes and position >= _RESERVE_FROM_BYTES:
            self._reserve(end + min(position, _RESERVE_BYTES_MAX))
        try:
            self.log_file.file.append(data)
        except OSError:
            self.log_file.file.truncate(position)
            raise
        self.size_bytes = end
        self._note(self.next_offset, last_offset, max_timestamp, position)
        self._foresee()
        return position

    def append_all(self, data: Buffer, batches_in_it: Sequence[Batch]) -> int:
        """Write batches that lie back to back in `data`, in one call. Otherwise like `append`."""
        self.pool.make_room()
        position = at = self.size_bytes
        try:
            self.log_file.file.append_parts((data,))
        except OSError:
            self.log_file.file.truncate(position)
            raise
        self.size_bytes = position + len(data)
        for batch in batches_in_it:
            header = batch.header
            self._note(header.base_offset, header.last_offset, header.max_timestamp, at)
            at += header.size_bytes
        self._foresee()
        return position

    def _note(self, base_offset: int, last_offset: int, max_timestamp: int, position: int) -> None:
        """Update the indexes and the end offset for a batch that was written at `position`."""
        if self.first_timestamp is None:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.newest.timestamp:
            self.newest = TimestampOffset(max_timestamp, last_offset)
        if position > self._index_due_at:
            self._index(last_offset, position)
        self._tail_offset, self._tail_position = base_offset, position
        self.next_offset = last_offset + 1

    def _index(self, last_offset: int, position: int) -> None:
        """Add an index entry for the batch at `position`."""
        offset_index, time_index = self._offset_index, self._time_index
        if offset_index is None or time_index is None:
            offset_index, time_index = self._open_indexes()
        offset_index.append(last_offset, position)
        time_index.append(*self.newest)
        self._index_due_at = position + self._config.index_interval_bytes
        if offset_index.is_full or time_index.is_full:
            self._is_index_open_to_more = False
            self._usual_end = 0

    def _foresee(self) -> None:
        """Compute the limits up to which `append_usual` may append."""
        config, first = self._config, self.first_timestamp
        is_open = self._is_index_open_to_more and not self.is_sealed
        room = max(self._reserved_bytes, _RESERVE_FROM_BYTES)
        self._usual_end = min(config.segment_bytes, room) if is_open else 0
        if first is None or first < 0:
            self._usual_timestamp = NO_TIMESTAMP - 1
        else:
            self._usual_timestamp = first + config.usual_age_ms

    def _reserve(self, end: int) -> None:
        """Allocate disk space in large pieces: an append into allocated space costs less."""
        end = min(end, max(self._config.segment_bytes, self.size_bytes))
        if end > self._reserved_bytes:
            try:
                self.log_file.file.allocate(end)
            except OSError:
                if self._config.preallocate:
                    raise
            self._reserved_bytes = end

    def seal(self) -> None:
        """Prepare for no more appends: cut the files to their contents, and index the newest
        timestamp."""
        self.time_index.append(*self.newest)
        self.offset_index.trim()
        self.time_index.trim()
        self._give_back()
        self.is_sealed = True
        self._foresee()

    def _give_back(self) -> None:
        if self._reserved_bytes:
            self.log_file.file.truncate(self.size_bytes)
            self._reserved_bytes = 0

    def truncate_to(self, offset: int) -> None:
        """Drop all batches that hold `offset` or a later one. Durable on return.

        A batch that holds the offset is dropped as a whole, so the segment may end below `offset`.
        The segment ends where its last batch does, as it will after a restart.
        """
        self.is_sealed = False
        self.are_indexes_durable = False
        found = self._find(offset)
        if found is None:
            self.load_end()  # the offset lies behind the last batch: end after that batch
            self._foresee()
            return
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        _shorten(self._files, self.log_file, found.position)
        self._reserved_bytes = 0
        self.size_bytes = found.position
        self.load_end()
        self._foresee()

    # Reading.

    def find(self, offset: int) -> FoundBatch | None:
        """Return the first batch that ends at `offset` or later."""
        if offset >= self.next_offset:
            return None
        tail = self._tail_offset
        if offset >= tail:
            position = self._tail_position
            return _new_found((position, self.size_bytes - position, tail, self.next_offset - 1))
        if offset >= self._damaged_at:
            raise CorruptRecord("the log is damaged", path=self.log_path, offset=self._damaged_at)
        try:
            return self._find(offset)
        except CorruptRecord:
            # Either an index or the log is damaged. Rebuilding the indexes shows which one.
            if not self.is_sealed:
                return find_batch(self.log_file.source(), 0, offset, self.size_bytes)
            if self._damaged_at != _NOWHERE:
                raise  # the indexes were rebuilt, and end at the damage in the log
            self.rebuild_indexes()
            return self._find(offset)

    def _find(self, offset: int) -> FoundBatch | None:
        start = self.offset_index.look_up(offset).position
        if not 0 <= start <= self.size_bytes:
            raise CorruptRecord("the index leads out of the log", path=self.log_path, at=start)
        return find_batch(self.log_file.source(), start, offset, self.size_bytes)

    def batches(self, position: int = 0, end: int | None = None) -> Iterator[Batch]:
        """Iterate over the batches from `position`, read in pieces. Raise CorruptRecord for bytes
        that are not a batch. May run in a thread, for a sealed segment."""
        source = self.log_file.source_for_walk()
        return batches(source, position, self.size_bytes if end is None else end)

    # Opening and closing.

    def load_end(self) -> None:
        """Find the next offset and the newest timestamp, from the indexes and the batches behind
        their last entry. For a segment whose log is known to be whole: batches are not checked."""
        newest = self.time_index.last
        position = self.offset_index.last_position
        if position and position >= self.size_bytes:
            raise CorruptRecord("the index leads out of the log", path=self.log_path, at=position)
        self.next_offset = self.base_offset
        for batch in self.batches(position):
            header = batch.header
            self.next_offset = header.next_offset
            if header.max_timestamp > newest.timestamp:
                newest = TimestampOffset(header.max_timestamp, header.last_offset)
        if self.time_index.count and self.time_index.last.offset >= self.next_offset:
            raise CorruptRecord("the time index leads out of the log", path=self.log_path)
        self.newest = newest
        self._index_due_at = position + self._config.index_interval_bytes
        self.first_timestamp = None
        self.load_first_timestamp()

    def load_first_timestamp(self) -> None:
        """Find `first_timestamp`, which is unknown when a segment is opened."""
        if self.first_timestamp is None and self.size_bytes:
            first = next(self.batches(0), None)
            self.first_timestamp = None if first is None else first.header.max_timestamp

    def rebuild_indexes(self) -> None:
        """Rebuild the offset and time index from the log. Raise CorruptRecord if the log is
        damaged; the segment keeps its `next_offset` then, so that no reader continues behind the
        segment as if the damaged part had been read.

        The new indexes are written beside the old ones and take their names when they are durable.
        Recovery, and a start after a clean shutdown, may trust the files under those names.
        """
        end = self.next_offset
        for kind in (names.INDEX, names.TIME_INDEX):
            _remove(self._files, self.path(kind) + _NEW)
        self._close_indexes()
        self._make_indexes(_NEW)
        self._start_over()
        try:
            for batch in self.batches():
                self.check_next(batch.header)
                self.recover_batch(batch)
        except CorruptRecord:
            self._damaged_at, self.next_offset = self.next_offset, end
            self._tail_offset = _NOWHERE
            self._place_indexes()  # otherwise each later find would rebuild them again
            raise
        if self.is_sealed:
            self.seal()
        self._place_indexes()

    def _place_indexes(self) -> None:
        """Move the rebuilt indexes to the place of the old ones, durably."""
        for index in self.mapped_indexes():
            index.trim()
            index.sync()
            path = index.path.removesuffix(_NEW)
            self._files.rename(index.path, path)
            index.path = path
        self._files.sync_dir(self._directory)

    def begin_recovery(self, listed: Collection[str]) -> None:
        """Drop the indexes and the end offset, for `recover_batch`. `listed`: the names there."""
        self._close_indexes()
        _finish_shortening(self._files, self.log_file, listed)
        _empty(self._files, [self.path(kind) for kind in INDEX_KINDS], listed)
        for index in self._make_indexes(are_empty=True):
            index.was_cut = True
        self._start_over()
        self.is_sealed = False
        self.are_indexes_durable = False

    def check_next(self, header: BatchHeader) -> None:
        """Raise CorruptRecord if a batch with this header cannot follow the batches recovered so
        far."""
        if header.base_offset < self.next_offset or header.last_offset_delta < 0:
            raise CorruptRecord("offsets do not ascend", base_offset=header.base_offset)
        if header.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            raise CorruptRecord("offset is too far from its segment", offset=header.last_offset)

    def recover_batch(self, batch: Batch) -> None:
        """Record the next batch, which recovery found valid."""
        header = batch.header
        base = header.base_offset
        self._note(base, header.last_offset, header.max_timestamp, batch.position)

    def cut(self, position: int) -> None:
        """Cut the log at `position`: recovery found nothing valid behind it. Durable on return.

        Without the cut: 1. new batches are written over the bad bytes, 2. the power fails before
        they are synced, 3. some of the new bytes are on disk, followed by valid old batches.
        """
        _shorten(self._files, self.log_file, position)
        self.size_bytes = position

    def sync(self) -> None:
        """Make log and indexes durable now."""
        self.log_file.file.sync()
        for index in self.mapped_indexes():
            index.sync()
        self.transaction_index.sync()

    def mapped_indexes(self) -> list[OffsetIndex | TimeIndex]:
        """Return the offset and time index, if they may have changed since they were opened."""
        found = (self._offset_index, self._time_index)
        return [index for index in found if index is not None]

    def configure(self, config: LogConfig) -> None:
        """Use other settings from the next append on. An index keeps its size."""
        self._index_due_at += config.index_interval_bytes - self._config.index_interval_bytes
        self._config = config
        self._foresee()

    def forget(self) -> None:
        """Close the indexes and drop the log's file, which closes when its last slice is gone."""
        self._close_indexes()
        self.log_file.release_files()

    def move(self, directory: str) -> None:
        """Use the directory's new name. Indexes stay open, because they have the parts that are not
        durable yet."""
        self._directory = directory
        self.log_file.path = self.log_path
        for index in (self._offset_index, self._time_index, self._transaction_index):
            if index is not None:
                index.close()
                index.path = f"{directory}/{index.path.rpartition('/')[2]}"

    def rename(self, suffix: str) -> None:
        """Rename all its files to another ending. Durable after a sync of the directory."""
        before = {kind: self.path(kind) for kind in (*INDEX_KINDS, names.LOG)}
        self._close_indexes()
        self._suffix = suffix
        self.log_file.path = self.log_path
        for kind, path in before.items():
            if self._files.exists(path):
                self._files.rename(path, self.path(kind))

    def remove(self) -> None:
        """Remove its files. Slices of it stay readable."""
        self.forget()
        for kind in (names.LOG, *INDEX_KINDS):
            _remove(self._files, self.path(kind))

    def _open_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Open both indexes. Rebuild them if one is damaged or missing."""
        try:
            paths = (self.path(names.INDEX), self.path(names.TIME_INDEX))
            are_there = all(map(self._files.exists, paths)) or not self.size_bytes
            found = self._make_indexes() if are_there else None
        except CorruptLog:
            found = None
        if found is None:
            self.rebuild_indexes()
            assert self._offset_index is not None
            assert self._time_index is not None
            return self._offset_index, self._time_index
        if found[1].last.timestamp > self.newest.timestamp:
            self.newest = found[1].last
        return found

    def _make_indexes(
        self, ending: str = "", *, are_empty: bool = False
    ) -> tuple[OffsetIndex, TimeIndex]:
        room = self._config.segment_index_bytes
        files, base, size = self._files, self.base_offset, 0 if are_empty else None
        offset_index = OffsetIndex(files, self.path(names.INDEX) + ending, base, room, size)
        time_index = TimeIndex(files, self.path(names.TIME_INDEX) + ending, base, room, size)
        self._offset_index, self._time_index = offset_index, time_index
        offset_index.join(self.pool)
        time_index.join(self.pool)
        return offset_index, time_index

    def _close_indexes(self) -> None:
        for index in (self._offset_index, self._time_index, self._transaction_index):
            if index is not None:
                index.close()
        self._offset_index = self._time_index = self._transaction_index = None
        self._is_index_open_to_more = False
        self._usual_end = 0

    def _start_over(self) -> None:
        self._damaged_at = _NOWHERE
        self.next_offset = self.base_offset
        self.newest = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self.first_timestamp = None
        self._index_due_at = self._config.index_interval_bytes


def _remove(files: Files, path: str) -> None:
    """Remove the file if it exists."""
    if files.exists(path):
        files.remove(path)


def _empty(files: Files, paths: Iterable[str], listed: Collection[str]) -> None:
    """Empty the indexes that exist. To remove and create one costs a file system like ext4 six
    times as much, and a start after a crash does that for each log."""
    for path in paths:
        if _name(path) not in listed:
            continue
        if path.endswith(names.TRANSACTION_INDEX):
            files.remove(path)
        else:
            with files.open(path, "update") as file:
                file.truncate(0)


def _shorten(files: Files, log: LogFile, position: int) -> None:
    """Cut the log at `position`. Durable on return. A kill before the sync leaves a mark, so that
    recovery does the sync: the file that it finds would not show that it was longer. A disk that
    has no room for the mark may still be cut."""
    mark = log.path + names.SHORTENED
    is_marked = True
    try:
        files.open(mark, "write").close()
    except OSError as error:
        if not may_pass(error):
            raise
        is_marked = False
    log.file.truncate(position)
    log.file.sync()
    if is_marked:
        files.remove(mark)


def _finish_shortening(files: Files, log: LogFile, listed: Collection[str]) -> None:
    """Make a cut durable that a kill interrupted."""
    mark = log.path + names.SHORTENED
    if _name(mark) in listed:
        log.file.sync()
        files.remove(mark)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
