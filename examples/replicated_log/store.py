"""One node's disk: the log in one file, the vote in another.

Invariants: what `sync` and `save_vote` returned from survives the loss of power; what `open` finds
is durable before anybody hears of it.

An entry of the log is its length, a checksum, and the record. The checksum continues the one before
it, so an entry counts only after exactly those entries that it was written after. Without that, a
node that cut its log, appended, and lost power before the sync could find new entries followed by
old ones, each of them intact. The log ends where the chain breaks: what comes after was never
synced, so nobody was ever told of it.

An OSError from here means that nothing on this disk can be relied on any more: the node must stop.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from examples.replicated_log.messages import NO_EPOCH, Record
from examples.replicated_log.replica import Vote
from moldau.errors import CorruptLog
from moldau.runtime.files import File, FileLock, Files

_ENTRY = struct.Struct(">iIi")  # length of the value, checksum, epoch
_CHECKED = struct.Struct(">ii")  # what the checksum covers of it: length and epoch


class _Point(NamedTuple):
    """A place between two entries: where it is, and the checksum of all before it."""

    position: int
    checksum: int


_START = _Point(0, 0)


class Store:
    """What one node has on disk; locked, so that no second process opens it."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._log_path = f"{directory}/log"
        self._vote_path = f"{directory}/vote"
        self._lock: FileLock | None = None
        self._log: File | None = None
        self._points = [_START]

    def open(self) -> tuple[Vote, list[Record]]:
        """Find what an earlier life left. Returns the vote and the records, all of them durable."""
        self._files.make_dirs(self._directory)
        self._lock = self._files.lock(f"{self._directory}/.lock")
        vote = self._read_vote()
        log = self._log = self._files.open(self._log_path, "write")
        records = self._recover(log.read_at(0, log.size))
        self._cut_to(self._points[-1].position)
        # The last life may have died between its writes and its sync: then what we have just read
        # is in the page cache only, and must not be promised to anybody yet.
        self.sync()
        self._files.sync_dir(self._directory)
        return vote, records

    def save_vote(self, vote: Vote) -> None:
        """Replace the vote; durable on return."""
        self._files.write_text_atomic(self._vote_path, f"{vote.epoch} {vote.candidate}\n")

    def truncate(self, offset: int) -> None:
        """Cut the log; durable after `sync`."""
        del self._points[offset + 1 :]
        self._cut_to(self._points[-1].position)

    def append(self, records: Sequence[Record]) -> None:
        """Add to the log; durable after `sync`."""
        parts: list[bytes] = []
        for record in records:
            parts += self._entry(record)
        self._opened().append_parts(parts)

    def sync(self) -> None:
        """Make the log durable."""
        self._opened().sync(data_only=True)

    def close(self) -> None:
        """Let go of the files; makes nothing durable."""
        if self._log is not None:
            self._log.close()
        if self._lock is not None:
            self._lock.release()

    def _cut_to(self, position: int) -> None:
        self._opened().truncate(position)

    def _entry(self, record: Record) -> tuple[bytes, bytes]:
        value, epoch = record.value, record.epoch
        before = self._points[-1]
        checksum = self._checksum(value, epoch, before.checksum)
        self._points.append(_Point(before.position + _ENTRY.size + len(value), checksum))
        return _ENTRY.pack(len(value), checksum, epoch), value

    def _recover(self, data: bytes) -> list[Record]:
        """The entries up to where the chain breaks."""
        records = []
        point = self._points[-1]
        while len(data) >= point.position + _ENTRY.size:
            size, checksum, epoch = _ENTRY.unpack_from(data, point.position)
            start = point.position + _ENTRY.size
            end = start + size
            if not start <= end <= len(data):
                break
            value = data[start:end]
            if epoch == NO_EPOCH or checksum != self._checksum(value, epoch, point.checksum):
                break
            records.append(Record(epoch=epoch, value=value))
            point = _Point(end, checksum)
            self._points.append(point)
        return records

    def _read_vote(self) -> Vote:
        if not self._files.exists(self._vote_path):
            return Vote()
        text = self._files.read_text(self._vote_path)
        try:
            epoch, candidate = map(int, text.split())
        except ValueError:
            raise CorruptLog("not a vote", path=self._vote_path, text=text) from None
        return Vote(epoch, candidate)

    def _checksum(self, value: bytes, epoch: int, before: int) -> int:
        return crc32(value, crc32(_CHECKED.pack(len(value), epoch), before))

    def _opened(self) -> File:
        assert self._log is not None, "open comes first"
        return self._log
