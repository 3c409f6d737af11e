"""Replace segments by cleaned ones: a crash at any moment leaves the old or the new ones.

1. `.cleaned` files are complete and durable. They do not count yet.
2. They become `.swap`, the last one first. Now they count, unless a `.cleaned` file of the same or
   a lower offset is left, which means that this step was not complete.
3. The old ones become `.deleted`.
4. The new ones get their real names.

Invariants: the names are synced between two steps, so a later step cannot overtake them. No step is
left out, so the log has its old segments until all steps are done, and its new ones after. The
syncs may run in a thread. Meanwhile the log appends, rolls and serves reads from the old segments,
whatever their names. Before any other change to its segments or its directory, the remaining steps
are done at once (`finish`).

At start, `finish_replacements` completes what a crash interrupted. Names and order are Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from moldau.broker.log import names
from moldau.broker.log.log_config import LogConfig
from moldau.broker.log.segment import INDEX_KINDS, Segment
from moldau.runtime.files import Files

_KINDS = (*INDEX_KINDS, names.LOG)
_UNFINISHED = (names.CLEANED, names.SWAP)


class Swap:
    """Steps 2 to 4. The `old` segments are left as `.deleted`, for the log to remove."""

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
        """Do a step; call `sync` after it. Return False if no step is left."""
        for _ in self._steps:
            return True
        self._is_over = True
        return False

    def sync(self) -> None:
        """Make the step durable. May run in a thread."""
        try:
            self._files.sync_dir(self._directory)
        except FileNotFoundError:
            if not self._is_over:  # `finish` was called, and then the directory was renamed
                raise

    def finish(self) -> None:
        """Do and sync the remaining steps now."""
        self.sync()
        while self.advance():
            self.sync()


def finish_replacements(files: Files, directory: str) -> list[str]:
    """Finish the replacements that reached step 2, and drop the others. Durable on return. Return
    the names in the directory after that."""
    listed = files.list(directory)
    if not any(name.endswith(_UNFINISHED) for name in listed):
        return listed
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
    """Rename or remove an index without its `.swap` log. With `keep` and a log that has its real
    name already, the index belongs to that one and is renamed."""
    swap = f"{directory}/{names.segment_file_name(base, kind, names.SWAP)}"
    log = f"{directory}/{names.segment_file_name(base, names.LOG)}"
    if keep and files.exists(log):
        files.rename(swap, f"{directory}/{names.segment_file_name(base, kind)}")
    else:
        files.remove(swap)


def _finish(files: Files, directory: str, base: int) -> None:
    """Do steps 3 and 4 for one segment."""
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
