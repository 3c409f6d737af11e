"""What the transactions of a task record, as the texts of its offsets in the app's group. Pure.

A text has the id of the checkpoint, the run of its driver, the token of the attempt, what that has
written, and the stream times. A task reads it before it writes, in this order:

1. An attempt opens a producer with the task's transactional id: no earlier one can commit.
2. It reads the texts. A later run of the checkpoint, a checkpoint that has begun after this one, or
   a move to the embedded engine, has recorded itself there by a transaction with the same id: the
   attempt fails.

So what a driver that was taken for dead still runs ends, whether it comes before the record (its
producer is fenced) or after it (it reads the record).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from moldau.streams.problems import StateError
from moldau.streams.spark.versions import DELTA, SNAPSHOT, Version, batch_of, token_of

_LEFT: Final = "left"
_TEXT: Final = re.compile(
    r"(\d+) (\d+) (-?\d+-\d+-\d+) (delta|snapshot|left) (\d+) (.*)", re.DOTALL
)
_TEXT_BYTES_MAX: Final = 4096
"""What brokers keep as the text of an offset."""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """What one text says."""

    checkpoint: str
    run: int
    token: str
    kind: str
    size_bytes: int = 0
    times: str = ""

    @property
    def text(self) -> str:
        parts = self.checkpoint, self.run, self.token, self.kind, self.size_bytes, self.times
        found = " ".join(map(str, parts))
        assert len(found) <= _TEXT_BYTES_MAX
        return found


def recorded_text(checkpoint: str, run: int, before: Version, after: Version) -> str:
    """Return the text that records a version with the outputs of its batch."""
    is_snapshot = after.files == (f"{after.token}.{SNAPSHOT}",)
    kind, size_bytes = DELTA, after.delta_bytes - before.delta_bytes
    if is_snapshot:
        kind, size_bytes = SNAPSHOT, after.snapshot_bytes
    return TaskRecord(checkpoint, run, after.token, kind, size_bytes, after.times).text


def begun_text(checkpoint: str, run: int) -> str:
    """Return the text that records, before any batch, that a checkpoint has begun."""
    return TaskRecord(checkpoint, run, token_of(-1, 0, 0), DELTA).text


def taken_text(text: str, checkpoint: str, run: int) -> str:
    """Return the text that records the same, and that a later run has taken over the task."""
    own = [each for each in _parsed([text]) if each.checkpoint == checkpoint]
    return replace(own[0], run=run).text if own else begun_text(checkpoint, run)


def left_text(checkpoint: str, run: int) -> str:
    """Return the text that records that the app has moved to the embedded engine."""
    return TaskRecord(checkpoint, run, token_of(-1, 0, 0), _LEFT).text


def newest_checkpoint(texts: Iterable[str]) -> int:
    """Return the id of the newest checkpoint that the texts record, -1 for none."""
    return max((int(each.checkpoint) for each in _parsed(texts)), default=-1)


def check_may_write(texts: Iterable[str], checkpoint: str, run: int) -> None:
    """Raise StateError if this run of the checkpoint must not write: the app has moved, a later run
    has taken over, or the app has begun another checkpoint after this one, so both would write the
    outputs of the same records."""
    for each in _parsed(texts):
        age = int(each.checkpoint) - int(checkpoint)
        if each.kind == _LEFT and age >= 0:
            raise StateError(
                "the app has moved to the embedded engine: run it there, or move it back to a new "
                "--checkpoint"
            )
        if age == 0 and each.run > run:
            raise StateError(
                "another driver, or a move of the app, has taken over the checkpoint: stop this "
                "driver"
            )
        if age > 0:
            raise StateError(
                "the app has begun with another checkpoint after this one: give the newer one, or "
                "a new --checkpoint, which begins without state"
            )


def recorded_version(
    recorded: Mapping[str, tuple[int, str]], checkpoint: str, batch: int, before: Version
) -> Version | None:
    """Return the version that a transaction of this batch has recorded; None if none was committed.

    `recorded` has the offset and the text of each input, `before` is the version that the batch
    begins with. Texts of other checkpoints do not count. Raise StateError if a later batch was
    committed."""
    found = _parsed(text for _, text in recorded.values())
    own = [each for each in found if each.checkpoint == checkpoint]
    if not own:
        return None
    newest = max(own, key=lambda each: batch_of(each.token))
    last = batch_of(newest.token)
    if last > batch:
        raise StateError(
            f"batch={batch}: the app has committed batch {last} already, so this checkpoint is an "
            "old copy: give the newest one, or a new --checkpoint, which begins without state"
        )
    if last < batch:
        return None
    text = newest.text
    offsets = {topic: offset for topic, (offset, each) in recorded.items() if each == text}
    is_snapshot = newest.kind == SNAPSHOT
    version = before.after(newest.token, newest.size_bytes, newest.times, is_snapshot=is_snapshot)
    return version.at({**before.offsets, **offsets})


def _parsed(texts: Iterable[str]) -> list[TaskRecord]:
    """Return what those of the texts say that record something."""
    found = [match.groups() for text in set(texts) if (match := _TEXT.fullmatch(text))]
    return [
        TaskRecord(checkpoint, int(run), token, kind, int(size_bytes), times)
        for checkpoint, run, token, kind, size_bytes, times in found
    ]
