"""Follows one file: reads what is added to it, through rotation and truncation.

A `Follower` keeps the file open, so that a file that was renamed is read to its end before the new
one begins. It detects these cases by comparing identities (inodes) and sizes:

    identity changed            the file was rotated: the old one ends, the new one begins at 0
    identity the same, smaller  the file was truncated: it begins at 0 again
    after a restart             the rotated file is searched beside the path, by its identity
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, BinaryIO

from moldau.connectors.file.formats import Compression, decompressed
from moldau.connectors.file.lines import Block, LineSplitter
from moldau.connectors.file.storage import Storage

_log = logging.getLogger(__name__)
_CHUNK = 1024 * 1024


class Follower:
    """Reads the lines of one path, in blocks."""

    def __init__(
        self, storage: Storage, path: str, compression: Compression, stored: dict[str, Any] | None
    ) -> None:
        self._storage = storage
        self.path = path
        self._compression = compression
        self._file: BinaryIO | None = None
        self._identity: int | None = None
        self._is_rotated = False
        self._is_done = False
        self._splitter = LineSplitter()
        self._stored = self._stored_next = stored

    @property
    def is_growing(self) -> bool:
        """Whether the file may grow. A compressed file is complete as soon as it exists."""
        return self._compression is Compression.NONE

    def blocks(self) -> Iterator[Block]:
        """Yield the existing lines, up to the end. Call it again later for new ones.

        After an error, `reopen` continues after the last block whose consumer has requested the
        next.
        """
        while self._open():
            assert self._file is not None
            data = self._file.read(_CHUNK)
            if data:
                yield from self._giving(self._splitter.feed(data))
                continue
            if not self.is_growing or self._is_rotated or self._has_moved():
                yield from self._giving(self._splitter.rest())
                self._end()
                if not self.is_growing:
                    self._is_done = True
                continue
            return

    def _giving(self, block: Block) -> Iterator[Block]:
        if block.raw:
            yield block
        self._stored_next = block.last_offset()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def reopen(self) -> None:
        """Continue, after an error, after the last line that was yielded."""
        if self._file is not None:
            self._stored = self._stored_next
            self.close()

    def header(self) -> bytes:
        """Return the first line of the open file, however far it was read."""
        with decompressed(self._storage.read(self._opened), self._compression) as file:
            return file.readline().rstrip(b"\r\n")

    def _open(self) -> bool:
        """Open the file if necessary. Return False if there is none to read."""
        if self._file is not None:
            return True
        if self._is_done:
            return False
        stored = self._stored
        position = int(stored["position"]) if stored else 0
        identity = stored.get("inode") if stored else None
        state = self._storage.state(self.path)
        self._opened, self._is_rotated = self.path, False
        if identity is not None and (state is None or state.identity != identity):
            rotated = self._rotated(identity)
            if rotated is None:
                position = 0
                _log.warning("%s was rotated, and the old file is gone: what was not read of it "
                             "is lost", self.path)  # fmt: skip
            else:
                self._opened, self._is_rotated = rotated, True
                state = self._storage.state(rotated)
        if state is None:
            self._stored = None
            return False
        if self.is_growing and state.size < position:
            _log.warning("%s is shorter than what was read of it: it is read anew", self.path)
            position = 0
        self._file = decompressed(self._storage.read(self._opened), self._compression)
        self._identity = state.identity
        self._splitter = LineSplitter(position, state.identity)
        self._stored_next = Block([], position, state.identity).last_offset()
        _skip(self._file, position, can_seek=self.is_growing)
        self._stored = None
        return True

    def _rotated(self, identity: int) -> str | None:
        for sibling in self._storage.find(f"{self.path}*"):
            state = self._storage.state(sibling)
            if state is not None and state.identity == identity:
                return sibling
        return None

    def _has_moved(self) -> bool:
        """Whether the path leads to another file now. Called at the end of the open file."""
        state = self._storage.state(self.path)
        if state is None:
            return False
        if state.identity != self._identity:
            return True
        return state.size < self._splitter.position

    def _end(self) -> None:
        self.close()
        self._splitter = LineSplitter()


def _skip(file: BinaryIO, position: int, *, can_seek: bool) -> None:
    if can_seek:
        file.seek(position)
        return
    while position > 0:
        data = file.read(min(position, _CHUNK))
        if not data:
            return
        position -= len(data)
