"""The versions of the tasks' stores: which files make each, by batch. Pure.

Invariants: a version is made by one attempt of one batch, and its files never change. Only the
driver's commit file says which attempt counts, so what other attempts leave is never read. A batch
that runs again begins with the version before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

SNAPSHOT: Final = "snapshot"
DELTA: Final = "delta"
_DELTAS_MIN: Final = 8
_DELTAS_MAX: Final = 64
KEPT_BATCHES: Final = 8


@dataclass(frozen=True, slots=True)
class Version:
    """The stores of one task after a batch: the attempt's token, its files in order, and the text
    with the stream times."""

    token: str = ""
    files: tuple[str, ...] = ()
    snapshot_bytes: int = 0
    delta_bytes: int = 0
    times: str = ""

    def wants_snapshot(self) -> bool:
        """Whether a restore would read much more than the rows that are there."""
        deltas = len(self.files)
        is_long = deltas >= _DELTAS_MIN and self.delta_bytes > self.snapshot_bytes
        return is_long or deltas >= _DELTAS_MAX

    def after(self, token: str, size_bytes: int, times: str, *, is_snapshot: bool) -> Version:
        """Return the version that an attempt has made from this one."""
        if is_snapshot:
            return Version(token, (f"{token}.{SNAPSHOT}",), size_bytes, 0, times)
        files = (*self.files, f"{token}.{DELTA}") if size_bytes else self.files
        return Version(token, files, self.snapshot_bytes, self.delta_bytes + size_bytes, times)


def token_of(batch: int, run: int, attempt: int) -> str:
    """Return the name of an attempt. `run` counts the starts of the driver."""
    return f"{batch:012d}-{run}-{attempt}"


def to_json(versions: Mapping[int, Version]) -> str:
    """Return the text of a commit file."""
    return json.dumps({str(task): asdict(each) for task, each in sorted(versions.items())})


def from_json(text: str) -> dict[int, Version]:
    """Return the versions in a commit file."""
    return {
        int(task): Version(**{**each, "files": tuple(each["files"])})
        for task, each in json.loads(text).items()
    }


def stale_files(names: Iterable[str], kept: Sequence[Version], before: int) -> list[str]:
    """Return the files that no kept version has, of batches before `before`: no attempt of such a
    batch still counts."""
    used = {name for version in kept for name in version.files}
    edge = token_of(before, 0, 0)[:12]
    return [name for name in names if name not in used and name[:12] < edge]
