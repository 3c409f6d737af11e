"""The files that logs keep open: a limited number, those that were used last. Pure but for `open`.

Invariant: a holder in the pool may lose its files in `make_room` and `release_idle`, and opens them
again when it needs them. Nothing is lost: a slice that is being sent keeps its file open by itself,
and a sync through a new descriptor covers what an earlier one wrote.

Every log of a broker may be written to or read at any time, but most are not at any one time.
Before, each log held its file and the mappings of two indexes for ever, so that a process with
20,000 files had room for 6,000 partitions, idle ones included.

The order is that of a clock with a second chance. A holder joins at the end. The first one leaves,
unless it was used since it joined: then it joins again. So an append and a read do nothing for the
pool; it compares a number that they change anyway (`activity`).

Holders join from any thread. They leave in one thread only, the event loop: `make_room` and
`release_idle` are called there, where nothing is in the middle of using a holder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from moldau.broker.log.open_files import is_shortage

if TYPE_CHECKING:
    from moldau.runtime.files import File, Files

IDLE_MS: Final = 60_000
_CHANCES: Final = 64
"""How many holders in use `make_room` passes over before it takes one of them."""
_STEP: Final = 200
"""How many holders `release_idle` looks at in one call: a loop must not stall for 10,000."""


class FileHolder(Protocol):
    """What has an open file or a mapping."""

    def activity(self) -> int:
        """Return a number that changes with each use."""
        ...

    def release_files(self) -> None:
        """Close the files, and call `discard`. They are opened again at the next use."""
        ...


class FilePool:
    """The holders of a broker's open log files."""

    __slots__ = ("_holders", "_now_ms", "limit")

    def __init__(self, limit: int | None = None) -> None:
        """`limit` is the number of files; None means no limit."""
        self.limit = limit
        self._holders: dict[FileHolder, tuple[int, int]] = {}
        """The holders in the order in which they leave, with their activity and the time when they
        joined."""
        self._now_ms = 0

    @property
    def count(self) -> int:
        """The number of open files and mappings."""
        return len(self._holders)

    def admit(self, holder: FileHolder) -> None:
        """Note that the holder has opened its file. Any thread may call this."""
        self._holders[holder] = (holder.activity(), self._now_ms)

    def discard(self, holder: FileHolder) -> None:
        """Note that the holder has no open file, if it is in the pool."""
        self._holders.pop(holder, None)

    def open(self, files: Files, path: str) -> File:
        """Open a log's file for writing. If the process has no file left, close others first."""
        try:
            return files.open(path, "update")
        except OSError as error:
            if not is_shortage(error) or not self._holders:
                raise
        self._shrink_to(len(self._holders) // 2)
        return files.open(path, "update")

    def make_room(self) -> None:
        """Close files until no more than `limit` are open."""
        if self.limit is not None and len(self._holders) > self.limit:
            self._shrink_to(self.limit)

    def release_idle(self, now_ms: int) -> None:
        """Close the files that were not used for `IDLE_MS`. Call it about once a second."""
        self._now_ms = now_ms
        for holder, (activity, since_ms) in list(self._holders.items())[:_STEP]:
            if now_ms - since_ms < IDLE_MS:
                return
            if holder.activity() == activity:
                holder.release_files()
            else:
                self._join_again(holder)

    def _shrink_to(self, count: int) -> None:
        chances = _CHANCES
        while len(self._holders) > count:
            holder, (activity, _) = next(iter(self._holders.items()))
            if chances and holder.activity() != activity:
                chances -= 1
                self._join_again(holder)
            else:
                holder.release_files()

    def _join_again(self, holder: FileHolder) -> None:
        del self._holders[holder]
        self.admit(holder)


class _NoPool(FilePool):
    """For logs that keep their files open: nothing joins it."""

    __slots__ = ()

    def admit(self, holder: FileHolder) -> None:
        """Do nothing."""


NO_POOL: Final = _NoPool()
"""The pool of segments that no log in service has: new ones, copies, the metadata log."""
