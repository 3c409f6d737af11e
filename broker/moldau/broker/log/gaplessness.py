"""The mark of a log: the offset from which it has no gap between segments.

    gapless-from-00000000000000000042.deleted

A gap between two segments has one of two causes. Compaction can leave a gap at the end of a cleaned
segment. Otherwise a power loss took the tail of the first segment and not the second one, and a
replica that kept the second would miss records for ever. The files do not show which. Apache Kafka
puts one segment after another in place and writes its progress (`cleaner-offset-checkpoint`) only
when the round is over; its replicas of compacted logs begin segments behind gaps.

This broker leaves no gaps: an append begins where the segment before it ends, and a cleaned segment
ends where the original did (`compaction_filter`). So the mark says where this broker began to
write, and a gap behind the mark is a lost tail.

Every log gets the mark when this broker first opens it: a new log at its start, another one at its
end. Its settings do not show its earlier settings and what cleaned it, nor its later settings.

Invariants:
* Without a mark a gap proves nothing. Behind the mark every gap is damage.
* The name ends in `.deleted` because Kafka removes such files when it opens a log. So the mark does
  not cover what Kafka writes and cleans from then on.
* The name is all of the information. It is durable, like the log's other names, before a second
  segment is created, and everything before the mark is durable.
* The mark is never beyond the log's end: a truncation lowers it. A lost mark costs no record.
* A copy (`future_log`) gets the mark at its end when it is complete and durable: it may contain
  gaps as its source does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from moldau.broker.log.names import DELETED
from moldau.deferred import deferred_pattern
from moldau.runtime.files import Files

_NAME: Final = deferred_pattern(r"gapless-from-(\d{20})" + re.escape(DELETED))


def gapless_from(names: Iterable[str]) -> int | None:
    """Return the offset of the mark among the names of a log's directory, or None if there is
    none."""
    marks = [name for name in names if name.endswith(DELETED)]
    return min((int(found[1]) for name in marks if (found := _NAME.fullmatch(name))), default=None)


def mark_gapless(files: Files, directory: str, offset: int) -> None:
    """Create the mark. It is durable with a sync of the directory."""
    files.open(_path(directory, offset), "write").close()


def lower_mark(files: Files, directory: str, end: int) -> None:
    """Lower the mark to the log's new end if it is beyond it. Durable on return."""
    marked = gapless_from(files.list(directory))
    if marked is not None and marked > end:
        move_mark(files, directory, end)


def move_mark(files: Files, directory: str, offset: int) -> None:
    """Set the mark to `offset`, and remove all others. A lower mark is durable on return, a higher
    one with a sync of the directory. A power loss may have brought back a removed mark, so there
    may be several."""
    listed = files.list(directory)
    mark_gapless(files, directory, offset)
    files.sync_dir(directory)
    for name in listed:
        path = f"{directory}/{name}"
        if _NAME.fullmatch(name) and path != _path(directory, offset):
            files.remove(path)


def _path(directory: str, offset: int) -> str:
    return f"{directory}/gapless-from-{offset:020d}{DELETED}"
