"""The versions of the tasks' stores, by batch: which files make each, and what was read. Pure.

Invariants: a version is made by one attempt of one batch, and its files never change. Only the
driver's commit file says which attempt counts, so what other attempts leave is never read. With
exactly-once the attempt's transaction records its version, so that the driver finds the one that
has counted. A batch
that runs again begins with the version before it. The offsets of a version are where its task goes
on, so the stores and what was read are never apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from moldau.streams.problems import StateError

SNAPSHOT: Final = "snapshot"
DELTA: Final = "delta"
_DELTAS_MIN: Final = 8
_DELTAS_MAX: Final = 64
KEPT_BATCHES: Final = 8
_BATCH_DIGITS: Final = 12
_PARTS: Final = 5
_TEXT_BYTES_MAX: Final = 4096
"""What brokers keep as the text of an offset."""


@dataclass(frozen=True, slots=True)
class Version:
    """The stores of one task after a batch: the attempt's token, its files in order, the text with
    the stream times, and the next offset of each input."""

    token: str = ""
    files: tuple[str, ...] = ()
    snapshot_bytes: int = 0
    delta_bytes: int = 0
    times: str = ""
    offsets: Mapping[str, int] = field(default_factory=dict)

    def at(self, offsets: Mapping[str, int]) -> Version:
        """Return these stores with other offsets."""
        return replace(self, offsets=dict(offsets))

    def wants_snapshot(self) -> bool:
        """Whether a restore would read much more than the rows that are there."""
        deltas = len(self.files)
        is_long = deltas >= _DELTAS_MIN and self.delta_bytes > self.snapshot_bytes
        return is_long or deltas >= _DELTAS_MAX

    def after(self, token: str, size_bytes: int, times: str, *, is_snapshot: bool) -> Version:
        """Return the version that an attempt has made from this one; it has no offsets yet."""
        if is_snapshot:
            return Version(token, (f"{token}.{SNAPSHOT}",), size_bytes, 0, times)
        files = (*self.files, f"{token}.{DELTA}") if size_bytes else self.files
        return Version(token, files, self.snapshot_bytes, self.delta_bytes + size_bytes, times)


def token_of(batch: int, run: int, attempt: int) -> str:
    """Return the name of an attempt. `run` counts the starts of the driver."""
    return f"{batch:0{_BATCH_DIGITS}d}-{run}-{attempt}"


def lacking(folder: str, name: str) -> StateError:
    """Return the error for a file of a version that is not there."""
    return StateError(
        f"{folder}: the file {name}, which a committed batch has written, is not there, so this "
        "checkpoint is an old copy or incomplete: give the newest one, or a new --checkpoint, "
        "which begins without state"
    )


def check_newest(texts: Iterable[str], checkpoint: str) -> None:
    """Raise StateError if an app with repartition topics has begun another checkpoint after this
    one: its records are in these topics too, and may have replaced ours."""
    found = [parts[0] for parts in _parted(texts) if parts[0].isdecimal()]
    if any(int(each) > int(checkpoint) for each in found):
        raise StateError(
            "the app has begun with another checkpoint after this one, which shares its "
            "repartition topics: give the newer one, or a new --checkpoint, which begins without "
            "state"
        )


def begun_text(checkpoint: str) -> str:
    """Return the text that records, before any batch, that a checkpoint has begun."""
    return f"{checkpoint} {token_of(-1, 0, 0)} {DELTA} 0 "


def recorded_text(checkpoint: str, before: Version, after: Version) -> str:
    """Return the text that records a version with the outputs of its batch."""
    is_snapshot = after.files == (f"{after.token}.{SNAPSHOT}",)
    kind, size_bytes = DELTA, after.delta_bytes - before.delta_bytes
    if is_snapshot:
        kind, size_bytes = SNAPSHOT, after.snapshot_bytes
    text = f"{checkpoint} {after.token} {kind} {size_bytes} {after.times}"
    assert len(text) <= _TEXT_BYTES_MAX
    return text


def recorded_version(
    recorded: Mapping[str, tuple[int, str]], checkpoint: str, batch: int, before: Version
) -> Version | None:
    """Return the version that a transaction of this batch has recorded; None if none was committed.

    `recorded` has the offset and the text of each input, `before` is the version that the batch
    begins with. Texts of other checkpoints do not count. Raise StateError if a later batch was
    committed."""
    found = _parted(text for _, text in recorded.values())
    newest = max((parts for parts in found if parts[0] == checkpoint), default=None)
    if newest is None:
        return None
    _, token, kind, size_bytes, times = newest
    last = int(token[:_BATCH_DIGITS])
    if last > batch:
        raise StateError(
            f"batch={batch}: the app has committed batch {last} already, so this checkpoint is an "
            "old copy: give the newest one, or a new --checkpoint, which begins without state"
        )
    if last < batch:
        return None
    own = " ".join(newest)
    offsets = {topic: offset for topic, (offset, text) in recorded.items() if text == own}
    version = before.after(token, int(size_bytes), times, is_snapshot=kind == SNAPSHOT)
    return version.at({**before.offsets, **offsets})


def _parted(texts: Iterable[str]) -> list[list[str]]:
    """Return the parts of those texts that record versions."""
    return [parts for text in set(texts) if len(parts := text.split(" ", 4)) == _PARTS]


def to_json(versions: Mapping[int, Version]) -> str:
    """Return the text of a commit file."""
    return json.dumps(_plain(versions))


def from_json(text: str) -> dict[int, Version]:
    """Return the versions in a commit file."""
    return _versions(json.loads(text))


def beginning_to_json(programs: Mapping[int, Mapping[int, Version]]) -> str:
    """Return the text of the file with the versions that all sub-topologies begin with."""
    return json.dumps({str(index): _plain(each) for index, each in sorted(programs.items())})


def beginning_from_json(text: str) -> dict[int, dict[int, Version]]:
    """Return the versions that the sub-topologies begin with."""
    return {int(index): _versions(each) for index, each in json.loads(text).items()}


def _plain(versions: Mapping[int, Version]) -> dict[str, Any]:
    return {str(task): asdict(each) for task, each in sorted(versions.items())}


def _versions(plain: Mapping[str, Any]) -> dict[int, Version]:
    return {
        int(task): Version(**{**each, "files": tuple(each["files"])})
        for task, each in plain.items()
    }


def stale_files(names: Iterable[str], kept: Sequence[Version], before: int) -> list[str]:
    """Return the files that no kept version has, of batches before `before`: no attempt of such a
    batch still counts."""
    used = {name for version in kept for name in version.files}
    edge = token_of(before, 0, 0)[:_BATCH_DIGITS]
    return [name for name in names if name not in used and name[:_BATCH_DIGITS] < edge]
