"""Snapshots: everything below an offset of the log, in one file that replaces it.

A file is a control batch that opens it (and names the quorum's protocol and voters), batches of
records, and a control batch that closes it. Offsets in it count from 0 and mean nothing.

Invariants: a file under its own name is whole and durable, since it is written as `.part`, synced
and renamed; one without its closing record is CorruptLog, never a shorter snapshot. The name has
the offset after the last record and that record's epoch, so two files with one name have the same
content.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.raft.voters import STATIC, Voters, voters_after
from moldau.deferred import dataclass, deferred_pattern
from moldau.errors import CorruptLog, CorruptRecord, MalformedMessage
from moldau.protocol.schemas.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from moldau.records import (
    Batch,
    ControlType,
    control_records,
    encode_control_batch,
    stamp,
    walk,
    whole_bytes,
)

if TYPE_CHECKING:
    from moldau.runtime.files import File, Files

BOOTSTRAP: Final = "bootstrap.checkpoint"
PART: Final = ".part"
DELETED: Final = ".deleted"
_SUFFIX: Final = ".checkpoint"
_HEAD_BYTES: Final = 1 << 16
"""A size larger than any opening batch of a snapshot."""
_NAME: Final = deferred_pattern(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotId(NamedTuple):
    """A snapshot of everything below `end_offset`; its last record is from `epoch`."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The name of its file, as in Kafka."""
        return f"{self.end_offset:020d}-{self.epoch:010d}{_SUFFIX}"


def parse_snapshot_name(name: str) -> SnapshotId | None:
    """Return the snapshot that a file of this name holds; None for other files."""
    match = _NAME.fullmatch(name)
    return None if match is None else SnapshotId(int(match[1]), int(match[2]))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The contents of a file; `batches` are those with records, without the quorum's own."""

    last_contained_timestamp_ms: int
    voters: Voters
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """The content of a snapshot's opening batch."""

    epoch: int
    last_contained_timestamp_ms: int
    now_ms: int
    voters: Voters


class SnapshotFile:
    """A snapshot that is being written, under another name until it is complete and durable."""

    def __init__(self, files: Files, path: str, heading: SnapshotHeader) -> None:
        """Begin to write. Raise OSError if the disk fails."""
        self._files = files
        self._path = path
        self._heading = heading
        self._offset = 0
        self._file = files.open(path + PART, "write")
        try:
            self._file.truncate(0)
            self.append(_opening(heading))
        except OSError:
            self.discard()
            raise

    def append(self, batch: bytearray) -> None:
        """Write the next batch to the page cache."""
        self._offset = _append(self._file, batch, self._offset, self._heading.epoch)

    def finish(self) -> None:
        """Give the file its name, and replace a snapshot of that name. Durable on return. It waits
        for the disk, and touches nothing else, so that it may run off the event loop."""
        with self._file:
            self.append(_closing(self._heading))
            self._file.sync()
        self._files.rename(self._path + PART, self._path)
        self._files.sync_dir(self._path.rpartition("/")[0])

    def discard(self) -> None:
        """Remove an unfinished file."""
        self._file.close()
        with suppress(OSError):  # then `remove_leftovers` removes it at the next start
            self._files.remove(self._path + PART)


def write_snapshot(
    files: Files, path: str, heading: SnapshotHeader, batches: Iterable[bytearray]
) -> None:
    """Write a complete snapshot, and replace one of that name. Durable on return."""
    file = SnapshotFile(files, path, heading)
    for batch in batches:
        file.append(batch)
    file.finish()


def store_snapshot(files: Files, path: str, data: bytes) -> None:
    """Write a snapshot that another replica made. Durable on return. If a byte of it is damaged or
    missing, raise CorruptLog and write nothing."""
    parse_snapshot(data, path, Voters(STATIC, ()))
    part = path + PART
    with files.open(part, "write") as file:
        file.truncate(0)
        file.append(data)
        file.sync()
    files.rename(part, path)
    files.sync_dir(path.rpartition("/")[0])


