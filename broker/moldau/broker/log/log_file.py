"""The log file of a segment: opened at first use, and closed by its pool when it is not used.

Bytes that were not synced before it was closed stay in the page cache. A later sync through another
descriptor makes them durable, or reports the error (Linux reports an error to a descriptor that was
opened after it, if no other one has seen it).
"""

from __future__ import annotations

from moldau.broker.log.file_pool import NO_POOL, FilePool
from moldau.broker.log.slice import SegmentFile
from moldau.runtime.files import File, Files


class LogFile:
    """The log file of one segment. Satisfies `file_pool.FileHolder`."""

    __slots__ = ("_files", "_pool", "_uses", "opened", "path")

    def __init__(self, files: Files, path: str) -> None:
        """Open the file, or create it."""
        self._files = files
        self._pool: FilePool = NO_POOL
        self._uses = 0
        self.path = path
        """Its current path, which its segment keeps up to date."""
        self.opened: SegmentFile | None = SegmentFile(files.open(path, "write"))
        """The open file, or None. Slices keep it open by themselves."""

    @property
    def file(self) -> File:
        """The file, opened if it is not open."""
        return (self.opened or self._open()).file

    def source(self) -> SegmentFile:
        """Return the open file, for slices of it. It is another one after `release_files`."""
        self._uses += 1
        return self.opened or self._open()

    def _open(self) -> SegmentFile:
        self.opened = opened = SegmentFile(self._pool.open(self._files, self.path))
        self._pool.admit(self)
        return opened

    def is_opened_as(self, source: SegmentFile | None) -> bool:
        """Whether `source` is this file, and was not closed since."""
        return source is not None and source is self.opened

    def source_for_walk(self) -> SegmentFile:
        """Return the file for one walk through it, in any thread: it does not stay open."""
        return self.opened or SegmentFile(self._files.open(self.path))

    def join(self, pool: FilePool) -> None:
        """Let the pool close the file when it is not used. From then on it is used in the thread of
        the pool, except for `source_for_walk`."""
        self._pool = pool
        if self.opened is not None:
            pool.admit(self)

    def activity(self) -> int:
        """Return a number that changes with each append and each read."""
        return self._uses if self.opened is None else self._uses + self.opened.file.size

    def release_files(self) -> None:
        """Close the file when its last slice is gone."""
        self._pool.discard(self)
        self.opened = None
