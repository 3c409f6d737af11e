"""The `.snapshot` files: the producer state of a partition at the offset in the file's name.

Invariants: a file that passes its checksum is the whole state at its offset. A file that does not
is removed, and the next older one is used; the rest is replayed from the log. After a truncation no
snapshot beyond the new end can come back, not even after a power loss.

A new snapshot replaces one of the same name by a rename. A half-written file would lose the
producers whose batches are deleted already.
"""

from __future__ import annotations

import posixpath
import struct
from bisect import insort
from collections.abc import Collection, Iterable
from typing import Final

from moldau.broker.log.names import DELETED, SNAPSHOT, parse_segment_file, snapshot_name
from moldau.broker.log.producer_state import (
    NO_OFFSET,
    BatchMetadata,
    ProducerState,
    ProducerStateEntry,
)
from moldau.errors import CorruptLog, MalformedMessage, without_frames
from moldau.protocol.schemas.storage import ProducerEntry, ProducerSnapshot
from moldau.protocol.schemas.versioned import decode_versioned, encode_versioned
from moldau.records.checksum import crc32c
from moldau.runtime.files import Files

VERSION: Final = 1

_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 2  # after the version
_ENTRIES_AT: Final = _CRC_AT + _CRC.size
_TEMPORARY: Final = ".tmp"


def encode_snapshot(entries: Iterable[ProducerStateEntry]) -> bytes:
    """Return the bytes of the file. Producers are in the order of their ids, so equal states give
    equal bytes."""
    listed = [
        ProducerEntry(
            producer_id=entry.producer_id,
            epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_offset=entry.last_data_offset,
            offset_delta=entry.last_offset_delta,
            timestamp=entry.last_timestamp,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_first_offset=(
                NO_OFFSET
                if entry.transaction_first_offset is None
                else entry.transaction_first_offset
            ),
        )
        for entry in sorted(entries)
    ]
    data = bytearray(encode_versioned(ProducerSnapshot(crc=0, producer_entries=listed), VERSION))
    _CRC.pack_into(data, _CRC_AT, crc32c(memoryview(data)[_ENTRIES_AT:]))
    return bytes(data)


def decode_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """Return the producers in a file. Raise CorruptLog if the file is damaged."""
    try:
        snapshot = decode_versioned(ProducerSnapshot, data)
    except MalformedMessage as error:
        raise CorruptLog(f"producer snapshot: {error.reason}", **error.context) from error
    actual = crc32c(memoryview(data)[_ENTRIES_AT:])
    if actual != snapshot.crc:
        raise CorruptLog(
            "producer snapshot's checksum does not match", expected=snapshot.crc, actual=actual
        )
    return [_entry(written) for written in snapshot.producer_entries]


def _entry(written: ProducerEntry) -> ProducerStateEntry:
    batches: tuple[BatchMetadata, ...] = ()
    if written.last_offset >= 0:
        last = BatchMetadata(
            written.last_sequence, written.last_offset, written.offset_delta, written.timestamp
        )
        batches = (last,)
    first_offset = written.current_txn_first_offset
    return ProducerStateEntry(
        written.producer_id,
        written.epoch,
        written.coordinator_epoch,
        written.timestamp,
        first_offset if first_offset >= 0 else None,
        batches,
    )


