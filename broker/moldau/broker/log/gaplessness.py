"""The mark of a log: from which offset on it has no gap between segments.

    gapless-from-00000000000000000042.deleted

A gap between two segments is one of two things. Where compaction worked it is what a cleaned
segment ends in. Elsewhere the tail of the first segment was lost with the power and the second was
not, and a replica that kept the second would miss records for ever. The files do not tell which:
Apache Kafka puts segment after segment in place, and says how far it got (`cleaner-offset-
checkpoint`) when the round is over; its replicas of compacted logs begin segments behind gaps.

We do neither: what we append begins where the segment before it ends, and what we clean ends where
it ended (`compaction_filter`). So we mark where we went on, and a gap behind the mark is a lost
tail.

Every log has it from the time that we first open it: a new one at its start, another one where it
ended, as what it was and who cleaned it before is not told by its settings, nor what they will be.

Invariants: no mark, no proof; no gap behind the mark is there for a reason. It ends in `.deleted`
because Kafka removes such files when it opens a log, whatever they are: what it writes and cleans
from then on is not vouched for. The name says all; it is durable, as the names of the log are,
before a second segment is made, and what lies before it is durable. It is never beyond the end of
the log: who cuts the log lowers it. A mark that gets lost costs no record. A copy (`future_log`)
has it at its end when it is complete and durable: it may end in a gap as its source does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from moldau.broker.log.names import DELETED
from moldau.runtime.files import Files

_NAME: Final = re.compile(r"gapless-from-(\d{20})" + re.escape(DELETED))


def gapless_from(names: Iterable[str]) -> int | None:
    """What the mark among the names of a log's directory says; None if there is none."""
    return min((int(found[1]) for name in names if (found := _NAME.fullmatch(name))), default=None)


def mark_gapless(files: Files, directory: str, offset: int) -> None:
    """Make the mark; durable with a sync of the names."""
    files.open(_path(directory, offset), "write").close()


def lower_mark(files: Files, directory: str, end: int) -> None:
    """The log ends there now: what comes behind is ours, where the mark is beyond it. Durable on
    return."""
    marked = gapless_from(files.list(directory))
    if marked is not None and marked > end:
        move_mark(files, directory, end)


def move_mark(files: Files, directory: str, offset: int) -> None:
    """Make the mark there and nowhere else; a lower one is durable on return, a higher one with a
    sync of the names. A loss of power may have brought back one more that was removed."""
    listed = files.list(directory)
    mark_gapless(files, directory, offset)
    files.sync_dir(directory)
    for name in listed:
        path = f"{directory}/{name}"
        if _NAME.fullmatch(name) and path != _path(directory, offset):
            files.remove(path)


def _path(directory: str, offset: int) -> str:
    return f"{directory}/gapless-from-{offset:020d}{DELETED}"
