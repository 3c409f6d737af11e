"""One node's disk: the log in one file, the vote in another.

Invariants: what `save` returned from survives the loss of power; what `open` finds is durable
before anybody hears of it. Both wait for the disk and belong on a thread, one call at a time.

An entry of the log is its length, a checksum, and the record. The checksum continues the one before
it, so an entry counts only after exactly those entries that it was written after. Without that, a
node that cut its log, appended, and lost power before the sync could find new entries followed by
old ones, each of them intact. The log ends where the chain breaks: what comes after was never
synced, so nobody was ever told of it.

A break can also be rot, and then what comes after it was promised. Two things tell: in front of
each append a mark says how far the log was durable by then, and so does the file of the vote. A
break below that is CorruptLog: this node has forgotten what others count on, and must not take part
any more. Only rot in the very last append, with which no later write went to the disk, looks like
an append that was torn; to tell these apart would take a second sync for each. Cutting the log
opens a new generation, in which marks that lie behind the cut count for nothing.

A disk without a vote is no new node's but a lost one: `format` makes new ones, once.

An OSError from here means that nothing on this disk can be relied on any more: the node must stop.
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
    """What one node has on disk; locked, so that no second process opens it. `open` comes first."""

    _lock: FileLock
    _log: File

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._log_path = f"{directory}/log"
        self._vote_path = f"{directory}/vote"
        self._ends = [0]
        """Where each entry ends; before them, where the first begins."""
        self._checksums = [0]
        """The checksum of each entry, which covers all before it as well."""
        self._vote = Vote()
        self._durable = 0
        self._generation = 0

    def format(self) -> None:
        """Make this the disk of a new node. Once only: it has promised nothing to anybody."""
        self._files.make_dirs(self._directory)
        self.save_vote(Vote())

    def open(self) -> tuple[Vote, list[Record]]:
        """Find what an earlier life left. Returns the vote and the records, all of them durable."""
        if not self._files.exists(self._vote_path):
            raise CorruptLog("not a node's disk: new, or lost", path=self._directory)
        self._lock = self._files.lock(f"{self._directory}/.lock")
        vote = self._read_vote()
        log = self._log = self._files.open(self._log_path, "write")
        records = self._recover(log.read_at(0, log.size))
        self._cut_to(self._ends[-1])
        # The last life may have died between its writes and its sync: then what we have just read
        # is in the page cache only, and must not be promised to anybody yet.
        self.sync()
        self._files.sync_dir(self._directory)
        return vote, records

    def save(self, ready: Ready) -> None:
        """Make durable what `ready` promises, in the order that it asks for."""
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
        """Cut the log; durable after `sync`."""
        del self._ends[offset + 1 :], self._checksums[offset + 1 :]
        self._durable = min(self._durable, self._ends[-1])
        self._generation += 1
        self.save_vote(self._vote)
        self._cut_to(self._ends[-1])

    def append(self, records: Sequence[Record]) -> None:
        """Add to the log; durable after `sync`."""
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
        """Let go of the files; makes nothing durable."""
        self._log.close()
        self._lock.release()

    def _cut_to(self, position: int) -> None:
        self._log.truncate(position)

    def _recover(self, data: bytes) -> list[Record]:
        """The entries up to where the chain breaks; CorruptLog when more was durable."""
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
        """How far the log was durable, as the marks from `start` on know."""
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
        """The vote; CorruptLog when it is not as it was written."""
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
