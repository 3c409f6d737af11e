"""The change that a run is to judge: the files that differ from an earlier commit.

The earlier commit is the newest one that is at least four hours older than HEAD;
CHANGED_SINCE names another one. Both dates are those of the committer, so a run of the same
commit always looks at the same files. Where there is no such commit (a shallow clone, no git), the
change is not known, and every file counts as changed.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SINCE: Final = "CHANGED_SINCE"
HOURS: Final = 4
DAY_S: Final = 24 * 60 * 60

Change = frozenset[str] | None
"""Paths in the repository, removed ones included; None if the change is not known."""


def touches(change: Change, path: str) -> bool:
    """Whether the file belongs to the change."""
    return change is None or path in change


def changed(root: Path, environ: Mapping[str, str] = os.environ) -> Change:
    """Return the files that differ from the earlier commit, those that git does not have yet
    included."""
    since = environ.get(SINCE) or _earlier_commit(root)
    if since is None:
        return None
    differing = _git(root, "diff", "--name-only", "--no-renames", "-z", since, "--")
    added = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    if differing is None or added is None:
        return None
    return frozenset(each for each in (differing + added).split("\0") if each)


def day(root: Path) -> int:
    """Return the number of the day of HEAD in UTC; 0 where there is no git."""
    return (_committed_s(root) or 0) // DAY_S


def _earlier_commit(root: Path) -> str | None:
    head_s = _committed_s(root)
    if head_s is None:
        return None
    latest_s = head_s - HOURS * 60 * 60
    found = _git(root, "rev-list", "--max-count=1", f"--min-age={latest_s}", "HEAD")
    return found.strip() or None if found is not None else None


def _committed_s(root: Path) -> int | None:
    found = _git(root, "show", "--no-patch", "--format=%ct", "HEAD")
    return int(found) if found else None


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git prints; None if it fails or is not installed."""
    command = ["git", *arguments]
    try:
        answer = subprocess.run(command, cwd=root, capture_output=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.decode("utf-8")
