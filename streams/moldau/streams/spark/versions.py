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
from dataclasses import asdict, field, replace
from typing import Any, Final

from moldau.deferred import dataclass
from moldau.streams.problems import StateError

SNAPSHOT: Final = "snapshot"
DELTA: Final = "delta"
_DELTAS_MIN: Final = 8
_DELTAS_MAX: Final = 64
KEPT_BATCHES: Final = 8
_BATCH_DIGITS: Final = 12


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


def batch_of(token: str) -> int:
    """Return the batch of an attempt."""
    return int(token[:_BATCH_DIGITS])


def lacking(folder: str, name: str) -> StateError:
    """Return the error for a file of a version that is not there."""
    return StateError(
        f"{folder}: the file {name}, which a committed batch has written, is not there, so this "
        "checkpoint is an old copy or incomplete: give the newest one, or a new --checkpoint, "
        "which begins without state"
    )


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
