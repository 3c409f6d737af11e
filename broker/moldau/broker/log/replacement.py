"""Putting cleaned segments in the place of those they were made from, so that a crash at any moment
leaves the old ones or the new ones.

1. `.cleaned` files are complete and durable. They mean nothing yet.
2. They become `.swap`, the last one first: now they count, unless a `.cleaned` of the same or a
   lower offset is left, which says that this step was not over.
3. The old ones become `.deleted`; 4. the new ones get their real names.

Invariants: between two steps the names are synced, so they cannot be overtaken by a later step; no
step is left out, so that the log has its old segments until all are done, and its new ones after.
The syncs may run in a thread. Meanwhile the log appends, rolls and is read from the old segments,
whatever their names; before anything else becomes of its segments or its directory, what is left of
the steps is done on the spot (`finish`).

`finish_replacements` does at start what a crash kept from being done. Names and order are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moldau.broker.log import names
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.segment import INDEX_KINDS, Segment
from moldau.runtime.files import Files

_KINDS = (*INDEX_KINDS, names.LOG)


class Swap:
    """Steps 2 to 4; `old` are left as `.deleted`, for the log to remove."""

    def __init__(
        self, files: Files, directory: str, new: Sequence[Segment], old: Sequence[Segment]
    ) -> None:
        self.new = tuple(new)
        self.old = tuple(old)
        self._files = files
        self._directory = directory
        self._steps = self._renamings()
        self._is_over = False

    def _renamings(self) -> Iterator[None]:
        for segment in reversed(self.new):
            segment.rename(names.SWAP)
        yield
        for segment in self.old:
            segment.rename(names.DELETED)
        yield
        for segment in self.new:
            segment.rename("")
        yield

    def advance(self) -> bool:
        """Do a step, to be followed by `sync`; False when there is none any more."""
        for _ in self._steps:
            return True
        self._is_over = True
        return False

    def sync(self) -> None:
        """Make the step durable; may run in a thread."""
        try:
            self._files.sync_dir(self._directory)
        except FileNotFoundError:
            if not self._is_over:  # somebody finished, and gave the directory another name
                raise

    def finish(self) -> None:
        """Do and sync what is left, now."""
        self.sync()
        while self.advance():
            self.sync()


def finish_replacements(files: Files, directory: str) -> list[str]:
    """Finish what had got to step 2, drop what had not; durable on return. The names that are in
    the directory then."""
    listed = files.list(directory)
    lowest_cleaned = None
    changed = False
    for name in listed:
        if (cleaned := names.parse_segment_file(name, names.CLEANED)) is not None:
            is_lower = lowest_cleaned is None or cleaned[0] < lowest_cleaned
            lowest_cleaned = cleaned[0] if is_lower else lowest_cleaned
            files.remove(f"{directory}/{name}")
            changed = True
    swaps = [found for name in listed if (found := names.parse_segment_file(name, names.SWAP))]
    counting = sorted(base for base, kind in swaps if kind == names.LOG)
    for base, kind in swaps:
        if base not in counting or (lowest_cleaned is not None and base >= lowest_cleaned):
            _rename_or_remove(files, directory, base, kind, keep=base not in counting)
            changed = True
    if lowest_cleaned is not None:
        counting = [base for base in counting if base < lowest_cleaned]
    for base in counting:
        _finish(files, directory, base)
        changed = True
    if not changed:
        return listed
    files.sync_dir(directory)
    return files.list(directory)


def _rename_or_remove(files: Files, directory: str, base: int, kind: str, *, keep: bool) -> None:
    """An index without its log: the log has its real name already, so it belongs to that one."""
    swap = f"{directory}/{names.segment_file_name(base, kind, names.SWAP)}"
    log = f"{directory}/{names.segment_file_name(base, names.LOG)}"
    if keep and files.exists(log):
        files.rename(swap, f"{directory}/{names.segment_file_name(base, kind)}")
    else:
        files.remove(swap)


def _finish(files: Files, directory: str, base: int) -> None:
    """Steps 3 and 4 for one segment."""
    swap = Segment(files, directory, base, LogConfig(), names.SWAP)
    swap.load_end()
    end = max(swap.next_offset, base + 1)
    swap.forget()
    for name in files.list(directory):
        found = names.parse_segment_file(name)
        if found is not None and found[1] == names.LOG and base <= found[0] < end:
            for kind in _KINDS:
                path = f"{directory}/{names.segment_file_name(found[0], kind)}"
                if files.exists(path):
                    files.remove(path)
    files.sync_dir(directory)
    for kind in _KINDS:
        path = f"{directory}/{names.segment_file_name(base, kind, names.SWAP)}"
        if files.exists(path):
            files.rename(path, f"{directory}/{names.segment_file_name(base, kind)}")
