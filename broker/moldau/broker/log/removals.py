"""Files of a directory that are not used any more, and the times at which they are removed.

Invariants: a deleted log or segment keeps its files for `file.delete.delay.ms`, and for as long as
a thread may be reading it (`being_cleaned`). Nothing is removed in a directory that has failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.deferred import dataclass

if TYPE_CHECKING:
    from moldau.broker.log.directory_state import DirectoryState
    from moldau.broker.log.log import PartitionLog
    from moldau.broker.log.segment import Segment
    from moldau.runtime.files import Files


@dataclass(slots=True)
class Removal:
    """Files to remove now."""

    files: Files
    trees: list[str]
    segments: list[Segment]

    def __bool__(self) -> bool:
        return bool(self.trees or self.segments)

    def run(self) -> int:
        """Remove the files. Return how many logs and segments were removed. May run in a thread."""
        for path in self.trees:
            self.files.remove_tree(path)
        for segment in self.segments:
            segment.remove()
        return len(self.trees) + len(self.segments)


class Removals:
    """The files of one directory to remove later; see the module."""

    def __init__(self, state: DirectoryState) -> None:
        self.being_cleaned: set[PartitionLog] = set()
        """Logs whose segments a thread may be reading. Their files stay until it has ended."""
        self._state = state
        self._waiting: list[tuple[int, str, PartitionLog | None]] = []

    def add(self, path: str, deadline_ms: int) -> None:
        """Remove a directory that no log uses, once the deadline has passed."""
        self._waiting.append((deadline_ms, path, None))

    def bury(self, log: PartitionLog, now_ms: int) -> None:
        """Remove a log or a copy, which has been renamed for deletion, after its delay."""
        deadline_ms = now_ms + log.config.file_delete_delay_ms
        self._waiting.append((deadline_ms, log.directory, log))

    def take(self, now_ms: int) -> Removal:
        """Return the files that are due, for the caller to remove in a thread. Pass an OSError from
        that to `DirectoryState.fail`. Files that are not removed then are removed at the next
        start."""
        state = self._state
        removal = Removal(state.files, [], [])
        if state.failure is None:
            later = []
            for each in self._waiting:
                deadline_ms, path, log = each
                if deadline_ms > now_ms or log in self.being_cleaned:
                    later.append(each)
                    continue
                if log is not None:
                    log.abandon()
                removal.trees.append(path)
            self._waiting = later
        # Every second, over all logs: a call for each of them would cost more than the rest.
        for log in [each for each in state.logs.values() if each.state.deleted]:
            if state.failure is None and log not in self.being_cleaned:
                removal.segments += log.retention.take_deleted(now_ms)
        return removal

    def run(self, now_ms: int) -> int:
        """Remove the files that are due. Return how many logs and segments were removed."""
        removal = self.take(now_ms)
        try:
            return removal.run()
        except OSError as error:
            self._state.fail(error)
            return 0