def _append(file: File, batch: bytearray, offset: int, epoch: int) -> int:
    stamp(batch, offset, epoch)
    file.append(batch)
    last = next(walk(batch)).header.last_offset
    return last + 1


def _opening(heading: SnapshotHeader) -> bytearray:
    header = SnapshotHeaderRecord(
        version=0, last_contained_log_timestamp=heading.last_contained_timestamp_ms
    )
    return encode_control_batch(
        [
            (ControlType.SNAPSHOT_HEADER, header.encode(0)),
            *heading.voters.control_records(),
        ],
        heading.now_ms,
    )


def _closing(heading: SnapshotHeader) -> bytearray:
    footer = SnapshotFooterRecord(version=0)
    return encode_control_batch([(ControlType.SNAPSHOT_FOOTER, footer.encode(0))], heading.now_ms)


def read_snapshot(files: Files, path: str, voters: Voters) -> Snapshot:
    """Return the snapshot in the file. `voters` are those of the settings, which count if the file
    names none. Raise CorruptLog if a byte of it is damaged or missing."""
    with files.open(path) as file:
        data = file.read_at(0, file.size)
    return parse_snapshot(data, path, voters)


def parse_snapshot(data: bytes, path: str, voters: Voters) -> Snapshot:
    """Return the snapshot in the bytes of such a file. Raise CorruptLog like `read_snapshot`."""
    try:
        return _parse(data, path, voters)
    except (CorruptRecord, MalformedMessage) as error:
        raise CorruptLog("the snapshot is damaged", path=path, why=str(error)) from error


def read_last_timestamp(files: Files, path: str) -> int:
    """Return the time of the last record in the snapshot, from its first batch; -1 if that cannot
    be read, so that the snapshot counts as very old."""
    with files.open(path) as file:
        data = file.read_at(0, _HEAD_BYTES)
    try:
        opening = next(walk(data[: whole_bytes(data)]), None)
        if opening is None or not _holds(opening, ControlType.SNAPSHOT_HEADER):
            return -1
        value = control_records(opening)[0].value or b""
        return SnapshotHeaderRecord.decode(value, 0).last_contained_log_timestamp
    except (CorruptRecord, MalformedMessage):
        return -1


def _parse(data: bytes, path: str, voters: Voters) -> Snapshot:
    if whole_bytes(data) != len(data):
        raise CorruptLog("the snapshot is cut short", path=path, size_bytes=len(data))
    batches = list(walk(data))
    for batch in batches:
        batch.check_crc()
    if len(batches) < 2 or not _holds(batches[0], ControlType.SNAPSHOT_HEADER):
        raise CorruptLog("the snapshot does not open as one", path=path)
    if not _holds(batches[-1], ControlType.SNAPSHOT_FOOTER):
        raise CorruptLog("the snapshot does not end", path=path)
    header = SnapshotHeaderRecord.decode(control_records(batches[0])[0].value or b"", 0)
    for batch in batches:
        voters = voters_after(voters, batch)
    return Snapshot(
        header.last_contained_log_timestamp,
        voters,
        tuple(each for each in batches if not each.header.is_control),
    )


def _holds(batch: Batch, wanted: ControlType) -> bool:
    if not batch.header.is_control:
        return False
    return any(record.type == wanted for record in control_records(batch))


def list_snapshots(files: Files, directory: str) -> list[SnapshotId]:
    """Return the complete snapshots in the directory, oldest first."""
    found = (parse_snapshot_name(name) for name in files.list(directory))
    return sorted(each for each in found if each is not None)


def remove_leftovers(files: Files, directory: str) -> list[str]:
    """Remove the files that a crash left: incomplete snapshots, and half-deleted ones."""
    gone = [
        name for name in files.list(directory) if name.endswith((_SUFFIX + PART, _SUFFIX + DELETED))
    ]
    for name in gone:
        files.remove(f"{directory}/{name}")
    return gone


def remove_snapshots(files: Files, directory: str, snapshots: Sequence[SnapshotId]) -> None:
    """Remove snapshots that newer ones replace. Durable on return."""
    for each in snapshots:
        files.remove(f"{directory}/{each.file_name}")
    files.sync_dir(directory)
