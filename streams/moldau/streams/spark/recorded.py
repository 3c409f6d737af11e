"""What the transactions of a task record, as the texts of its offsets in the app's group. Pure.

A text has the id of the checkpoint, the run of its driver, the token of the attempt, what that has
written, and the stream times. So the group names, for each task, the driver that owns it: the
newest run of the newest checkpoint. It is durable on the brokers, wherever the directory of a
checkpoint was moved or copied.

1. A driver takes over all tasks when it starts: a transaction with the task's transactional id
   records its run. That raises the epoch of the id, so what earlier drivers have in flight cannot
   commit, and what they have left open is aborted.
2. A driver reads the texts of its tasks before each batch, in one request, and ends if another
   driver owns one.
3. An attempt opens a producer with the transactional id: no earlier attempt can commit.
4. It reads the texts. If another driver owns the task, the attempt fails; also if another attempt
   than the one that made its version has committed last: then the checkpoint is a copy of one that
   has gone on.

So what a driver that was taken for dead still runs ends, whether it comes before the record (its
producer is fenced) or after it (it reads the record).

Why not one epoch for the whole app, such as that of a transactional id of the driver's: brokers
compare epochs only of the id that commits, and each task commits for itself. Why not the generation
of a group of drivers (KIP-447): a driver that Java or Spark holds up for a while would lose its
membership, and each of its batches would fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from moldau.deferred import dataclass
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


def newest_run(texts: Iterable[str], checkpoint: str) -> int:
    """Return the newest run of a checkpoint that the texts record, -1 for none."""
    return max((each.run for each in _parsed(texts) if each.checkpoint == checkpoint), default=-1)


def has_left(texts: Iterable[str], checkpoint: str) -> bool:
    """Whether the app has moved from this very checkpoint to the embedded engine."""
    return any(each.kind == _LEFT and each.checkpoint == checkpoint for each in _parsed(texts))


def has_run(texts: Iterable[str], checkpoint: str) -> bool:
    """Whether a task has committed a batch of this checkpoint."""
    own = [each for each in _parsed(texts) if each.checkpoint == checkpoint]
    return any(batch_of(each.token) >= 0 for each in own)


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
                f"another driver, or a move, runs this app since {_time(each.run)}, with this "
                "checkpoint or a copy of it: stop this driver"
            )
        if age > 0:
            raise StateError(
                f"another driver runs this app since {_time(int(each.checkpoint))}: it has begun "
                "with another checkpoint after this one: give the newer one, or a new "
                "--checkpoint, which begins without state"
            )


def recorded_version(
    recorded: Mapping[str, tuple[int, str]], checkpoint: str, batch: int, before: Version
) -> Version | None:
    """Return the version that a transaction of this batch has recorded; None if none was committed.

    `recorded` has the offset and the text of each input, `before` is the version that the batch
    begins with. Texts of other checkpoints do not count. Raise StateError if another batch than the
    one that has made `before` was committed last."""
    found = _parsed(text for _, text in recorded.values())
    own = [each for each in found if each.checkpoint == checkpoint]
    if not own:
        return None
    newest = max(own, key=lambda each: batch_of(each.token))
    last = batch_of(newest.token)
    if last > batch or (last < batch and not _leads_to(newest, before)):
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


def _leads_to(newest: TaskRecord, version: Version) -> bool:
    """Whether the attempt that has committed last has made this version, or an older one: without
    transactions attempts record nothing."""
    if newest.token == version.token:
        return True
    return batch_of(newest.token) < (batch_of(version.token) if version.token else 0)


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _parsed(texts: Iterable[str]) -> list[TaskRecord]:
    """Return what those of the texts say that record something."""
    found = [match.groups() for text in set(texts) if (match := _TEXT.fullmatch(text))]
    return [
        TaskRecord(checkpoint, int(run), token, kind, int(size_bytes), times)
        for checkpoint, run, token, kind, size_bytes, times in found
    ]