class ProducerSnapshots:
    """The snapshot files of one partition directory. All of them are created and removed here."""

    def __init__(self, files: Files, directory: str, listed: list[str] | None = None) -> None:
        """`listed` are the names in the directory, if the caller knows them."""
        self.directory = directory
        self._files = files
        self._offsets = _offsets_in(files.list(directory) if listed is None else listed)

    @property
    def offsets(self) -> tuple[int, ...]:
        """The offsets that have a snapshot, ascending."""
        return tuple(self._offsets)

    @property
    def latest_offset(self) -> int | None:
        return self._offsets[-1] if self._offsets else None

    def path(self, offset: int) -> str:
        return posixpath.join(self.directory, snapshot_name(offset))

    def take(self, state: ProducerState, *, sync: bool) -> int | None:
        """Write the state at its end offset, and return that offset. Return None if the file exists
        already.

        With `sync` the file is durable. Without, a power loss leaves it whole, cut or missing;
        `load_latest` detects that.
        """
        offset = state.end_offset
        if offset in self._offsets:
            return None
        self.write(offset, state.entries.values(), sync=sync)
        return offset

    def write(self, offset: int, entries: Iterable[ProducerStateEntry], *, sync: bool) -> None:
        """Write entries that were copied before; otherwise like `take`. May run in a thread."""
        path = self.path(offset)
        with self._files.open(path + _TEMPORARY, "write") as file:
            file.truncate(0)
            file.append(encode_snapshot(entries))
            if sync:
                file.sync()
        self._files.rename(path + _TEMPORARY, path)
        if sync:
            self._files.sync_dir(self.directory)
        if offset not in self._offsets:
            insort(self._offsets, offset)

    def read(self, offset: int) -> list[ProducerStateEntry]:
        """Return the producers in the snapshot at `offset`. Raise CorruptLog if it is damaged."""
        with self._files.open(self.path(offset)) as file:
            data = file.read_at(0, file.size)
        try:
            return decode_snapshot(data)
        except CorruptLog as error:
            raise CorruptLog(
                error.reason, **{**error.context, "path": self.path(offset)}
            ) from error

    def load_latest(
        self,
        state: ProducerState,
        log_start_offset: int,
        now_ms: int,
        *,
        at_most: int | None = None,
    ) -> list[CorruptLog]:
        """Set `state` to the newest valid snapshot (of those up to `at_most`), or to no producers
        at the log's start.

        The caller must replay the log from `state.end_offset`. Return the errors of the newer
        snapshots, which are removed.
        """
        refused = []
        for offset in reversed(self.offsets):
            if at_most is not None and offset > at_most:
                continue
            try:
                state.load(self.read(offset), offset, now_ms)
            except CorruptLog as error:
                refused.append(without_frames(error))
                self.remove(offset)
            else:
                return refused
        state.reset(log_start_offset)
        return refused

    def truncate(self, log_start_offset: int, log_end_offset: int) -> None:
        """Remove the snapshots that are not within the log, durably: those above its end, and those
        at its start or below, where there is no state yet."""
        outside = [
            offset
            for offset in self._offsets
            if offset > log_end_offset or offset <= log_start_offset
        ]
        for offset in outside:
            self.remove(offset)
        if outside:
            self._files.sync_dir(self.directory)

    def remove_all(self) -> None:
        """Remove all snapshots, durably."""
        self.truncate(0, -1)

    def remove_strays(self, base_offsets: Collection[int], listed: list[str] | None = None) -> None:
        """Keep the snapshots at the start of a segment, and the newest one if it lies behind all of
        these: a clean shutdown wrote that at the log's end. Remove all others, and left-over
        temporary files."""
        for name in self._files.list(self.directory) if listed is None else listed:
            left = parse_segment_file(name, _TEMPORARY) or parse_segment_file(name, DELETED)
            if left is not None and left[1] == SNAPSHOT:
                path = posixpath.join(self.directory, name)
                if self._files.exists(path):
                    self._files.remove(path)
        newest = self.latest_offset
        is_at_end = newest is not None and all(newest > base for base in base_offsets)
        for offset in self.offsets:
            if offset not in base_offsets and not (is_at_end and offset == newest):
                self.remove(offset)

    def remove(self, offset: int) -> None:
        """Remove the snapshot at `offset`, if there is one."""
        if offset in self._offsets:
            self._offsets.remove(offset)
            if self._files.exists(self.path(offset)):
                self._files.remove(self.path(offset))

    def move(self, directory: str) -> None:
        """Use the partition directory's new name."""
        self.directory = directory


def _offsets_in(listed: Iterable[str]) -> list[int]:
    found = []
    for name in listed:
        parsed = parse_segment_file(name)
        if parsed is not None and parsed[1] == SNAPSHOT:
            found.append(parsed[0])
    return sorted(found)
