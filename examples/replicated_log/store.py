"""One node's disk: the log in one file, the vote in another.

Invariants: after `save` returns, its data survives a power loss; what `open` finds is durable
before it is used. Both wait for the disk and must run on a thread, one call at a time.

An entry of the log is its length, a checksum, and the record. The checksum continues the one before
it, so an entry is valid only after exactly the entries that it was written after. Without that, a
node that truncated its log, appended, and lost power before the sync could find new entries
followed by old ones, each of them intact. The log ends where the chain breaks: later entries were
never synced, so they were never confirmed.

A break can also be corruption, and then the later entries were confirmed. Two things show it: a
mark in front of each append stores how far the log was durable by then, and so does the file of the
vote. A break below that is CorruptLog: this node has forgotten what others rely on, and must not
take part any more. Only corruption in the very last append, after which nothing else was written,
looks like a torn append; to distinguish these would take a second sync for each. A truncation
begins a new generation, in which marks behind the cut do not count.

A disk without a vote is not that of a new node but a lost one: `format` makes new ones, once.

An OSError from here means that nothing on this disk is reliable any more: the node must stop.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

from examples.replicated_log.messages import NO_EPOCH, Record
from examples.replicated_log.replica import Ready, Vote
from moldau.errors import CorruptLog
from moldau.runtime.files import File, FileLock, Files

_ENTRY = struct.Struct(">iIi")  # length of the value, checksum, epoch
_CHECKED = struct.Struct(">ii")  # what the checksum covers of it: length and epoch

_MARK = struct.Struct(">4sIqI")  # magic, generation, how far it was durable, checksum
_ENTRY_BYTES, _MARK_BYTES = _ENTRY.size, _MARK.size
MARK_MAGIC = b"\xffend"  # as the length of an entry this would be negative
_MARK_CHECKED = struct.Struct(">Iqq")  # generation, how far it was durable, where the mark lies


class Store:
    """The data of one node on disk. A lock keeps a second process away. Call `open` first."""

    _lock: FileLock
    _log: File

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._log_path = f"{directory}/log"
        self._vote_path = f"{directory}/vote"
        self._ends = [0]
        """Where each entry ends, after the position where the first one begins."""
        self._checksums = [0]
        """The checksum of each entry, which also covers all entries before it."""
        self._vote = Vote()
        self._durable = 0
        self._generation = 0

    def format(self) -> None:
        """Make this the disk of a new node, which has promised nothing yet. Call it only once."""
        self._files.make_dirs(self._directory)
        self.save_vote(Vote())

    def open(self) -> tuple[Vote, list[Record]]:
        """Read what the last run left. Return the vote and the records, all of them durable."""
        if not self._files.exists(self._vote_path):
            raise CorruptLog("not a node's disk: new, or lost", path=self._directory)
        self._lock = self._files.lock(f"{self._directory}/.lock")
        vote = self._read_vote()
        log = self._log = self._files.open(self._log_path, "write")
        records = self._recover(log.read_at(0, log.size))
        self._cut_to(self._ends[-1])
        # The last process may have died between its writes and its sync. Then the data is in the
        # page cache only, and must not be confirmed yet.
        self.sync()
        self._files.sync_dir(self._directory)
        return vote, records

    def save(self, ready: Ready) -> None:
        """Make everything in `ready` durable, in the required order."""
        if ready.vote is not None:
            self.save_vote(ready.vote)
        if ready.truncate_to is not None:
            self.truncate(ready.truncate_to)
        if ready.records:
            self.append(ready.records)
        if ready.records or ready.truncate_to is not None:
            self.sync()

    def save_vote(self, vote: Vote) -> None:
        """Replace the vote; durable on return."""
        self._vote = vote
        self._files.write_text_atomic(self._vote_path, self._vote_text(vote))

    def _vote_text(self, vote: Vote) -> str:
        text = f"{vote.epoch} {vote.candidate} {self._generation} {self._durable}"
        return f"{text} {crc32(text.encode()):08x}\n"

    def truncate(self, offset: int) -> None:
        """Truncate the log; durable after `sync`."""
        del self._ends[offset + 1 :], self._checksums[offset + 1 :]
        self._durable = min(self._durable, self._ends[-1])
        self._generation += 1
        self.save_vote(self._vote)
        self._cut_to(self._ends[-1])

    def append(self, records: Sequence[Record]) -> None:
        """Append records; durable after `sync`."""
        end, checksum = self._ends[-1], self._checksums[-1]
        generation, durable = self._generation, self._durable
        mark_checksum = crc32(_MARK_CHECKED.pack(generation, durable, end))
        parts = [_MARK.pack(MARK_MAGIC, generation, durable, mark_checksum)]
        end += _MARK_BYTES
        for record in records:
            value, epoch = record.value, record.epoch
            size, checksum = len(value), self._checksum(value, epoch, checksum)
            parts += (_ENTRY.pack(size, checksum, epoch), value)
            end += _ENTRY_BYTES + size
            self._ends.append(end)
            self._checksums.append(checksum)
        self._log.append_parts(parts)

    def sync(self) -> None:
        """Make the log durable."""
        self._log.sync(data_only=True)
        self._durable = self._ends[-1]

    def close(self) -> None:
        """Close the files. Nothing is made durable."""
        self._log.close()
        self._lock.release()

    def _cut_to(self, position: int) -> None:
        self._log.truncate(position)

    def _recover(self, data: bytes) -> list[Record]:
        """Return the entries up to a break of the chain. Raise CorruptLog if more was durable."""
        records = []
        position, before = self._ends[-1], self._checksums[-1]
        while True:
            if data.startswith(MARK_MAGIC, position):
                position += _MARK_BYTES
            start = position + _ENTRY_BYTES
            if len(data) < start:
                break
            size, checksum, epoch = _ENTRY.unpack_from(data, position)
            position = start + size
            if not start <= position <= len(data):
                break
            value = data[start:position]
            if epoch == NO_EPOCH or checksum != self._checksum(value, epoch, before):
                break
            records.append(Record(epoch=epoch, value=value))
            before = checksum
            self._ends.append(position)
            self._checksums.append(checksum)
        end, durable = self._ends[-1], max(self._durable, self._marked(data, self._ends[-1]))
        if end < durable:
            raise CorruptLog(
                "what was durable has rotted", path=self._log_path, intact=end, durable=durable
            )
        return records

    def _marked(self, data: bytes, start: int) -> int:
        """Return how far the log was durable, according to the marks from `start` on."""
        marked, position = 0, start - 1
        while (position := data.find(MARK_MAGIC, position + 1)) >= 0:
            if position + _MARK_BYTES > len(data):
                break
            _, generation, durable, checksum = _MARK.unpack_from(data, position)
            checked = _MARK_CHECKED.pack(generation, durable, position)
            if generation == self._generation and checksum == crc32(checked):
                marked = max(marked, durable)
        return marked

    def _read_vote(self) -> Vote:
        """Return the vote. Raise CorruptLog if the file was changed."""
        try:
            text = self._files.read_text(self._vote_path)
            *numbers, _ = text.split()
            epoch, candidate, self._generation, self._durable = map(int, numbers)
            vote = self._vote = Vote(epoch, candidate)
            is_intact = text == self._vote_text(vote)
        except ValueError:
            is_intact = False
        if not is_intact:
            raise CorruptLog("not a vote", path=self._vote_path)
        return vote

    def _checksum(self, value: bytes, epoch: int, before: int) -> int:
        return crc32(value, crc32(_CHECKED.pack(len(value), epoch), before))
