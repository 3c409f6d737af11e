"""The newest Python of this machine: `python -m tests.newest_python` prints where it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from release.pythons import NEWEST, OLDEST, candidates, version


def newest(among: Iterable[Path], than: tuple[int, ...]) -> Path | None:
    """The newest of them, if its minor version is newer than `than`."""
    versions = {python: version(python) for python in among}
    fitting = [
        (found, python)
        for python, found in versions.items()
        if than[:2] < found[:2] and OLDEST <= found[:2] <= NEWEST
    ]
    return max(fitting)[1] if fitting else None


def main() -> None:
    found = newest(candidates(os.environ.get("PATH", ""), Path.home()), sys.version_info[:2])
    if found is None:
        print(f"there is no newer Python than {sys.version.split()[0]} here", file=sys.stderr)
    else:
        print(found)


if __name__ == "__main__":
    main()
